"""`manage.py program`: the operator's catalogue of programs, and which tenants may bring programs of their own."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduling.catalogue.read_catalogue import may_bring, read_all, read_program
from scheduling.catalogue.registration import (
    InvalidProgram,
    program_offer,
    program_register,
    program_retire,
    programs_allow,
)
from scheduling.common import BadText, plain_document, plain_text
from scheduling.lab.tables import table
from scheduling.programs.catalogue import LONGEST_SCRIPT, document_of
from scheduling.programs.stored import OPERATOR
from scheduling.programs.templates import TEMPLATES
from tenants.access import Access, Refused, access_of_system
from tenants.ledger.management.base import DatabaseCommand
from tenants.selectors import tenant_by_slug

BY: Access = access_of_system("program")


class Command(DatabaseCommand):
    help = "List, show, register and retire programs of the operator's, and let a tenant bring its own."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="all programs, tenants' own first")
        listing.add_argument("--tenant", default="", metavar="SLUG", help="only those of this tenant")
        show = actions.add_parser("show", help="one program: its words, and its versions")
        show.add_argument("name", help="of a program, or of a template: torchrun, script, ps-env")
        show.add_argument("--tenant", default=OPERATOR, metavar="SLUG", help="whose, where it is not the operator's")
        show.add_argument("--version", dest="number", type=int, help="which one; without it, the newest")
        register = actions.add_parser("register", help="a program of the operator's, or its next version")
        register.add_argument("file", type=Path, metavar="FILE.yaml")
        register.add_argument("--archive", type=Path, metavar="FILE.tar.gz", help="unpacked into each job's folder")
        register.add_argument("--for", dest="tenants", metavar="SLUG,SLUG", help="only for these tenants")
        retire = actions.add_parser("retire", help="no new job can name it; jobs that have it keep it")
        retire.add_argument("name")
        offer = actions.add_parser("offer", help="change for which tenants a program of the operator's is")
        offer.add_argument("name")
        whom = offer.add_mutually_exclusive_group(required=True)
        whom.add_argument("--for", dest="tenants", metavar="SLUG,SLUG", help="only for these tenants")
        whom.add_argument("--all", dest="tenants", action="store_const", const=None, help="for all tenants")
        allow = actions.add_parser("allow", help="let a tenant bring programs of its own")
        allow.add_argument("tenant", metavar="TENANT")
        allow.add_argument("--no", dest="may_bring", action="store_false", help="not any more")
        for action in (register, retire, offer, allow):
            action.add_argument("--reason", required=True, help="why; it stands in the history")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        {
            "list": self._list,
            "show": self._show,
            "register": self._register,
            "retire": self._retire,
            "offer": self._offer,
            "allow": self._allow,
        }[action](options)

    def _list(self, options: dict[str, Any]) -> None:
        lines = [line for line in read_all() if options["tenant"] in ("", line.owner)]
        rows = [
            [
                line.owner,
                line.name,
                "built in" if line.version is None else str(line.version),
                line.shape,
                "retired" if line.retired_at else "",
                "all" if line.tenants is None and line.is_operators else ", ".join(line.tenants or ()) or "its members",
                line.title,
            ]
            for line in lines
        ]
        names = ["owner", "name", "version", "shape", "state", "for", "title"]
        self.stdout.write(table(names, rows) if rows else "no programs")

    def _show(self, options: dict[str, Any]) -> None:
        name, owner = options["name"], options["tenant"]
        page = read_program(owner=owner, name=name, version=options["number"], tenant=None, at=timezone.now())
        if page is None:
            if owner == OPERATOR and name in TEMPLATES:
                self.stdout.write(
                    f"# A template to copy: nothing of this name is registered.\n{plain_text(TEMPLATES[name])}"
                )
                return
            raise CommandError(f"{owner} has no such program.")
        if page.program is None:
            self.stdout.write(f"{name} is built in. {page.line.description}")
            return
        self.stdout.write(
            f"# {page.line.owner}, version {page.program.version}\n{plain_text(document_of(page.program))}"
        )
        rows = [[str(row.version), f"{row.registered_at:%Y-%m-%d %H:%M}", row.by, row.digest] for row in page.versions]
        self.stdout.write(table(["version", "registered (UTC)", "by", "digest"], rows))

    def _register(self, options: dict[str, Any]) -> None:
        archive = options["archive"]
        try:
            document = plain_document(options["file"].read_text(encoding="utf-8"), longest=2 * LONGEST_SCRIPT)
            content = archive.open("rb") if archive is not None else nullcontext()
        except (OSError, UnicodeDecodeError, BadText) as error:
            raise CommandError(str(error)) from error
        if not isinstance(document, dict):
            raise CommandError(f"{options['file']}: write the fields of one program, for example `name: mine`.")
        tenants = None if options["tenants"] is None else options["tenants"].split(",")
        with content as file:
            outcome = program_register(
                document=document, archive=file, tenants=tenants, by=BY, at=timezone.now(), reason=options["reason"]
            )
        if isinstance(outcome, InvalidProgram):
            raise CommandError("\n".join(f"{fault.field}: {fault.sentence}." for fault in outcome.faults))
        if isinstance(outcome, Refused):
            raise CommandError(outcome.sentence)
        predicate = "is as before" if outcome.repeated else "is registered"
        self.stdout.write(
            f"{outcome.row.program.name}, version {outcome.row.version}, {predicate}: {outcome.row.digest}"
        )

    def _retire(self, options: dict[str, Any]) -> None:
        outcome = program_retire(name=options["name"], by=BY, at=timezone.now(), reason=options["reason"])
        if isinstance(outcome, Refused):
            raise CommandError(outcome.sentence)
        self.stdout.write(f"{outcome.name} is retired.")

    def _offer(self, options: dict[str, Any]) -> None:
        tenants = None if options["tenants"] is None else options["tenants"].split(",")
        outcome = program_offer(
            name=options["name"], tenants=tenants, by=BY, at=timezone.now(), reason=options["reason"]
        )
        if isinstance(outcome, Refused):
            raise CommandError(outcome.sentence)
        whom = "all tenants" if outcome.tenants is None else ", ".join(outcome.tenants)
        self.stdout.write(f"{outcome.name} is for {whom}.")

    def _allow(self, options: dict[str, Any]) -> None:
        tenant = tenant_by_slug(options["tenant"])
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']}.")
        wanted = options["may_bring"]
        outcome = programs_allow(tenant=tenant, may_bring=wanted, by=BY, at=timezone.now(), reason=options["reason"])
        if isinstance(outcome, Refused):
            raise CommandError(outcome.sentence)
        self.stdout.write(f"{tenant.slug} {'may' if may_bring(tenant) else 'may not'} bring programs.")

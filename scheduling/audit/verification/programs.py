"""Verifying the catalogue of programs against the history: who registered what under which digest, for whom, and who
may bring programs.

Findings name what is wrong by digests, as the auditor may not read what is in a program.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scheduling.audit.verification.findings import Finding, differences
from scheduling.models import (
    ArchiveKeeping,
    CatalogueProgram,
    OperatorSecret,
    ProgramArchive,
    ProgramArchivePiece,
    ProgramSwitch,
    ProgramVersion,
)
from scheduling.programs.catalogue import Program, ProgramOwner, read
from scheduling.programs.stored import OPERATOR, archive_pieces
from tenants.models import AuditEntry, Tenant

ACTIONS = ("program_register", "program_retire", "program_offer", "programs_allow")
SUBJECT = re.compile(r"(program (\S+)|programs) of (\S+)")


@dataclass
class ProgramSet:
    """One program as the history says it should be."""

    created_at: datetime
    versions: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    retired_at: datetime | None = None
    tenants: list[str] | None = None


def programs_verify() -> Iterator[Finding]:
    """Compare every program, version, archive and switch with the history."""
    programs, switches = _of_history()
    slugs = dict(Tenant.objects.values_list("pk", "slug"))
    rows = list(CatalogueProgram.objects.order_by("pk"))
    owners = {row.pk: _owner(row.tenant_id, slugs) for row in rows}
    stand = {(owners[row.pk], row.name): row for row in rows}
    for key in sorted(stand.keys() | programs.keys()):
        where, row, right = f"program {key[1]} of {key[0]}", stand.get(key), programs.get(key)
        if row is None or right is None:
            yield Finding(
                where, "it is gone" if row is None else "no entry of the history tells that it was registered"
            )
            continue
        yield from differences(
            where,
            {
                "made at": (row.created_at, right.created_at),
                "retired at": (row.retired_at, right.retired_at),
                "for whom": (row.tenants, right.tenants),
            },
        )
    yield from _versions_verify({row.pk: (owners[row.pk], row.name) for row in rows}, programs)
    yield from _archives_verify()
    yield from _secrets_verify()
    documents = {
        slugs.get(pk, f"tenant {pk}"): may for pk, may in ProgramSwitch.objects.values_list("tenant_id", "may_bring")
    }
    for slug in sorted(documents.keys() | switches.keys()):
        yield from differences(
            f"programs of {slug}", {"may bring": (documents.get(slug, False), switches.get(slug, False))}
        )
        if slug in documents and slug not in switches:
            yield Finding(f"programs of {slug}", "no entry of the history tells of the switch")


def _of_history() -> tuple[dict[tuple[str, str], ProgramSet], dict[str, bool]]:
    programs, switches = dict[tuple[str, str], ProgramSet](), dict[str, bool]()
    entries = AuditEntry.objects.filter(action__in=ACTIONS).order_by("sequence")
    for entry in entries.iterator(chunk_size=2_000):
        if (subject := SUBJECT.fullmatch(entry.subject)) is None:
            continue
        _, name, owner = subject.groups()
        after: dict[str, Any] = entry.after or {}
        if entry.action == "programs_allow":
            switches[owner] = after["may_bring"]
        elif entry.action == "program_register":
            program = programs.setdefault((owner, name), ProgramSet(entry.at))
            who = {"at": entry.at, "by": entry.actor_id, "by_name": entry.actor_name}
            program.versions.setdefault(after["version"], after | who)
            program.retired_at, program.tenants = None, after["tenants"]
        elif (owner, name) in programs and entry.action == "program_retire":
            programs[owner, name].retired_at = entry.at
        elif (owner, name) in programs:
            programs[owner, name].tenants = after["tenants"]
    return programs, switches


def _versions_verify(
    keys: Mapping[int, tuple[str, str]], programs: Mapping[tuple[str, str], ProgramSet]
) -> Iterator[Finding]:
    right = {(*key, number): entry for key, each in programs.items() for number, entry in each.versions.items()}
    nobody = (OPERATOR, "?")
    rows = {(*keys.get(row.program_id, nobody), row.version): row for row in ProgramVersion.objects.order_by("pk")}
    for key in sorted(rows.keys() | right.keys()):
        owner, name, number = key
        where, row, entry = f"version {number} of program {name} of {owner}", rows.get(key), right.get(key)
        if row is None or entry is None:
            yield Finding(
                where, "it is gone" if row is None else "no entry of the history tells that it was registered"
            )
            continue
        value = read(row.document, ProgramOwner("" if owner == OPERATOR else owner))
        yield from differences(
            where,
            {
                "digest": (row.digest, entry["digest"]),
                "the digest of its document": (value.digest if isinstance(value, Program) else "", entry["digest"]),
                "archive": (row.archive_id or "", entry["archive"]),
                "registered at": (row.registered_at, entry["at"]),
                "registered by": ((row.registered_by_id, row.registered_by_name), (entry["by"], entry["by_name"])),
            },
        )


def _archives_verify() -> Iterator[Finding]:
    named = set(ProgramVersion.objects.exclude(archive=None).values_list("archive_id", flat=True))
    removed = set(ArchiveKeeping.objects.filter(removed_at__isnull=False).values_list("archive_id", flat=True))
    digests = set[str]()
    for row in ProgramArchive.objects.order_by("pk"):
        digests.add(row.digest)
        where = f"archive {row.digest[:12]}"
        if row.digest not in named:
            yield Finding(where, "no version has it")
        content, size = hashlib.sha256(), 0
        if row.digest in removed:  # a copy of the files can still be proved by this digest
            if ProgramArchivePiece.objects.filter(archive=row.digest).exists():
                yield Finding(where, "its content was removed, and there is some")
            continue
        numbers = list(ProgramArchivePiece.objects.filter(archive=row.digest).values_list("number", flat=True))
        for piece in archive_pieces(row.digest):
            content.update(piece)
            size += len(piece)
        pairs: dict[str, tuple[Any, Any]] = {"digest": (content.hexdigest(), row.digest), "size": (row.size, size)}
        pairs["pieces"] = (sorted(numbers), list(range(len(numbers))))
        yield from differences(where, pairs)
    for digest in sorted(named - digests):
        yield Finding(f"archive {digest[:12]}", "it is gone")


def _secrets_verify() -> Iterator[Finding]:
    """Compare the names of secrets, and who may use them. Nobody may see what is in them."""
    right: dict[str, tuple[Any, ...]] = {}
    for entry in AuditEntry.objects.filter(action__in=("secret_set", "secret_remove")).order_by("sequence"):
        name, after = entry.subject.removeprefix("secret "), entry.after
        right[name] = (after["tenants"], entry.at, None) if after is not None else (*right[name][:2], entry.at)
    rows = {row.name: (row.tenants, row.set_at, row.removed_at) for row in OperatorSecret.objects.defer("secret")}
    for name in sorted(rows.keys() | right.keys()):
        if name not in rows or name not in right:
            sentence = "it is gone" if name not in rows else "no entry of the history tells that it was set"
            yield Finding(f"secret {name}", sentence)
            continue
        words = ("for whom", "set at", "removed at")
        yield from differences(
            f"secret {name}", dict(zip(words, zip(rows[name], right[name], strict=True), strict=True))
        )


def _owner(tenant_id: int | None, slugs: Mapping[int, str]) -> str:
    return OPERATOR if tenant_id is None else slugs.get(tenant_id, f"tenant {tenant_id}")

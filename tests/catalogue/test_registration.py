"""Programs are registered by whom the rules allow; versions never change; archives of strangers cannot be claimed."""

from __future__ import annotations

import hashlib
import io
import random
import tarfile
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from scheduling.catalogue.read_entries import archive_refusals
from scheduling.catalogue.registration import (
    InvalidProgram,
    Registered,
    program_offer,
    program_register,
    program_retire,
    programs_allow,
)
from scheduling.models import CatalogueProgram, ProgramArchive, ProgramArchivePiece, ProgramVersion
from scheduling.programs.catalogue import Program, ProgramOwner, document_of, read
from scheduling.programs.stored import stored_program, usable_programs
from scheduling.programs.templates import TEMPLATES
from tenants.access import Access, Refused
from tenants.models import AuditEntry
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tests.catalogue.builders import BY, DOCUMENT, WHY, allow, archive_with, member, register
from tests.scheduling.builders import NOON, make_tenant

pytestmark = pytest.mark.django_db


def refused(by: Access, **fields: Any) -> Refused:
    options = {name: fields.pop(name) for name in ("archive", "tenants", "is_new", "name_of") if name in fields}
    options["name"] = options.pop("name_of", None)
    outcome = program_register(document=DOCUMENT | fields, by=by, at=NOON, reason=WHY, **({"archive": None} | options))
    assert isinstance(outcome, Refused), outcome
    return outcome


def names(tenant: Any) -> list[tuple[str, str, int]]:
    return [
        (each.program.name, each.program.owner.tenant, each.version) for each in usable_programs(tenant_id=tenant.pk)
    ]


# ---------------------------------------------------------------- who


def test_tenant_brings_programs_only_where_the_operator_lets_it() -> None:
    lumen = make_tenant("lumen")
    assert refused(member(lumen)).code == "programs_not_allowed"
    allow(lumen)
    assert register(member(lumen)).version == 1
    allow(lumen, may_bring=False)
    assert refused(member(lumen), title="Other").code == "programs_not_allowed"
    assert names(lumen) == []
    allow(lumen)
    assert names(lumen) == [("align", "lumen", 1)]


@pytest.mark.parametrize(
    ("role", "may"),
    [(VIEWER, False), (BILLING, False), (AUDITOR, False), (OPERATOR, False), (SUBMITTER, True), (OWNER, True)],
)
def test_submitters_and_owners_register_for_their_tenant(role: str, may: bool) -> None:
    lumen = make_tenant("lumen")
    allow(lumen)
    outcome = program_register(document=DOCUMENT, archive=None, by=member(lumen, role), at=NOON)
    assert isinstance(outcome, Registered) == may


@pytest.mark.parametrize("role", [AUDITOR, OWNER])
def test_only_the_operator_registers_its_programs_and_switches_tenants(role: str) -> None:
    lumen, by = make_tenant("lumen"), Access(user=None, tenant=None, roles=frozenset({role}))
    assert refused(by).code == "not_allowed"
    switched = programs_allow(tenant=lumen, may_bring=True, by=by, reason=WHY, at=NOON)
    offered = program_offer(name="align", tenants=None, by=by, reason=WHY, at=NOON)
    assert isinstance(switched, Refused)
    assert isinstance(offered, Refused)


def test_operator_says_why_and_for_whom() -> None:
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    missing = program_register(document=DOCUMENT, archive=None, by=BY, at=NOON)
    assert isinstance(missing, Refused)
    assert missing.code == "reason_missing"
    assert refused(BY, tenants=["nobody"]).code == "unknown_tenant"
    register(BY, tenants=["castor"])
    assert (names(castor), names(lumen)) == ([("align", "", 1)], [])
    register(BY, title="Next")  # for whom it is stays
    assert (names(castor), names(lumen)) == ([("align", "", 2)], [])
    program_offer(name="align", tenants=None, by=BY, reason=WHY, at=NOON)
    assert names(lumen) == [("align", "", 2)]


# ---------------------------------------------------------------- versions


def test_edit_makes_the_next_version_and_the_same_again_makes_none() -> None:
    lumen = make_tenant("lumen")
    allow(lumen)
    first, again = register(member(lumen)), register(member(lumen))
    second = register(member(lumen), title="Other")
    assert (first.pk, first.version, second.version) == (again.pk, 1, 2)
    first_version = stored_program(tenant_id=lumen.pk, name="align", version=1)
    newest = stored_program(tenant_id=lumen.pk, name="align", version=None)
    assert first_version is not None
    assert newest is not None
    assert (first_version.program.title, newest.program.title) == ("Alignment", "Other")
    assert first_version.program.digest == first.digest


def test_new_program_is_no_version_of_one_that_is_there() -> None:
    register(BY)
    assert refused(BY, title="Other", is_new=True).code == "program_exists"
    assert register(BY, is_new=True).version == 1  # the same, sent twice
    assert refused(BY, name="other", is_new=False).code == "unknown_program"
    assert refused(BY, name="other", name_of="align").code == "invalid_program"


def test_name_is_unique_within_its_owner_and_the_tenants_own_comes_first() -> None:
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    allow(lumen)
    register(BY, title="Theirs")
    register(member(lumen), title="Mine")
    for tenant, title in ((lumen, "Mine"), (castor, "Theirs")):
        program = stored_program(tenant_id=tenant.pk, name="align", version=None)
        assert program is not None
        assert program.program.title == title
    theirs = stored_program(tenant_id=lumen.pk, name="align", version=1, owner="operator")
    assert theirs is not None
    assert theirs.program.title == "Theirs"


def test_program_of_another_tenant_is_not_there() -> None:
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    allow(lumen)
    allow(castor)
    register(member(lumen))
    for version in (1, None):
        assert stored_program(tenant_id=castor.pk, name="align", version=version) is None
    assert names(castor) == []


def test_retired_program_stays_for_jobs_that_have_it_and_a_new_version_brings_it_back() -> None:
    lumen = make_tenant("lumen")
    register(BY)
    retired = program_retire(name="align", by=BY, at=NOON, reason=WHY)
    assert isinstance(retired, CatalogueProgram)
    assert names(lumen) == []
    assert stored_program(tenant_id=lumen.pk, name="align", version=1) is not None
    assert register(BY).version == 1
    assert names(lumen) == [("align", "", 1)]


def test_tenant_needs_no_reason_to_retire_its_program_but_one_that_the_history_can_hold() -> None:
    lumen = make_tenant("lumen")
    allow(lumen)
    register(member(lumen))
    refusal = program_retire(name="align", by=member(lumen), at=NOON, reason="x" * 301)
    assert isinstance(refusal, Refused)
    assert refusal.code == "reason_too_long"
    assert isinstance(program_retire(name="align", by=member(lumen), at=NOON), CatalogueProgram)


def test_database_changes_no_version_and_no_archive() -> None:
    register(BY, archive_with("train.py"))
    for change in (
        lambda: ProgramVersion.objects.update(digest="0" * 64),
        lambda: ProgramVersion.objects.all().delete(),
        lambda: ProgramArchive.objects.update(size=1),
        lambda: ProgramArchive.objects.all().delete(),
        lambda: ProgramArchivePiece.objects.update(number=7),
        lambda: ProgramArchivePiece.objects.all().delete(),
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()


@pytest.mark.parametrize("template", TEMPLATES)
def test_document_of_a_program_says_the_program_again(template: str) -> None:
    document = TEMPLATES[template] | {
        "environment": {"MODE": "fast"},
        "limits": {"open_files": 64},
        "modules": ["cuda/12"],
        "grace_seconds": 5,
    }
    program = read(document, ProgramOwner())
    assert isinstance(program, Program)
    assert read(document_of(program), ProgramOwner()) == program


# ---------------------------------------------------------------- what is refused


def test_all_that_is_wrong_is_told_by_field() -> None:
    refusal = refused(BY, shape="round", grace_seconds=0)
    assert isinstance(refusal, InvalidProgram)
    assert [fault.field for fault in refusal.faults] == ["shape", "grace_seconds"]
    assert not CatalogueProgram.objects.exists()


def test_sentence_that_asks_ends_with_its_question_mark() -> None:
    assert refused(BY, tittle="Other").sentence.endswith("did you mean title?")
    assert refused(BY, tittle="Other", grace_seconds=0).sentence.endswith("? 1 more thing is wrong.")


@pytest.mark.parametrize("script", ["a\0b", "half \ud800 a letter"])
def test_text_that_no_database_keeps_is_refused(script: str) -> None:
    assert refused(BY, command=[], script=script).code == "invalid_program"


def test_name_of_what_is_built_in_is_taken() -> None:
    assert refused(BY, name="trainer").code == "invalid_program"


def test_archive_is_kept_once_and_not_claimed_by_its_digest() -> None:
    lumen, castor, archive = make_tenant("lumen"), make_tenant("castor"), archive_with("train.py")
    digest = hashlib.sha256(archive).hexdigest()
    allow(lumen)
    allow(castor)
    register(member(lumen), archive)
    claimed = program_register(document=DOCUMENT | {"archive": digest}, archive=None, by=member(castor), at=NOON)
    assert isinstance(claimed, InvalidProgram)
    assert (claimed.field, CatalogueProgram.objects.count()) == ("archive", 1)
    again = program_register(
        document=DOCUMENT | {"archive": digest, "title": "Other"}, archive=None, by=member(lumen), at=NOON
    )
    assert isinstance(again, Registered)
    register(member(castor), archive)
    assert ProgramArchive.objects.count() == 1
    stored = stored_program(tenant_id=lumen.pk, name="align", version=2)
    assert stored is not None
    assert stored.archive == archive


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: b"no gzip at all", "no tar.gz"),
        (lambda: b"", "empty"),
        (lambda: archive_with("/etc/passwd"), '"/etc/passwd" is absolute'),
        (lambda: archive_with("../up"), '"../up" leaves'),
        (lambda: archive_with("pipe", type=tarfile.FIFOTYPE), '"pipe" is a device'),
        (lambda: archive_with("out", type=tarfile.SYMTYPE, linkname="../.."), '"out" is a link that leaves'),
        (lambda: archive_with("whole")[:-20], "no tar.gz"),
        (lambda: archive_with("zeros", content=bytes(201 * 1024**2)), "larger than 200 MiB"),
        (lambda: archive_with("long", pax_headers={"comment": "x" * (2 << 20)}), "no tar.gz"),
    ],
    ids=["text", "empty", "absolute", "up", "pipe", "link", "cut", "bomb", "header"],
)
def test_archive_that_cannot_be_unpacked_is_refused_with_its_name(make: Callable[[], bytes], words: str) -> None:
    archive = make()
    (fault, *_) = archive_refusals(io.BytesIO(archive))
    assert words in f"{fault.sentence}"


def test_archive_is_kept_in_pieces_once_and_read_whole() -> None:
    content = archive_with("data", content=random.Random(1).randbytes(5 << 19))  # 2.5 MiB that no gzip makes smaller
    row = register(BY, content)
    register(BY, content, title="The same archive")
    pieces = ProgramArchivePiece.objects.filter(archive=row.archive_id)
    assert [len(piece.content) for piece in pieces] == [1 << 20, 1 << 20, len(content) - (2 << 20)]
    stored = stored_program(tenant_id=make_tenant("lumen").pk, name="align", version=1)
    assert stored is not None
    assert stored.archive == content


def test_history_has_who_and_the_digest_and_no_words() -> None:
    row = register(BY, archive_with("train.py"))
    entry = AuditEntry.objects.get(action="program_register")
    assert (entry.subject, entry.actor_name, entry.reason) == ("program align of operator", "the tests", WHY)
    assert entry.after is not None
    assert (entry.after["version"], entry.after["digest"]) == (1, row.digest)
    assert "train.py" not in str(entry.after)

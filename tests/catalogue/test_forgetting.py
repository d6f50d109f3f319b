"""Files that came along with scripts leave once no job has used them for long, and come again with the script."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from scheduling.app.retention import retention_apply, retention_preview
from scheduling.audit.verification.programs import programs_verify
from scheduling.catalogue import archive_names, registration
from scheduling.catalogue.forgetting import WAIT, archive_remove, archives_close
from scheduling.catalogue.registration import InvalidProgram, Registered, program_register
from scheduling.jobs.submission import InvalidJob, Submitted, job_submit
from scheduling.models import (
    ArchiveKeeping,
    JobState,
    Pool,
    ProgramArchive,
    ProgramArchivePiece,
    ProgramVersion,
    TrainingJob,
)
from scheduling.programs.catalogue import FROM_SCRIPT
from scheduling.programs.stored import archive_pieces
from tenants.access import Refused
from tenants.models import AuditEntry, Tenant
from tenants.roles import OWNER
from tenants.scoping import scope
from tests.catalogue.builders import BY, DOCUMENT, allow, archive_with, member, register
from tests.scheduling.builders import NOON, make_pool, make_server, make_tenant
from tests.scheduling.live import SPEC, fund, make_live_pool
from tests.scheduling.pages import client_as

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
DAYS = 365
LATER = NOON + (DAYS + 2) * DAY
NAME = "train" + FROM_SCRIPT
SCRIPT: dict[str, Any] = {"name": NAME, "command": [], "parameters": [], "script": "python3 train.py\n"}
FILES = archive_with("train.py")
DIGEST = hashlib.sha256(FILES).hexdigest()


@pytest.fixture
def lumen(settings: Any) -> Tenant:
    settings.RETENTION_ARCHIVES_DAYS = DAYS
    tenant = make_tenant("lumen")
    allow(tenant)
    return tenant


def job(
    tenant: Tenant,
    version: int = 1,
    state: str = JobState.FINISHED,
    ended: datetime | None = NOON,
    submitted_at: datetime = NOON,
) -> TrainingJob:
    """One that ran a version of the script."""
    reason = "" if state in (JobState.FINISHED, JobState.RUNNING, JobState.AWARDED) else "waiting_for_interval"
    pool = make_pool(slug=f"p{Pool.objects.count()}")
    spec = {"program": {"name": NAME, "version": version, "parameters": {}}}
    facts: dict[str, Any] = {"lane": "batch", "arrival": 0.0, "request_digest": "d", "submitted_at": submitted_at}
    facts |= {"state": state, "reason_code": reason, "ended_at": ended, "spec": spec}
    with scope(tenant):
        return TrainingJob.objects.create(tenant=tenant, pool=pool, name="train", **facts)


def applied(at: datetime) -> dict[str, int]:
    counts = retention_apply(clock=lambda: at)
    assert counts is not None
    return {name: counts[name] for name in ("archives_closed", "archives", "archives_bytes")}


def leave(at: datetime = LATER) -> int:
    """Both steps: how many archives lost their content."""
    assert applied(at)["archives"] == 0
    return applied(at + WAIT)["archives"]


def is_there(digest: str = DIGEST) -> bool:
    return b"".join(archive_pieces(digest)) != b""


def submitted(tenant: Tenant, slug: str = "main") -> Submitted | Refused:
    """A job that names the script's program."""
    make_server(pool := make_live_pool(slug=slug))
    fund(tenant)
    spec = {name: value for name, value in SPEC.items() if name != "ps_mbps"} | {"ps_demand": []}
    spec |= {"program": {"name": NAME}}
    return job_submit(pool=pool, name="train", spec=spec, lane="batch", by=member(tenant), at=NOON)


def test_files_that_no_job_has_used_for_long_leave_in_two_steps(lumen: Tenant) -> None:
    row = register(member(lumen), FILES, **SCRIPT)
    job(lumen, ended=NOON)
    assert applied(NOON + DAYS * DAY) == {"archives_closed": 0, "archives": 0, "archives_bytes": 0}
    assert retention_preview(at=LATER)["archives"] == 1
    assert retention_preview(at=LATER)["archives_bytes"] == len(FILES)
    assert applied(LATER) == {"archives_closed": 1, "archives": 0, "archives_bytes": 0}
    assert is_there()
    assert applied(LATER + WAIT / 2)["archives"] == 0
    assert applied(LATER + WAIT) == {"archives_closed": 0, "archives": 1, "archives_bytes": len(FILES)}
    assert not is_there()
    assert applied(LATER + 2 * WAIT) == {"archives_closed": 0, "archives": 0, "archives_bytes": 0}
    assert retention_preview(at=LATER)["archives"] == 0
    row.refresh_from_db()
    assert (row.archive_id, ProgramArchive.objects.get().size) == (DIGEST, len(FILES))
    assert list(map(str, programs_verify())) == []
    lines = [entry.after or {} for entry in AuditEntry.objects.filter(action="retention_apply").order_by("sequence")]
    assert [(line["archives_closed"], line["archives"]) for line in lines] == [(1, 0), (0, 1)]


@pytest.mark.parametrize(
    ("state", "ended", "submitted"),
    [
        (JobState.QUEUED, None, NOON),
        (JobState.AWARDED, None, NOON),
        (JobState.RUNNING, None, NOON),
        (JobState.FAILED, LATER - DAYS * DAY, NOON),
        (JobState.FINISHED, LATER - DAY, NOON),
        (JobState.REJECTED, None, LATER - DAY),
    ],
)
def test_what_a_job_uses_or_used_lately_stays(
    lumen: Tenant, state: str, ended: datetime | None, submitted: datetime
) -> None:
    register(member(lumen), FILES, **SCRIPT)
    job(lumen, state=state, ended=ended, submitted_at=submitted)
    assert leave() == 0
    assert is_there()
    keeping = ArchiveKeeping.objects.get()
    assert keeping.used_at == (LATER if state in ("queued", "awarded", "running") else ended or submitted)
    assert keeping.closed_at is None


def test_a_job_that_comes_while_it_is_being_closed_keeps_its_files(lumen: Tenant) -> None:
    """Its submission began before and ended after the archive was closed."""
    register(member(lumen), FILES, **SCRIPT)
    assert applied(LATER)["archives_closed"] == 1
    job(lumen, state=JobState.QUEUED, ended=None, submitted_at=LATER - timedelta(seconds=5))
    assert applied(LATER + WAIT)["archives"] == 0
    assert is_there()
    assert isinstance(submitted(lumen), Submitted)


def test_archives_of_registered_programs_and_of_other_versions_in_use_stay(lumen: Tenant) -> None:
    """Whoever else's it is: one content, one archive. And files of a version that another job uses are not these."""
    castor = make_tenant("castor")
    allow(castor)
    others = archive_with("other.py")
    register(member(lumen), FILES, **SCRIPT)
    register(member(castor), FILES)
    register(BY, archive_with("operator.py"), **SCRIPT)
    register(member(lumen), others, **SCRIPT | {"script": "python3 other.py\n"})
    job(lumen, version=1, state=JobState.RUNNING, ended=None)
    assert leave() == 1
    assert is_there()
    assert not is_there(hashlib.sha256(others).hexdigest())
    assert ProgramArchivePiece.objects.count() == 2


def test_of_one_name_of_two_tenants_each_uses_its_own(lumen: Tenant) -> None:
    castor = make_tenant("castor")
    allow(castor)
    register(member(lumen), FILES, **SCRIPT)
    register(member(castor), archive_with("castors.py"), **SCRIPT)
    job(castor, state=JobState.RUNNING, ended=None)
    assert leave() == 1
    assert not is_there()


def test_no_new_job_names_it_and_the_same_script_with_its_files_is_the_same_version(lumen: Tenant) -> None:
    register(member(lumen), FILES, **SCRIPT)
    assert leave() == 1
    no = submitted(lumen)
    assert isinstance(no, InvalidJob)
    assert (no.field, "files are kept no more" in no.sentence) == ("program.version", True)
    named = DOCUMENT | SCRIPT | {"archive": DIGEST}
    refused = program_register(document=named, archive=None, by=member(lumen), at=LATER)
    assert isinstance(refused, InvalidProgram)
    assert "is kept no more, as no job used it for long: send it along" in refused.sentence
    assert archive_names(DIGEST) is None
    again = program_register(document=named, archive=io.BytesIO(FILES), by=member(lumen), at=LATER)
    assert isinstance(again, Registered)
    assert (again.row.version, again.repeated) == (1, True)
    assert b"".join(archive_pieces(DIGEST)) == FILES
    assert archive_names(DIGEST) == frozenset([(b"train.py",)])
    assert leave(LATER + 2 * DAY) == 0, "it was sent two days ago"
    assert isinstance(submitted(lumen, "again"), Submitted)
    assert list(map(str, programs_verify())) == []


def test_what_is_kept_no_more_makes_room(lumen: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "MOST_KEPT", len(FILES) + 10)
    register(member(lumen), FILES, **SCRIPT)
    more = DOCUMENT | SCRIPT | {"script": "python3 b.py\n"}
    other = archive_with("b.py")
    refused = program_register(document=more, archive=io.BytesIO(other), by=member(lumen), at=NOON)
    assert not isinstance(refused, Registered)
    assert leave() == 1
    assert isinstance(
        program_register(document=more, archive=io.BytesIO(other), by=member(lumen), at=LATER), Registered
    )


def test_who_looks_for_the_files_is_told(lumen: Tenant) -> None:
    register(member(lumen), FILES, **SCRIPT)
    client = client_as(OWNER, lumen)
    page, place = f"/t/lumen/programs/of/lumen/{NAME}/", f"/api/v1/tenants/lumen/programs/of/lumen/{NAME}/"
    assert client.get(place).json()["versions"][0]["archive_bytes"] == len(FILES)
    assert client.get(f"{place}versions/1/archive/").status_code == 200
    archives_close(before=LATER - DAYS * DAY, at=LATER)
    archive_remove(before=LATER - DAYS * DAY, at=LATER + WAIT)
    sentence = "The files of this version are kept no more"
    assert sentence in client.get(page).content.decode()
    version = client.get(place).json()["versions"][0]
    assert (version["archive"], version["archive_bytes"]) == (DIGEST, None)
    refused = client.get(f"{place}versions/1/archive/")
    assert (refused.status_code, refused.json()["code"]) == (404, "unknown_archive")
    assert refused.json()["detail"].startswith(sentence)


def test_a_crash_between_the_steps_or_within_one_loses_nothing(lumen: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    register(member(lumen), FILES, **SCRIPT)
    before = LATER - DAYS * DAY
    archives_close(before=before, at=LATER)

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ArchiveKeeping, "save", crash)
        with pytest.raises(KeyboardInterrupt):
            archive_remove(before=before, at=LATER + WAIT)
    assert is_there()
    assert archive_remove(before=before, at=LATER + WAIT) is not None
    assert not is_there()


def test_many_are_closed_piece_by_piece(lumen: Tenant) -> None:
    for number in range(5):
        register(member(lumen), archive_with(f"{number}.py"), **SCRIPT | {"script": f"echo {number}\n"})
    job(lumen, version=2, state=JobState.QUEUED, ended=None)
    pieces = [archives_close(before=LATER - DAYS * DAY, at=LATER, most=2) for _ in range(4)]
    assert [piece.looked for piece in pieces] == [2, 2, 1, 0]
    assert sum(piece.closed for piece in pieces) == 4


def test_nothing_leaves_where_it_is_kept_for_good(lumen: Tenant, settings: Any) -> None:
    settings.RETENTION_ARCHIVES_DAYS = 0
    register(member(lumen), FILES, **SCRIPT)
    assert "archives" not in (retention_apply(clock=lambda: LATER) or {})
    assert ArchiveKeeping.objects.get().closed_at is None


def test_database_lets_content_go_of_closed_archives_alone(lumen: Tenant) -> None:
    register(member(lumen), FILES, **SCRIPT)
    pieces = ProgramArchivePiece.objects.filter(archive=DIGEST)
    changes: list[Callable[[], object]] = [
        lambda: pieces._raw_delete(using=connection.alias),
        lambda: pieces.update(number=7),
        lambda: ArchiveKeeping.objects.update(removed_at=LATER),
    ]
    for change in changes:
        with pytest.raises(DatabaseError), transaction.atomic():
            change()
    ArchiveKeeping.objects.update(closed_at=NOON)
    pieces._raw_delete(using=connection.alias)
    findings = list(map(str, programs_verify()))
    assert findings, "content that went without a word is missed"
    assert all(DIGEST[:12] in finding for finding in findings)
    assert ProgramVersion.objects.count() == 1

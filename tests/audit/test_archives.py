"""Old intervals leave the database only into an archive that was read back; what they were stays provable."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from psycopg.pq import TransactionStatus

from marketplace.embedded.state import OWNER as OWNING
from marketplace.embedded.state import ROLE
from marketplace.upkeep.forecast import INTERVALS, forecast
from scheduling.audit import archiving
from scheduling.audit.archiving import ArchiveDay, ArchiveFailed, archive_day, archive_days
from scheduling.audit.bundle import bundle_write, check, signing_seed
from scheduling.audit.verification import (
    Archives,
    charge_verify,
    interval_verify,
    intervals_verify,
    settings_verify,
)
from scheduling.audit.verification.archived import archive_intervals
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.market.decide import REACH, chain
from scheduling.market.reads import contents_of
from scheduling.market.settle.slots import slot_settle
from scheduling.models import Interval, IntervalArchive, Pool, TrainingJob
from tenants import history
from tenants.access import Refused, access_of_system
from tenants.models import AuditEntry
from tenants.roles import AUDITOR, OWNER
from tenants.scoping import scope_disabled
from tests.database import run
from tests.ledger.builders import commit_checks, tamper
from tests.scheduling.builders import tell_history
from tests.scheduling.markets import at, award_of, make_renting, make_waiting, run_slots
from tests.tenants.builders import client_of, make_member, make_staff
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

BY = access_of_system("the tests")
HOURS, SLOTS = 8, 15  # of a slot; three of them are a day
TOLD_BY_THE_DAY_BEFORE = (
    "UPDATE scheduling_interval later SET base_id = base.id FROM scheduling_interval base"
    " WHERE base.number = 1 AND later.number = (SELECT min(number) FROM scheduling_interval"
    " WHERE decided_at >= '2026-03-03 00:00Z')"
)
Days = tuple[Pool, list[TrainingJob]]
FIRST_DAY = date(2026, 3, 2)


def make_days() -> Days:
    """Five days of a market whose slots take eight hours: jobs that rent, settled and with their fairness."""
    pool, owner, renter = make_renting(slot_seconds=HOURS * 3600)
    lasting = {"minibatch_seconds": HOURS * 1800.0}
    jobs = [make_waiting(pool, renter, **lasting), make_waiting(pool, owner, **lasting)]
    jobs += [make_waiting(pool, renter, arrival=4.5, **lasting)]
    for slot in range(SLOTS + 1):
        slot_settle(pool_id=pool.pk, slot=slot - 1, at=at(pool, slot))
        run_slots(pool, slot, slot)
    assert all(award_of(job) for job in jobs)
    tell_history(pool)
    with scope_disabled("the test works out what comes after the market"):
        fairness_catch_up(most=1_000)
    commit_checks()
    return pool, jobs


def make_days_told_by_others() -> Days:
    """However small they are: no interval but the first of each day is stored whole."""
    with mock.patch.object(chain, "WORTH_IT", 99.0):
        return make_days()


built = built_once(make_days_told_by_others)


@pytest.fixture(autouse=True)
def _few_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "NEWEST", 2)


@pytest.fixture
def days(built: Days, monkeypatch: pytest.MonkeyPatch) -> Days:
    """In the transaction of the test, where the owning role is one that the tests' connection takes on."""
    monkeypatch.setattr(archiving, "as_owner", owning)
    return copy.deepcopy(built)


@contextmanager
def owning() -> Iterator[None]:
    run(f"SET ROLE {OWNING}")
    try:
        yield
    finally:
        if connection.connection.info.transaction_status != TransactionStatus.INERROR:
            run(f"SET ROLE {ROLE}")


def days_of(pool: Pool, before: date | None = None) -> list[ArchiveDay]:
    listing = archive_days(pool=pool, before=before or FIRST_DAY + timedelta(days=90), at=timezone.now())
    assert not isinstance(listing, Refused), listing
    return listing


def archive(pool: Pool, folder: Path, most: int = 99) -> list[IntervalArchive]:
    ready = [day for day in days_of(pool) if not day.obstacle][:most]
    assert ready
    return [archive_day(pool=pool, day=day, folder=folder, by=BY, at=timezone.now()) for day in ready]


def findings_of(pool: Pool, folder: Path | None = None, **options: Any) -> list[str]:
    verified = intervals_verify(pool_ids=[pool.pk], archives=Archives(folder), **options)
    return [*map(str, verified.findings), *map(str, settings_verify([pool.pk])), *of_archives()]


def of_archives() -> list[str]:
    """What a verification of everything says of the rows of archives."""
    return [str(finding) for finding in settings_verify() if finding.where.startswith("archive ")]


def stored(pool: Pool) -> dict[int, tuple[bytes, bytes]]:
    rows = Interval.objects.filter(pool=pool).values_list("number", "view", "plan")
    return {number: (bytes(view), bytes(plan)) for number, view, plan in rows}


def whole_rows(pool: Pool) -> list[dict[str, Any]]:
    """All else that a row has."""
    rows = Interval.objects.filter(pool=pool).order_by("number").values()
    return [{k: bytes(v) if isinstance(v, memoryview) else v for k, v in row.items()} for row in rows]


# --- which days


def test_days_are_whole_and_in_a_row_and_the_newest_stay(days: Days) -> None:
    pool, _ = days
    rows = days_of(pool)
    last = Interval.objects.filter(pool=pool).latest("number").number
    assert rows[0].first == 1
    assert rows[0].day == FIRST_DAY
    assert all(later.first == day.last + 1 for day, later in pairwise(rows))
    assert [bool(day.obstacle) for day in rows] == [False] * (len(rows) - 1) + [True]
    assert rows[-1].last > last - 2
    assert all(day.bytes > 0 for day in rows)
    assert [day.day for day in days_of(pool, FIRST_DAY + timedelta(days=1))] == [FIRST_DAY]
    assert days_of(pool, FIRST_DAY) == []


def test_day_that_is_not_over_is_refused(days: Days) -> None:
    pool, _ = days
    outcome = archive_days(pool=pool, before=FIRST_DAY + timedelta(days=2), at=at(pool, 2))
    assert isinstance(outcome, Refused)
    assert outcome.code == "invalid_period"


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("UPDATE scheduling_award SET state = 'running'", "an award that they gave is not over"),
        ("UPDATE scheduling_award SET rent = 'open'", "an award that they gave is not over"),
        ("UPDATE scheduling_trainingjob SET ended_at = NULL", "a job that they gave an award is not over"),
        ("UPDATE scheduling_interval SET window_end = 999 WHERE number = 1", "a window of its intervals is not over"),
        (
            "DELETE FROM scheduling_intervalfairness WHERE number = 1",
            "the fairness of some intervals is not worked out",
        ),
        ("UPDATE scheduling_laneclock SET settled_slot = -1", "a window of its intervals is not over"),
        (TOLD_BY_THE_DAY_BEFORE, "an interval of a later day is told by one of them"),
        (
            "DELETE FROM scheduling_interval WHERE number = 1",
            "its intervals are not those that follow the last archive",
        ),
    ],
)
def test_day_with_something_open_stays(days: Days, sql: str, why: str) -> None:
    pool, _ = days
    tamper(sql)
    assert days_of(pool)[0].obstacle == why


# --- what is done


def test_archived_intervals_are_named_and_proved_again_with_the_archive(days: Days, tmp_path: Path) -> None:
    pool, _ = days
    assert findings_of(pool) == []
    before, rows_before = stored(pool), whole_rows(pool)
    rows = archive(pool, tmp_path)
    after = stored(pool)
    archived = {number for number, parts in after.items() if parts == (b"", b"")}
    assert archived == set(range(1, rows[-1].last + 1))
    assert {n: parts for n, parts in after.items() if n not in archived} == {
        n: parts for n, parts in before.items() if n not in archived
    }
    digested_rows = [
        {name: value for name, value in row.items() if name not in ("view", "plan")} for row in whole_rows(pool)
    ]
    assert digested_rows == [{n: v for n, v in row.items() if n not in ("view", "plan")} for row in rows_before]
    for row in rows:
        assert check.check(str(tmp_path / row.file), row.public_key) == []
    assert findings_of(pool) == []
    assert findings_of(pool, tmp_path) == []
    assert findings_of(pool, first=rows[-1].last) == []
    assert findings_of(pool, tmp_path, first=3) == []
    verified = intervals_verify(pool_ids=[pool.pk], archives=Archives(tmp_path))
    assert verified.intervals == len(before)
    assert sum(day.obstacle == "" for day in days_of(pool)) == 0


def test_with_the_archive_what_was_changed_in_other_rows_is_found_again(days: Days, tmp_path: Path) -> None:
    """Without it, the awards of archived intervals have nothing to be compared with but the book."""
    pool, jobs = days
    archive(pool, tmp_path)
    tamper("UPDATE scheduling_award SET value = value + 1 WHERE id = %s", [award_of(jobs[0]).pk])
    assert findings_of(pool) == []
    assert any(f"job {jobs[0].pk}" in line for line in findings_of(pool, tmp_path))


def test_history_tells_of_each_archive_and_a_changed_row_is_named(days: Days, tmp_path: Path) -> None:
    pool, _ = days
    rows = archive(pool, tmp_path)
    entries = AuditEntry.objects.filter(action="intervals_archive").order_by("sequence")
    assert [entry.after["digest"] for entry in entries] == [row.digest for row in rows]
    assert isinstance(history.verify(), history.VerifiedHistory)
    for sql in (
        "UPDATE scheduling_intervalarchive SET digest = reverse(digest)",
        "UPDATE scheduling_intervalarchive SET last = last + 5 WHERE first = 1",
        "DELETE FROM scheduling_intervalarchive",
    ):
        with transaction.atomic():
            tamper(sql)
            assert any(line.startswith(f"archive {rows[0].file}:") for line in of_archives()), sql
            transaction.set_rollback(True)


def test_bytes_that_somebody_dropped_are_named(days: Days, tmp_path: Path) -> None:
    pool, _ = days
    archive(pool, tmp_path, most=1)
    later = IntervalArchive.objects.get().last + 1
    tamper("UPDATE scheduling_interval SET view = '', plan = '' WHERE number = %s", [later])
    for folder in (None, tmp_path):
        lines = findings_of(pool, folder)
        assert f"interval {later} of pool {pool.pk}: its input and answer are gone, and no archive has them" in lines
    one = interval_verify(pool_id=pool.pk, number=later)
    assert not isinstance(one, Refused)
    assert any("cannot be replayed" in str(finding) for finding in one.findings)


def test_chain_is_followed_through_archived_intervals(days: Days, tmp_path: Path) -> None:
    pool, _ = days
    archive(pool, tmp_path)
    with transaction.atomic():
        tamper("UPDATE scheduling_interval SET digest = reverse(digest) WHERE number = 2")
        assert any("interval 3" in line and "what it follows" in line for line in findings_of(pool))
        transaction.set_rollback(True)
    tamper("UPDATE scheduling_interval SET policy = policy || '\\x20'::bytea WHERE number = 2")
    assert any("interval 2" in line and "the digest is" in line for line in findings_of(pool, tmp_path))


def with_other(path: Path, number: int) -> None:
    """The archive, with one digit of an interval's plan changed."""
    with zipfile.ZipFile(path) as old:
        files = {name: old.read(name) for name in old.namelist()}
    rows = [json.loads(line) for line in files["intervals.jsonl"].splitlines()]
    (row,) = [row for row in rows if row["number"] == number]
    row["plan"] = row["plan"].replace('"frontier":', '"frontier":1', 1)
    files["intervals.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    with zipfile.ZipFile(path, "w") as new:
        for name, content in files.items():
            new.writestr(name, content)


def test_archive_that_was_changed_or_is_missing_is_named(days: Days, tmp_path: Path) -> None:
    pool, _ = days
    first, second, *_ = archive(pool, tmp_path)
    content = (tmp_path / second.file).read_bytes()
    for changed in (content[:-1], content + b"x", bytes([content[0] ^ 1]) + content[1:], b""):
        (tmp_path / second.file).write_bytes(changed)
        (line,) = findings_of(pool, tmp_path)
        assert line.startswith(f"archive {second.file}: its SHA-256 is")
    (tmp_path / second.file).write_bytes(content)
    with_other(tmp_path / second.file, second.first)
    assert findings_of(pool, tmp_path)[0].startswith(f"archive {second.file}: its SHA-256 is")
    (tmp_path / second.file).unlink()
    assert findings_of(pool, tmp_path) == [f"archive {second.file}: it is not in {tmp_path}"]
    (tmp_path / second.file).write_bytes((tmp_path / first.file).read_bytes())
    assert findings_of(pool, tmp_path)[0].startswith(f"archive {second.file}: its SHA-256 is")


def test_archive_whose_digest_was_changed_with_it_is_named_by_the_interval(days: Days, tmp_path: Path) -> None:
    pool, _ = days
    row = archive(pool, tmp_path)[0]
    with_other(tmp_path / row.file, 2)
    digest = archiving.file_digest(tmp_path / row.file)
    tamper("UPDATE scheduling_intervalarchive SET digest = %s WHERE id = %s", [digest, row.pk])
    lines = findings_of(pool, tmp_path)
    assert any(line.startswith(f"interval 2 of pool {pool.pk}: the digest is") for line in lines)
    assert any(line.startswith(f"archive {row.file}: what it has") for line in lines)


def test_interval_that_was_changed_before_is_not_archived(days: Days, tmp_path: Path) -> None:
    pool, _ = days
    tamper("UPDATE scheduling_interval SET policy = policy || '\\x20'::bytea WHERE number = 2")
    with pytest.raises(ArchiveFailed, match="interval 2 was changed"):
        archive(pool, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not IntervalArchive.objects.exists()


# --- what is told by others


@pytest.mark.wide
def test_days_begin_whole_and_archives_have_what_was_told_by_others(days: Days, tmp_path: Path) -> None:
    pool, _ = days
    intervals = Interval.objects.filter(pool=pool).order_by("number").select_related("base")
    assert all(row.base.decided_at.date() == row.decided_at.date() for row in intervals if row.base)
    by_others = {row.number for row in intervals if row.base}
    whole = {row.number: contents_of(row) for row in intervals}
    rows = archive(pool, tmp_path)
    archived = set(range(1, rows[-1].last + 1))
    assert len(by_others & archived) > 1
    assert by_others - archived
    inside = {}
    for row in rows:
        inside |= archive_intervals(tmp_path / row.file)
    assert {number: part["view"].encode() for number, part in inside.items()} == {n: whole[n].view for n in archived}
    assert {number: part["plan"].encode() for number, part in inside.items()} == {n: whole[n].plan for n in archived}
    for first in sorted(whole):
        assert findings_of(pool, first=first) == findings_of(pool, tmp_path, first=first) == []


def test_database_keeps_a_base_as_long_as_what_is_told_by_it(
    days: Days, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the command thinks."""
    pool, _ = days
    tamper(TOLD_BY_THE_DAY_BEFORE)
    monkeypatch.setattr(archiving, "_obstacle", lambda *about: "")
    before = stored(pool)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        archive(pool, tmp_path, most=1)
    assert stored(pool) == before
    ((source,),) = run("SELECT prosrc FROM pg_proc WHERE proname = 'scheduling_interval_archived'")
    assert f"OLD.number + {REACH} " in " ".join(source.split())


# --- who may


def test_only_the_owning_role_drops_and_only_what_an_archive_has(days: Days, tmp_path: Path) -> None:
    pool, _ = days
    row = archive(pool, tmp_path, most=1)[0]
    inside, outside = row.last, row.last + 1
    for number in (inside, outside):
        with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
            run("UPDATE scheduling_interval SET view = '', plan = '' WHERE number = %s", [number])
    columns = "pool_id, day, first, last, file, digest, size, public_key, archived_at"
    for sql in (
        f"INSERT INTO scheduling_intervalarchive ({columns})"  # noqa: S608
        f" SELECT pool_id, day + 90, first, 99, file, digest, size, public_key, now() FROM scheduling_intervalarchive",
        "UPDATE scheduling_intervalarchive SET last = 99",
        "DELETE FROM scheduling_intervalarchive",
    ):
        with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
            run(sql)
    refused = (
        ("UPDATE scheduling_interval SET view = '', plan = '' WHERE number = %s", outside),
        ("UPDATE scheduling_interval SET view = '' WHERE number = %s", outside),
        ("UPDATE scheduling_interval SET view = '', plan = '', digest = 'x' WHERE number = %s", inside),
        ("UPDATE scheduling_interval SET plan = 'x' WHERE number = %s", inside),
        ("UPDATE scheduling_interval SET paid = paid + 1 WHERE number = %s", inside),
        ("DELETE FROM scheduling_interval WHERE number = %s", inside),
        ("UPDATE scheduling_intervalarchive SET last = 99 WHERE last = %s", inside),
        ("DELETE FROM scheduling_intervalarchive WHERE last = %s", inside),
    )
    for sql, number in refused:
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), owning():
            run(sql, [number])
    commit_checks()
    for table in ("scheduling_interval", "scheduling_intervalarchive"):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), owning():
            run(f"TRUNCATE {table} CASCADE")
    run(f"SET ROLE {ROLE}")


# --- who reads them


def test_pages_and_services_say_that_an_interval_is_archived(days: Days, tmp_path: Path) -> None:
    pool, jobs = days
    archive(pool, tmp_path)
    tenant = jobs[0].tenant
    number = award_of(jobs[0]).interval.number
    one = interval_verify(pool_id=pool.pk, number=number)
    assert isinstance(one, Refused)
    assert one.code == "archived"
    charge = charge_verify(job_id=jobs[0].pk)
    assert isinstance(charge, Refused)
    assert charge.code == "archived"
    start, end = at(pool, 0) - timedelta(days=1), at(pool, 3)
    outcome = bundle_write(pool=pool, start=start, end=end, seed=signing_seed(at=timezone.now()), file=io.BytesIO())
    assert isinstance(outcome, Refused)
    assert outcome.code == "archived"
    owner, auditor = client_of(make_member(tenant, OWNER).user), client_of(make_staff(AUDITOR).user)
    for browser, address in (
        (owner, f"/t/{tenant.slug}/intervals/{pool.slug}/{number}/"),
        (owner, f"/t/{tenant.slug}/intervals/{pool.slug}/{number}/what-if/"),
        (owner, f"/t/{tenant.slug}/fairness/{pool.slug}/intervals/{number}/"),
        (auditor, f"/fairness/pools/{pool.slug}/intervals/{number}/"),
    ):
        page = browser.get(address)
        assert page.status_code == 200, address
        words = page.content.decode()
        assert "Archived." in words or "stand in the archive" in words, address
        assert "Somebody changed them" not in words, address
        assert "Nobody rented" not in words, address
        assert "?file=view" not in words, address
    verified = owner.post(f"/t/{tenant.slug}/intervals/{pool.slug}/{number}/").content.decode()
    assert "Not verified. What it was decided from lies in an archive" in verified
    assert owner.get(f"/t/{tenant.slug}/jobs/{jobs[0].pk}/").status_code == 200


def test_forecast_counts_only_intervals_whose_bytes_are_here(days: Days, tmp_path: Path) -> None:
    pool, _ = days
    moment = at(pool, SLOTS)

    def growth() -> Any:
        (one,) = [one for one in forecast(moment) if one.name == INTERVALS]
        return one

    before = growth()
    rows = archive(pool, tmp_path)
    after = growth()
    assert (after.rows, after.emptied) == (before.rows, rows[-1].last)
    assert after.bytes_a_day == pytest.approx(after.bytes / (after.rows - after.emptied) * after.rows_a_day)
    assert after.bytes_a_day > before.bytes_a_day * 0.9


# --- kills


class Killed(BaseException):
    """As if the process had ended here."""


@pytest.mark.one_case
@pytest.mark.parametrize("step", ["write", "check", "place", "drop"])
def test_kill_at_any_step_loses_nothing(days: Days, tmp_path: Path, step: str) -> None:
    pool, _ = days
    before = stored(pool)
    day = days_of(pool)[0]

    def die_at(name: str) -> None:
        if name == step:
            raise Killed(name)

    with pytest.raises(Killed), transaction.atomic():
        archive_day(pool=pool, day=day, folder=tmp_path, by=BY, at=timezone.now(), progress=die_at)
    run(f"SET ROLE {ROLE}")
    assert stored(pool) == before
    assert not IntervalArchive.objects.exists()
    assert findings_of(pool) == []
    (tmp_path / f"{archiving.archive_name(pool, day.day)}.part").write_bytes(b"left behind by a kill without an end")
    archive(pool, tmp_path)
    assert findings_of(pool, tmp_path) == []
    assert {path.suffix for path in tmp_path.iterdir()} == {".zip"}

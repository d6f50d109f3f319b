"""Intervals are stored whole, or by what differs from an earlier one that is; whoever reads one sees no difference."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from unittest import mock

import numpy as np
import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduling.audit.verification import interval_verify, intervals_verify
from scheduling.market.decide import chain, link
from scheduling.market.decide.chain import base_for, interval_new
from scheduling.market.reads import contents_of, interval_view, stored_intervals, unpacked
from scheduling.market.reads.stored_intervals import packed
from scheduling.market.settle.slots import slot_settle
from scheduling.models import Interval, Pool
from tenants.access import Refused
from tenants.models import Tenant
from tenants.scoping import scope
from tests.audit.test_tampering import with_one_byte_changed
from tests.database import run, undone
from tests.ledger.builders import commit_checks, tamper
from tests.scheduling.builders import tell_history
from tests.scheduling.markets import at, make_renting, make_waiting, run_slots
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

JOBS, SLOTS, REACH = 60, 22, 4


def make_queue() -> Pool:
    """Many jobs that wait while few are served, and a new one now and then, no two of them alike."""
    pool, owner, renter = make_renting(clock_first=2, clock_cap=2, clock_restart=False)
    draw = np.random.default_rng(3)

    def submit(tenant: Tenant, arrival: float) -> None:
        value = {"kind": "linear", "slope": -float(draw.uniform(0.01, 0.1)), "base": float(draw.uniform(10, 90))}
        make_waiting(pool, tenant, arrival=arrival, minibatch_seconds=float(draw.uniform(2, 7)), value=value)

    for number in range(JOBS):
        submit(owner if number % 3 else renter, 0.0)
    for slot in range(SLOTS + 1):
        slot_settle(pool_id=pool.pk, slot=slot - 1, at=at(pool, slot))
        run_slots(pool, slot, slot)
        submit(renter, slot + 0.5)
    tell_history(pool)
    commit_checks()
    return pool


def built_with_short_reach() -> Pool:
    with mock.patch.object(chain, "REACH", REACH):
        return make_queue()


built = built_once(built_with_short_reach)


@pytest.fixture
def pool(built: Pool) -> Pool:
    return copy.deepcopy(built)


def rows(pool: Pool) -> list[Interval]:
    return list(Interval.objects.filter(pool=pool).order_by("number"))


def with_base(pool: Pool) -> list[Interval]:
    return [row for row in rows(pool) if row.base_id is not None]


def findings(pool: Pool, **options: int) -> list[str]:
    return [str(finding) for finding in intervals_verify(pool_ids=[pool.pk], **options).findings]


def named(pool: Pool, **options: int) -> set[int]:
    """Numbers of the intervals that a verification finds fault with."""
    return {int(line.split()[1]) for line in findings(pool, **options) if line.startswith("interval ")}


def put(column: str, value: object, interval: Interval) -> None:
    tamper(f'UPDATE scheduling_interval SET "{column}" = %s WHERE id = %s', [value, interval.pk])  # noqa: S608


# --- what is written


def test_most_are_told_by_one_whole_interval_shortly_before(pool: Pool) -> None:
    intervals = rows(pool)
    assert len(intervals) > 2 * REACH
    whole = [row for row in intervals if row.base_id is None]
    assert len(with_base(pool)) >= len(intervals) // 2
    for row in with_base(pool):
        assert row.base in whole
        assert 0 < row.number - row.base.number < REACH
        assert len(bytes(row.view)) <= 0.5 * len(bytes(row.base.view))
    assert findings(pool) == []


def test_digest_is_that_of_the_whole_interval(pool: Pool) -> None:
    """A pool whose intervals are all whole has the same chain: how they are stored decides nothing."""
    for row in rows(pool):
        contents = contents_of(row)
        place = {"pool_id": row.pool_id, "number": row.number, "slot": row.slot, "at": row.decided_at}
        whole = interval_new(**place, previous=row.previous, contents=contents)
        assert whole.base_id is None
        assert contents_of(whole) == contents
        assert whole.digest == row.digest == link(row, contents)


def test_first_of_a_day_is_whole_and_so_is_what_has_little_in_common(pool: Pool) -> None:
    last = rows(pool)[-1]
    base = Interval.objects.filter(pool=pool, base=None).latest("number")
    with mock.patch.object(chain, "REACH", 99):
        assert base_for(pool.pk, last.number + 1, last.decided_at) == base
        tomorrow = last.decided_at.replace(day=last.decided_at.day + 1, hour=0, minute=0, second=0)
        assert base_for(pool.pk, last.number + 1, tomorrow) is None
    assert base_for(pool.pk, base.number + chain.REACH, last.decided_at) is None
    first = rows(pool)[0]
    other = contents_of(first)
    place = {"pool_id": pool.pk, "number": 99, "slot": 99, "at": last.decided_at, "previous": last.digest}
    small = interval_new(**place, contents=replace(other, view=b"{}", plan=b"{}"))
    assert interval_new(**place, contents=other, base=small).base_id is None
    assert interval_new(**place, contents=other, base=first).base == first


def test_market_goes_on_from_a_base_that_somebody_changed(pool: Pool) -> None:
    """The next interval is whole, and told by nothing that may be put right again."""
    last, slot = rows(pool)[-1], SLOTS + 2
    base = Interval.objects.filter(pool=pool, base=None).latest("number")
    changed = zlib.compress(zlib.decompress(bytes(base.plan)).replace(b'"frontier":', b'"frontier":1'))
    for value in (b"nonsense", changed):
        with undone(), mock.patch.object(chain, "REACH", 99):
            assert base_for(pool.pk, last.number + 1, at(pool, slot)) == base
            put("plan", value, base)
            following = run_slots(pool, SLOTS + 1, slot)[-1]
            assert following.base_id is None
            assert following.number not in named(pool)


# --- who reads it


def test_whoever_reads_one_reads_two_rows_at_most(pool: Pool) -> None:
    for row in rows(pool):
        with CaptureQueriesContext(connection) as captured:
            contents_of(Interval.objects.get(pk=row.pk))
        assert len(captured) == 1 + (row.base_id is not None)


def test_page_of_an_interval_has_what_it_was_told(pool: Pool) -> None:
    interval = with_base(pool)[0]
    renter = Tenant.objects.get(slug="renter")
    with scope(renter):
        view = interval_view(tenant=renter, pool=pool, number=interval.number, money=True, jobs=True)
    contents = contents_of(interval)
    assert view is not None
    assert (view.view_bytes, view.plan_bytes) == (len(contents.view), len(contents.plan))
    assert view.bids


# --- what proves it


@pytest.mark.wide
def test_verified_from_anywhere_nothing_is_found(pool: Pool) -> None:
    for row in rows(pool):
        assert findings(pool, first=row.number) == []


def changed_inside(stored: bytes) -> bytes:
    """The compressed bytes with one of them changed, from the middle on. A few changes name another place with the same
    text to be copied: those leave what is stored as it was."""
    for place in range(len(stored) // 2, len(stored)):
        changed = with_one_byte_changed(stored, place)
        with suppress(zlib.error):
            if zlib.decompress(changed) == zlib.decompress(stored):
                continue
        return changed
    raise AssertionError("no byte of it means anything")


def changes(interval: Interval) -> Iterator[tuple[str, object]]:
    for column in ("view", "plan"):
        stored = bytes(getattr(interval, column))
        yield column, changed_inside(stored)
        content = zlib.decompress(stored)
        for place in (0, 70, len(content) - 3):  # the digest of its base, its steps, and what is new
            yield column, zlib.compress(with_one_byte_changed(content, place))
        yield column, zlib.compress(content + b" ")
        yield column, getattr(interval.base, column)  # as if it were whole
        yield column, b""
    yield "base_id", None
    yield "base_id", interval.base_id + 1
    yield "base_id", interval.pk
    yield "base_id", 10**6


@pytest.mark.wide
def test_delta_that_was_changed_is_named_from_its_own_number_on_too(pool: Pool) -> None:
    interval = with_base(pool)[2]
    for column, value in changes(interval):
        with undone():
            put(column, value, interval)
            for first in (1, interval.number):
                assert named(pool, first=first) == {interval.number}, (column, value)
            one = interval_verify(pool_id=pool.pk, number=interval.number)
            assert not isinstance(one, Refused)
            assert one.findings, (column, value)


@pytest.mark.wide
def test_base_of_another_interval_is_named_also_where_it_has_the_same_rows(pool: Pool) -> None:
    interval = with_base(pool)[2]
    for other in rows(pool):
        if other.pk not in (interval.base_id, interval.pk):
            with undone():
                put("base_id", other.pk, interval)
                assert named(pool, first=interval.number) == {interval.number}


@pytest.mark.wide
def test_base_that_was_changed_is_named_with_those_that_are_told_by_it(pool: Pool) -> None:
    interval = with_base(pool)[2]
    base = interval.base
    by_it = {row.number for row in with_base(pool) if row.base_id == base.pk}
    content = zlib.decompress(bytes(base.view))
    place = content.index(b'"number":') + len(b'"number":')
    with undone():
        put("view", zlib.compress(with_one_byte_changed(content, place)), base)
        assert base.number in named(pool)
        assert named(pool, first=base.number + 1) <= by_it
    for column, value in (("view", b"nonsense"), ("plan", b"nonsense"), ("view", b""), ("digest", "1" * 64)):
        with undone():
            put(column, value, base)
            assert named(pool) >= {base.number} | by_it, column
            assert named(pool, first=base.number + 1) >= by_it, column
    with undone():
        tamper("DELETE FROM scheduling_interval WHERE id = %s", [base.pk])
        assert named(pool) >= by_it


def test_way_back_of_the_migration_is_refused_while_there_are_such_intervals(pool: Pool) -> None:
    """The version before would take a delta for an input."""
    back = import_module("scheduling.migrations.0059_interval_bases").NOT_BACK
    with pytest.raises(DatabaseError, match="told by others"), transaction.atomic():
        run(back)
    tamper("UPDATE scheduling_interval SET base_id = NULL")
    run(back)


def test_what_is_large_is_packed_quickly_and_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"paid":0.123456789},' * 1_000
    small = packed(content)
    monkeypatch.setattr(stored_intervals, "LARGE", len(content) - 1)
    large = packed(content)
    assert unpacked(small) == unpacked(large) == content
    assert small != large  # by another level

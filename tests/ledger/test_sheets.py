"""Day sheets: a statement says the same whether days are kept, half kept, or read from the book."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenants.ledger.audit import verify
from tenants.ledger.models import DaySheet, Entry, Transaction
from tenants.ledger.periods import PeriodRead, period_read
from tenants.ledger.postings import OPERATOR, OUTSIDE, Posting, available, earned, held
from tenants.ledger.services import hold, post_many
from tenants.ledger.sheets import days_close
from tenants.scoping import scope_disabled
from tests.database import overrule
from tests.ledger.builders import NOON, accepted, commit_checks, grant, make_tenant, tamper

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
LATER = NOON + 6 * DAY
MIDNIGHT = NOON.replace(hour=0)
PAID = ("settle", "cancel")  # they pay rent, or leave a cancelled rent with the owners (sheets.sql)


@pytest.fixture(autouse=True)
def _all_tenants() -> Iterator[None]:
    with scope_disabled("tests of the book look at every account"):
        yield


def entries_by_day() -> dict[tuple[int, date], int]:
    return {(sheet.tenant_id, sheet.day): sheet.entries for sheet in DaySheet.objects.all()}


# ---------------------------------------------------------------- the same as a slow reading


MOMENTS = st.integers(0, 4 * 8).map(lambda eighths: MIDNIGHT + timedelta(hours=3 * eighths))
KINDS = st.sampled_from(["hold", "settle", "cancel", "refund", "grant", "collect", "reverse"])
POSTINGS = st.lists(st.tuples(KINDS, st.integers(1, 4), st.integers(1, 50), MOMENTS), min_size=1, max_size=18)


@given(postings=POSTINGS, late=POSTINGS, period=st.tuples(MOMENTS, MOMENTS).map(sorted), forgotten=st.integers(0, 4))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_statement_equals_the_entries_whatever_days_are_kept(
    postings: list[Any], late: list[Any], period: list[datetime], forgotten: int
) -> None:
    """Before any sheet, with all, with one thrown away, with postings that came late, and closed again."""
    with transaction.atomic():
        me, other = make_tenant("me", funds=10**6), make_tenant("other", funds=10**6)
        _post(me, other, postings, "first")
        _same_as_slow(me, *period)
        days_close(at=LATER)
        _same_as_slow(me, *period)
        DaySheet.objects.filter(day=(MIDNIGHT + forgotten * DAY).date()).delete()
        _same_as_slow(me, *period)
        _post(me, other, late, "late")
        _same_as_slow(me, *period)
        days_close(at=LATER)
        _same_as_slow(me, *period)
        assert days_close(at=LATER) == 0
        transaction.set_rollback(True)


def _post(me: int, other: int, postings: list[Any], name: str) -> None:
    rows = []
    for number, (kind, award, amount, at) in enumerate(postings):
        facts = {"award": award, "slot": number} if kind in PAID else {}
        entries = {
            "hold": ((available(me), -amount), (held(me), amount)),
            "settle": ((held(me), -amount), (earned(me), amount))
            if award == 1
            else ((held(me), -amount), (OPERATOR, amount)),
            "cancel": ((available(other), -amount), (earned(me), amount)),
            "refund": ((held(me), -amount), (available(me), amount)),
            "grant": ((OUTSIDE, -amount), (available(me), amount)),
            "collect": ((earned(me), -amount), (available(me), amount)),
            "reverse": ((available(me), -amount), (available(other), amount)),
        }[kind]
        subject = f"job:{award}" if kind != "grant" else ""
        rows.append(Posting(f"{name}:{number}", kind, entries, at, subject=subject, facts=facts))
    backing = [
        Posting(f"{name}:{account.kind}", "grant", ((OUTSIDE, -5_000), (account, 5_000)), MIDNIGHT - DAY)
        for account in (held(me), earned(me))
    ]
    assert isinstance(post_many(postings=[*backing, *rows]), tuple)
    commit_checks()


def _same_as_slow(tenant: int, start: datetime, end: datetime) -> None:
    period = period_read(tenant_id=tenant, start=start, end=end)
    assert _comparable(period) == _slow(tenant, start, end)
    sums = [sum(getattr(moved, name) for moved in period.by_kind.values()) for name in ("available", "held", "earned")]
    opened = (period.opening.available, period.opening.held, period.opening.earned)
    closed = (period.closing.available, period.closing.held, period.closing.earned)
    assert tuple(before + moved for before, moved in zip(opened, sums, strict=True)) == closed


def _comparable(period: PeriodRead) -> dict[str, Any]:
    return {
        "kinds": {
            kind: (sums.available, sums.held, sums.earned, period.payments_by_kind.get(kind, 0))
            for kind, sums in period.by_kind.items()
        },
        "earned": [
            (row.award_id, row.kind, row.payments, row.first_slot, row.last_slot, row.amount, row.first_at)
            for row in period.earned
        ],
        "earned_sum": (period.earned_rows, period.earned_sum),
        "paid": [(row.subject, row.kind, row.payments, row.available, row.held, row.last_at) for row in period.paid],
        "paid_rows": period.paid_rows,
        "subjects": dict(period.subjects),
    }


def _slow(tenant: int, start: datetime, end: datetime) -> dict[str, Any]:
    """Transaction by transaction."""
    ids = {available(tenant).id: 0, held(tenant).id: 1, earned(tenant).id: 2}
    kinds: dict[str, list[int]] = {}
    income: dict[Any, list[Any]] = {}
    outlay: dict[Any, list[Any]] = {}
    for row in Transaction.objects.filter(occurred_at__gte=start, occurred_at__lt=end):
        moved: list[int | None] = [None, None, None]
        for line in Entry.objects.filter(transaction=row, account_id__in=ids):
            place = ids[line.account_id]
            moved[place] = (moved[place] or 0) + line.amount
        if moved == [None, None, None]:
            continue
        own = moved[:2] != [None, None]
        sums = [amount or 0 for amount in moved]
        kinds[row.kind] = [a + b for a, b in zip(kinds.get(row.kind, [0] * 4), [*sums, int(own)], strict=True)]
        if moved[2] is not None and row.kind in PAID:
            income.setdefault((row.facts["award"], row.kind), []).append((row.occurred_at, row.facts["slot"], moved[2]))
        if own:
            outlay.setdefault((row.subject, row.kind), []).append((row.occurred_at, sums[0], sums[1]))
    return _sums(kinds, income, outlay)


def _sums(kinds: dict[str, list[int]], income: dict[Any, list[Any]], outlay: dict[Any, list[Any]]) -> dict[str, Any]:
    earned_rows = []
    for (award, kind), payments in income.items():
        times, slots, amounts = zip(*payments, strict=True)
        earned_rows.append((award, kind, len(payments), min(slots), max(slots), sum(amounts), min(times)))
    paid_rows, subjects = [], defaultdict(int)
    for (subject, kind), payments in outlay.items():
        times, own, set_aside = zip(*payments, strict=True)
        subjects[subject] += 0
        if kind in PAID and sum(own) + sum(set_aside):
            subjects[subject] -= sum(own) + sum(set_aside)
            paid_rows.append((subject, kind, len(payments), sum(own), sum(set_aside), max(times)))
    return {
        "kinds": {kind: tuple(sums) for kind, sums in kinds.items()},
        "earned": sorted(earned_rows, key=lambda row: (row[-1], row[0], row[1])),
        "earned_sum": (len(earned_rows), sum(row[5] for row in earned_rows)),
        "paid": sorted(paid_rows, key=lambda row: (row[-1], row[0], row[1])),
        "paid_rows": len({row[0] for row in paid_rows}),
        "subjects": dict(subjects),
    }


# ---------------------------------------------------------------- which days are kept


def test_a_day_is_kept_once_it_is_over_and_anew_when_something_is_added_to_it() -> None:
    tenant = make_tenant(funds=100)
    accepted(hold(key="today", tenant_id=tenant, amount=30, at=NOON + DAY))
    assert days_close(at=NOON + DAY) == 1
    assert entries_by_day() == {(tenant, NOON.date()): 1}
    grant(tenant, 7, key="late")
    assert days_close(at=NOON + DAY) == 1
    assert entries_by_day() == {(tenant, NOON.date()): 2}
    assert days_close(at=NOON + 2 * DAY) == 1
    assert entries_by_day() == {(tenant, NOON.date()): 2, (tenant, (NOON + DAY).date()): 2}


def test_days_are_closed_in_portions_the_newest_first_and_not_before_a_day() -> None:
    tenant = make_tenant(funds=100)
    for number in range(1, 4):
        grant(tenant, 1, key=f"g{number}", at=NOON + number * DAY)
    assert days_close(at=LATER, since=(NOON + 2 * DAY).date(), most=1) == 1
    assert set(entries_by_day()) == {(tenant, (NOON + 3 * DAY).date())}
    assert days_close(at=LATER, since=(NOON + 2 * DAY).date()) == 1
    assert days_close(at=LATER, since=(NOON + 2 * DAY).date()) == 0
    assert days_close(at=LATER) == 2


def test_lists_are_cut_and_sums_are_not() -> None:
    tenant = make_tenant(funds=100)
    for number in range(3):
        accepted(hold(key=f"h{number}", tenant_id=tenant, amount=10, at=NOON, subject=f"job:{number}"))
    entries = ((held(tenant), -10), (OPERATOR, 10))
    post_many(postings=[Posting(f"s{n}", "settle", entries, NOON, subject=f"job:{n}") for n in range(3)])
    period = period_read(tenant_id=tenant, start=MIDNIGHT, end=MIDNIGHT + DAY, most=2)
    assert ([row.subject for row in period.paid], period.paid_rows) == (["job:0", "job:1"], 3)
    assert period.subjects == {"job:0": 10, "job:1": 10, "job:2": 10, "": 0}


# ---------------------------------------------------------------- nobody writes one by hand


def test_whatever_is_written_into_a_sheet_it_says_what_the_book_says() -> None:
    tenant = make_tenant(funds=100)
    days_close(at=NOON + DAY)
    overrule("UPDATE ledger_daysheet SET kind_available = '{999}', entries = 7")
    sheet = DaySheet.objects.get()
    assert (sheet.tenant_id, sheet.entries, sheet.kind_names, sheet.kind_available) == (tenant, 1, ["grant"], [100])


def test_audit_names_a_sheet_that_was_changed_past_the_rules() -> None:
    tenant = make_tenant(funds=100)
    days_close(at=NOON + DAY)
    assert not verify().findings
    tamper("UPDATE ledger_daysheet SET kind_available = '{101}'")
    assert [(f.check, f.culprit) for f in verify().findings] == [
        ("day sheet", f"sheet of tenant {tenant} on {NOON.date()}")
    ]


def test_audit_has_nothing_against_a_sheet_that_waits_to_be_made_anew() -> None:
    tenant = make_tenant(funds=100)
    days_close(at=NOON + DAY)
    grant(tenant, 7, key="late")
    commit_checks()
    assert not verify().findings
    tamper("UPDATE ledger_daysheet SET entries = 2")  # believed from now on
    assert [f.check for f in verify().findings] == ["day sheet"]

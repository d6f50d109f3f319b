"""Today and this month are the reader's own, on every page that says so; what is kept by days of UTC says that it is.

The clock stands ten seconds after the midnight of two readers: on Kiritimati September has just begun, on Hawaii the
31st of August, and in UTC it is ten in the morning of that same 31st. Of two payments one came before midnight, and one
after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from scheduling.models import Budget, TenantPolicy
from tenants.common.zones import COOKIE, day_of, midnight
from tenants.ledger.postings import AccountName, earned, held
from tenants.models import Tenant
from tenants.roles import AUDITOR, OWNER
from tenants.scoping import scope
from tenants.templatetags.look import credits
from tests.books.money_world import World, read, text, traded
from tests.scheduling.pages import client_as, client_of, text_of
from tests.tenants.builders import make_member

pytestmark = pytest.mark.django_db

MIDNIGHT = datetime(2026, 8, 31, 10, tzinfo=UTC)
NOW = MIDNIGHT + timedelta(seconds=10)
KIRITIMATI, HAWAII, NOWHERE = "Pacific/Kiritimati", "Pacific/Honolulu", ""


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """Eight slots of ten seconds and a half are over; Lumen has paid Castor for two of them."""
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock(), transaction.atomic():
        patch.setattr(timezone, "now", lambda: NOW)
        yield traded()
        transaction.set_rollback(True)


def reader(world: World, tenant: Tenant, zone: str) -> Client:
    browser = client_of(make_member(tenant, OWNER).user)
    if zone:
        browser.cookies[COOKIE] = zone
    return browser


def words(world: World, tenant: Tenant, zone: str, page: str, **query: str) -> str:
    return text_of(text(read(reader(world, tenant, zone), tenant, page, **query)))


@dataclass(frozen=True)
class Brought:
    """Micro-credits."""

    earned: int
    spent: int


def since(tenant: Tenant, start: datetime) -> Brought:
    """By the entries themselves: nothing but slots was paid in this market."""
    return Brought(_sum(earned(tenant.pk), start), -_sum(held(tenant.pk), start))


def _sum(account: AccountName, start: datetime) -> int:
    from tenants.ledger.models import Entry

    rows = Entry.objects.filter(account_id=account.id, occurred_at__gte=start, transaction__kind="settle")
    return sum(rows.values_list("amount", flat=True))


def begins(zone: str) -> datetime:
    return MIDNIGHT if zone else datetime(2026, 8, 31, tzinfo=UTC)


def earned_and_spent(ledger: str, brought: Brought) -> bool:
    """What the first sentence says, with as many digits as make its sum add up."""
    match = re.search(r"earned (\S+) and spent ([^\s:]+)", ledger)
    assert match, ledger
    digits = len(match[1].partition(".")[2])
    return match.groups() == (credits(brought.earned, digits), credits(brought.spent, digits))


@pytest.mark.one_case
@pytest.mark.parametrize("zone", [KIRITIMATI, HAWAII, NOWHERE])
def test_what_was_earned_today_is_the_same_on_every_page(world: World, zone: str) -> None:
    for tenant in (world.lumen, world.castor):
        today, ever = since(tenant, begins(zone)), since(tenant, world.pool.epoch_at)
        assert today.earned + today.spent > 0
        assert (today != ever) == bool(zone), "half of it came before the reader's midnight"
        brought, cost = credits(today.earned), credits(today.spent)
        board = words(world, tenant, zone, "market/")
        assert re.search(r"Earned today \+?(\S+) Spent today \u2212?(\S+)", board).groups() == (brought, cost)  # type: ignore[union-attr]
        share = words(world, tenant, zone, "share/")
        month = since(tenant, MIDNIGHT if zone == KIRITIMATI else world.pool.epoch_at)
        assert f"Earned today +{brought} {credits(month.earned)} this month" in share
        ledger = words(world, tenant, zone, "ledger/")
        assert earned_and_spent(ledger, today)
        ledger = words(world, tenant, zone, "ledger/", period="month")
        assert earned_and_spent(ledger, month)


@pytest.mark.parametrize(
    ("zone", "today", "yesterday"),
    [
        (KIRITIMATI, "Tuesday 1 September 2026", "Monday 31 August 2026"),
        (HAWAII, "Monday 31 August 2026", "Sunday 30 August 2026"),
        (NOWHERE, "Monday 31 August 2026", "Sunday 30 August 2026"),
    ],
)
def test_ledger_calls_the_day_as_its_reader_does(world: World, zone: str, today: str, yesterday: str) -> None:
    assert f"Ledger {today}." in words(world, world.lumen, zone, "ledger/")
    assert f"Ledger {yesterday}." in words(world, world.lumen, zone, "ledger/", period="yesterday")
    foot = words(world, world.lumen, zone, "ledger/")
    assert "Times and days in " + (zone or "UTC") in foot


def test_dates_of_the_ledger_are_the_readers_and_its_file_has_the_same_rows(world: World) -> None:
    counts = {}
    for zone in (KIRITIMATI, NOWHERE):
        query = {"from": "2026-08-31", "to": "2026-08-31"}
        file = text(read(reader(world, world.lumen, zone), world.lumen, "ledger/", format="csv", **query))
        start = datetime(2026, 8, 31, tzinfo=ZoneInfo(zone or "UTC"))
        times = [datetime.fromisoformat(line.split(",")[0]) for line in file.splitlines()[1:]]
        assert times
        assert all(start <= at < start + timedelta(days=1) for at in times)
        counts[zone] = len(times)
    assert counts[KIRITIMATI] < counts[NOWHERE], "what came after midnight is of another day there"


@pytest.mark.parametrize(("zone", "count"), [(KIRITIMATI, 0), (HAWAII, 0), (NOWHERE, 5)])
def test_jobs_since_today_are_those_of_the_readers_day(world: World, zone: str, count: int) -> None:
    day = "2026-09-01" if zone == KIRITIMATI else "2026-08-31"
    html = text(read(reader(world, world.lumen, zone), world.lumen, "jobs/", since=day))
    assert len(set(re.findall(r"/t/lumen/jobs/(\d+)/", html))) == count


@pytest.mark.parametrize("zone", [KIRITIMATI, NOWHERE])
def test_statements_and_budgets_keep_the_days_of_utc_and_say_so(world: World, zone: str) -> None:
    tenant = world.lumen
    with scope(tenant):
        Budget.objects.create(tenant=tenant, member=None, period="month", soft_limit=1)
        TenantPolicy.objects.create(tenant=tenant, pool=world.pool, rent="budget", budget=5, budget_period="month")
    ever = since(tenant, world.pool.epoch_at)
    statement = words(world, tenant, zone, "statements/period/")
    assert "Statement, August 2026" in statement
    assert f"earned {credits(ever.earned)} , spent {credits(ever.spent)}" in statement
    assert "days are those of UTC" in statement
    text = words(world, tenant, zone, "statements/")
    assert "August 2026" in text
    assert "September 2026" not in text
    assert "Days and months are those of UTC" in text
    share = words(world, tenant, zone, "share/")
    assert "are left in this month of UTC" in share
    assert "month of UTC" in share[share.index("Budgets what the tenant") :]


@pytest.mark.parametrize("zone", [KIRITIMATI, NOWHERE])
def test_pages_of_fairness_call_their_day_one_of_utc(world: World, zone: str) -> None:
    browser = client_as(AUDITOR, None)
    browser.cookies[COOKIE] = zone
    html = browser.get("/fairness/", {"days": "1"}, secure=True).content.decode()
    assert "Today (UTC)" in html
    own = text(read(reader(world, world.lumen, zone), world.lumen, "fairness/", days="1"))
    assert "Today (UTC)" in own
    assert "today" not in text_of(own).lower().replace("today (utc)", "")


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("Asia/Beirut", "2026-03-29", 23),  # its clocks go on at midnight: the day begins at one
        ("Pacific/Kiritimati", "2026-03-01", 24),
        ("UTC", "2026-03-01", 24),
    ],
)
def test_a_day_begins_with_its_first_moment_and_ends_where_the_next_begins(zone: str, day: str, hours: int) -> None:
    zone_info, date = ZoneInfo(zone), datetime.fromisoformat(day).date()
    start, end = midnight(date, zone_info), midnight(date + timedelta(days=1), zone_info)
    assert (end.astimezone(UTC) - start.astimezone(UTC)) == timedelta(hours=hours)
    assert day_of(start, zone_info) == date
    assert day_of(start.astimezone(UTC) - timedelta(microseconds=1), zone_info) == date - timedelta(days=1)
    with timezone.override(zone_info):
        assert (midnight(date), day_of(start)) == (start, date)


@pytest.mark.parametrize("zone", [KIRITIMATI, HAWAII])
def test_period_of_a_bundle_is_shown_in_the_days_of_utc_that_were_asked_for(world: World, zone: str) -> None:
    browser = client_as(AUDITOR, None)
    browser.cookies[COOKIE] = zone
    form = {"kind": "bundle", "pool": world.pool.slug, "from": "2026-08-01", "to": "2026-08-30"}
    page = browser.post("/fairness/audits/start/", form, secure=True)["Location"]
    assert "1 Aug 2026 up to 31 Aug 2026 (UTC)" in browser.get(page, secure=True).content.decode()

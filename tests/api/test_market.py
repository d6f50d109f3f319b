"""The market through the interface: prices, awards without names, the calendar, intervals and their proof."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from scheduling.models import Award, CalendarCell, Lane, LaneClock, Pool, PriceTick, ResourceKind, Server
from tenants.models import Tenant
from tenants.roles import AUDITOR, BILLING, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope
from tests.api.builders import Program, problem, program_of
from tests.database import as_superuser
from tests.scheduling.builders import make_pool, make_server
from tests.scheduling.live import enter, make_award, make_live_pool
from tests.scheduling.markets import make_market, make_waiting, run_slots
from tests.tenants.builders import make_tenant

pytestmark = pytest.mark.django_db
POOL = "pools/main/"


@pytest.fixture
def two() -> tuple[Pool, Tenant, Tenant, Server]:
    """Two tenants with a job, an award and a server of the same names; from now on."""
    pool = make_live_pool(epoch_at=timezone.now())
    server = make_server(pool, worker=8, ps=4)
    tenants = make_tenant("lumen"), make_tenant("quarry")
    for number, tenant in enumerate(tenants, 1):
        award = make_award(
            pool,
            tenant,
            slots=3,
            charges=[],
            allocation=[[server.pk, 0, 3, number, 1]],
        )
        enter(award)
    return pool, *tenants, server


def results(caller: Program, address: str) -> list[dict[str, Any]]:
    reply = caller.get(address)
    assert reply.status_code == 200, reply.content
    return list(reply.json()["results"])


def test_tenant_sees_its_own_awards_and_bookings_and_nobody_elses(two) -> None:
    _, lumen, quarry, server = two
    for number, tenant in enumerate((lumen, quarry), 1):
        caller = program_of(SUBMITTER, tenant)
        (award,) = results(caller, f"tenants/{tenant.slug}/awards/")
        with scope(tenant):
            assert award["id"] == Award.objects.get().pk
        assert award["allocation"] == [
            {"server": server.name, "start_slot": 0, "end_slot": 3, "workers": number, "parameter_servers": 1}
        ]
        (booking,) = results(caller, f"tenants/{tenant.slug}/pools/main/bookings/")
        assert (booking["award"], booking["workers"], booking["job_name"]) == (award["id"], number, "train")


def test_awards_of_everybody_bear_no_name_no_number_and_no_price(two) -> None:
    _, lumen, _, _ = two
    awards = results(program_of(VIEWER, lumen), f"{POOL}awards/?ordering=start")
    assert sorted(award["workers"] for award in awards) == [4, 4]
    assert sorted(row["workers"] for award in awards for row in award["allocation"]) == [1, 2]
    hidden = {"id", "job", "job_name", "price", "payees", "attempt", "tenant", "interval"}
    assert all(hidden.isdisjoint(award) for award in awards)
    assert results(program_of(VIEWER, lumen), f"{POOL}awards/?from_slot=3") == []


class Later:
    """In place of the clock: so many slots of a pool after its beginning."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.slot = 0

    def now(self) -> datetime:
        return self._pool.slot_start(self.slot)


def test_next_page_of_awards_is_of_the_same_slots_also_when_one_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, lumen = make_live_pool(epoch_at=timezone.now()), make_tenant("lumen")
    for start, slots in ((0, 1), (0, 96), (2, 4)):
        make_award(pool, lumen, start=start, slots=slots)
    caller, clock = program_of(VIEWER, lumen), Later(pool)
    monkeypatch.setattr("scheduling.market.api.awards.timezone", clock)
    first = caller.get(f"{POOL}awards/?ordering=-start&limit=2").json()
    clock.slot = 1
    second = caller.get(first["next"]).json()
    assert [(row["start_slot"], row["end_slot"]) for row in (*first["results"], *second["results"])] == [
        (2, 6),
        (0, 96),
        (0, 1),
    ]
    assert caller.get(second["previous"]).json()["results"] == first["results"]


def test_calendar_says_what_neither_lane_holds(two) -> None:
    pool, lumen, _, _ = two
    LaneClock.objects.create(pool=pool, lane=Lane.BATCH, frontier=2)
    CalendarCell.objects.filter(slot=1).update(instant=1.0)
    lines = results(program_of(BILLING, lumen), f"{POOL}calendar/?to_slot=4&limit=200")
    workers = {line["slot"]: line for line in lines if line["resource"] == "worker"}
    assert [(workers[slot]["batch"], workers[slot]["free"]) for slot in range(4)] == [
        (3.0, 5.0),
        (3.0, 4.0),
        (3.0, 5.0),
        (0.0, 8.0),
    ]
    assert [workers[slot]["decided"] for slot in range(4)] == [True, True, False, False]


@pytest.mark.parametrize(
    "query", ["from_slot=5&to_slot=5", "from_slot=5&to_slot=4", "to_slot=1001&from_slot=0", "from_slot=-1", "to_slot=0"]
)
def test_span_that_is_none_or_too_long_is_a_400(two, query: str) -> None:
    caller = program_of(VIEWER, two[1])
    for address in (f"{POOL}calendar/", f"{POOL}awards/", "tenants/lumen/pools/main/bookings/"):
        document = problem(caller.get(f"{address}?{query}"), 400, "invalid_request")
        assert document["errors"][0]["field"] in ("from_slot", "to_slot")


def test_slot_beyond_the_calendar_is_a_400() -> None:
    make_pool(slot_seconds=2**31 - 1)
    caller = program_of(VIEWER, make_tenant("lumen"))
    problem(caller.get(f"{POOL}calendar/?from_slot={2**40}"), 400, "invalid_request")


def post_prices(pool: Pool, lane: str, first: int, end: int, price: float | None) -> None:
    for kind in ResourceKind.objects.filter(pool=pool):
        for slot in range(first, end):
            PriceTick.objects.create(pool=pool, lane=lane, resource=kind, slot=slot, price=price, offered=8.0, sold=2.0)


def test_prices_now_ahead_and_before_are_those_that_were_posted() -> None:
    pool = make_live_pool(epoch_at=timezone.now())
    caller = program_of(VIEWER, make_tenant("lumen"))
    post_prices(pool, Lane.BATCH, 0, 4, 0.25)
    post_prices(pool, Lane.INSTANT, 0, 6, None)
    now = results(caller, f"{POOL}prices/")
    assert [(line["lane"], line["resource"], line["price"]) for line in now] == [
        ("batch", "worker", "0.250000"),
        ("batch", "ps", "0.250000"),
        ("instant", "worker", None),
        ("instant", "ps", None),
    ]
    first = now[0]["slot"]
    ahead = results(caller, f"{POOL}prices/ahead/?resource=ps")
    assert [line["slot"] for line in ahead] == list(range(first + 1, 4))
    instant = results(caller, f"{POOL}prices/ahead/?resource=ps&lane=instant")
    assert [line["slot"] for line in instant] == list(range(first + 1, 6))
    history = results(caller, f"{POOL}prices/history/?from_slot=3&to_slot=5")
    assert [(line["slot"], line["resource"], line["price"]) for line in history] == [
        (3, "worker", "0.250000"),
        (3, "ps", "0.250000"),
        (4, "worker", None),
        (4, "ps", None),
    ]
    assert results(caller, f"{POOL}prices/history/?resource=gpu") == []


def test_pages_of_prices_are_of_the_same_slots_also_when_time_goes_on() -> None:
    pool = make_live_pool(epoch_at=timezone.now())
    caller = program_of(VIEWER, make_tenant("lumen"))
    post_prices(pool, Lane.BATCH, 0, 1, 0.5)
    page = caller.get(f"{POOL}prices/history/?limit=1").json()
    with as_superuser():
        Pool.objects.update(epoch_at=timezone.now() - 500 * (timezone.now() - pool.epoch_at))
    second = caller.get(page["next"]).json()
    assert [line["resource"] for line in (*page["results"], *second["results"])] == ["worker", "ps"]
    assert second["results"][0]["slot"] == 0
    assert second["next"] is None


@pytest.mark.parametrize("address", ["calendar/", "prices/history/", "prices/ahead/"])
def test_list_of_slots_can_be_walked_to_its_end_and_back(address: str) -> None:
    pool = make_live_pool(epoch_at=timezone.now())
    make_server(pool, worker=8, ps=4)
    post_prices(pool, Lane.BATCH, 0, 5, 0.5)
    caller = program_of(VIEWER, make_tenant("lumen"))
    query = "?from_slot=1&to_slot=5&limit" if address != "prices/ahead/" else "?from_slot=1&limit"
    whole = results(caller, f"{POOL}{address}{query}=8")
    pages = [caller.get(f"{POOL}{address}{query}=2").json()]
    for way in ("next",) * 3 + ("previous",) * 3:
        pages.append(caller.get(pages[-1][way]).json())
    assert [line for page in pages[:4] for line in page["results"]] == whole
    assert pages[-1]["results"] == pages[0]["results"]


def test_pages_of_prices_ahead_leave_out_no_slot_when_one_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_live_pool(epoch_at=timezone.now())
    caller, clock = program_of(VIEWER, make_tenant("lumen")), Later(pool)
    monkeypatch.setattr("scheduling.market.api.prices.timezone", clock)
    post_prices(pool, Lane.BATCH, 0, 5, 0.5)
    first = caller.get(f"{POOL}prices/ahead/?resource=ps&limit=2").json()
    clock.slot = 1
    second = caller.get(first["next"]).json()
    assert [line["slot"] for line in (*first["results"], *second["results"])] == [1, 2, 3, 4]
    assert [line["slot"] for line in results(caller, f"{POOL}prices/ahead/?resource=ps&from_slot=4")] == [4]
    assert results(caller, f"{POOL}prices/ahead/?from_slot={2**40}") == []


def test_interval_shows_prices_to_all_and_bids_and_payouts_to_whoever_may_see_them() -> None:
    pool, (lumen, quarry) = make_market("lumen", "quarry")
    jobs = {tenant.slug: make_waiting(pool, tenant) for tenant in (lumen, quarry)}
    (decided,) = run_slots(pool, 0, 0)
    for tenant in (lumen, quarry):
        address = f"tenants/{tenant.slug}/pools/main/intervals/{decided.number}/"
        own = program_of(OWNER, tenant).get(address).json()
        assert [bid["job"] for bid in own["bids"]] == [jobs[tenant.slug].pk]
        assert program_of(BILLING, tenant).get(address).json()["bids"] == []
    body = program_of(BILLING, lumen).get(f"{POOL}intervals/{decided.number}/").json()
    assert (body["interval"]["digest"], body["policy"]) == (decided.digest, "astraea")
    assert [offer["resource"] for offer in body["offers"]] == ["worker", "ps"]
    assert "train" not in str(body)
    (line,) = results(program_of(VIEWER, lumen), f"{POOL}intervals/")
    assert line == body["interval"]
    problem(program_of(VIEWER, lumen).get(f"{POOL}intervals/{10**25}/"), 404, "not_found")


def test_findings_that_name_jobs_are_for_auditors_alone() -> None:
    pool, (lumen, quarry) = make_market("lumen", "quarry")
    job = make_waiting(pool, quarry)
    decided = next(interval for interval in run_slots(pool, 0, 3) if interval.jobs_awarded)
    address = f"{POOL}intervals/{decided.number}/verify/"
    member, auditor = program_of(OWNER, lumen), program_of(AUDITOR, lumen)
    clean = member.post(address).json()
    assert (clean["clean"], clean["findings"], clean["hidden"]) == (True, [], 0)
    with scope(quarry), as_superuser():
        Award.objects.filter(job=job).update(workers=99)
    hidden, whole = member.post(address).json(), auditor.post(address).json()
    assert (hidden["clean"], hidden["findings"], hidden["hidden"]) == (False, [], len(whole["findings"]))
    assert f"job {job.pk}" in whole["findings"][0]["where"]
    own = program_of(VIEWER, quarry).post(f"tenants/quarry/jobs/{job.pk}/verify/").json()
    assert (own["clean"], len(own["findings"]), own["hidden"]) == (False, 1, 0)


def test_one_person_replays_one_thing_at_a_time() -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen)
    (decided,) = run_slots(pool, 0, 0)
    caller = program_of(OWNER, lumen)
    assert caller.token is not None
    address = f"{POOL}intervals/{decided.number}/verify/"
    cache.add(f"interval-verify:{caller.token.user_id}", 1, timeout=60)
    problem(caller.post(address), 409, "still_verifying")
    assert program_of(OWNER, lumen).post(address).status_code == 200
    cache.delete(f"interval-verify:{caller.token.user_id}")
    assert caller.post(address).status_code == 200


def test_quota_tells_used_from_idle(two) -> None:
    pool, lumen, _, _ = two
    body = program_of(VIEWER, lumen).get("tenants/lumen/pools/main/quota/").json()
    rented = {row["resource"]: row["rented"] for row in body["resources"]}
    assert rented == {"worker": 1.0, "ps": 1.0}
    assert (body["pool"], body["servers"]) == (pool.slug, [])

"""What an elastic pool's jobs lose when a server fails or the market stands still: the slot, never its price."""

from __future__ import annotations

import pytest

from scheduling.audit.verification import charge_verify
from scheduling.jobs.read_page import job_page
from scheduling.market.elastic.read_sizes import so_far
from scheduling.models import Pool, Server, TrainingJob
from scheduling.operator.server_states import server_return
from scheduling.runs.failures import ServerLost, server_lose
from tenants.access import access_of_system
from tenants.ledger.selectors import transactions_about
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser
from tests.scheduling.clocks import advance, everything, moment
from tests.scheduling.elastic_world import all_is_sound, make_elastic, make_elastic_job, run, slots_of
from tests.scheduling.live import events, explained, money, operator_money
from tests.scheduling.markets import MICRO, again

pytestmark = pytest.mark.django_db
OPERATOR = access_of_system("the tests")
FIRST_FIT = {"name": "gandiva_fair", "workers": 4}  # a whole gang on one server, with one parameter server


def two_jobs() -> tuple[Pool, Tenant, Tenant, TrainingJob, TrainingJob]:
    """The owner's job runs on the first server, half of whose workers are its own; the renter's on the second."""
    pool, owner, renter = make_elastic(FIRST_FIT)
    return pool, owner, renter, make_elastic_job(pool, owner), make_elastic_job(pool, renter, 0.0, slots=4)


def servers_of(job: TrainingJob) -> list[list[str]]:
    names = dict(Server.objects.values_list("pk", "name"))
    return [sorted({names[row[0]] for row in award.allocation}) for award in slots_of(job)]


def lose(pool: Pool, name: str, slot: float) -> ServerLost:
    lost = server_lose(server=Server.objects.get(name=name), by=OPERATOR, reason="smoke", at=moment(pool, slot))
    assert isinstance(lost, ServerLost)
    return lost


def come_back(pool: Pool, name: str, slot: float) -> None:
    server = Server.objects.get(name=name)
    assert server_return(server=server, by=OPERATOR, reason="repaired", at=moment(pool, slot)) is None


def test_only_jobs_on_the_lost_server_lose_their_slot_and_get_its_whole_price_back() -> None:
    pool, owner, _, mine, others = two_jobs()
    run(pool, 0, 1)
    assert (servers_of(mine), servers_of(others)) == ([["s01"]] * 2, [["s02"]] * 2)
    before = money(owner)[:2]
    slot_price = slots_of(mine)[1].paid
    lost = lose(pool, "s01", 1.5)
    assert (lost.awards, lost.refunded, lost.jobs) == (1, slot_price, 1)
    assert money(owner)[:2] == (before[0] + slot_price, 0)
    assert (again(mine).state, again(mine).reason_code) == ("queued", "server_lost")
    assert (again(others).state, slots_of(others)[1].state) == ("running", "running")
    with scope(owner):
        row = TrainingJob.objects.select_related("pool", "tenant", "submitted_by").get(pk=mine.pk)
        page = job_page(row, at=moment(pool, 1.6), money=True)
    assert page.slots is not None
    assert page.slots.returned == slot_price
    assert page.slots.paid == page.slots.settled + page.slots.held + page.slots.returned
    [event] = events("job_requeued")
    assert (event.tenant_id, event.subject, event.data["refunded"]) == (owner.pk, f"job:{mine.pk}", slot_price)
    [public] = events("server_lost")
    assert (public.tenant_id, public.data["awards"]) == (None, 1)


def test_it_goes_on_elsewhere_with_what_it_had_done_and_pays_for_what_it_got() -> None:
    pool, owner, renter, mine, others = two_jobs()
    run(pool, 0, 1)
    lose(pool, "s01", 1.5)
    run(pool, 2, 8)
    assert {again(job).state for job in (mine, others)} == {"finished"}
    assert [(award.start, award.state, award.work_left) for award in slots_of(mine)][:2] == [
        (0, "done", 16.0),
        (1, "void", 8.0),
    ]
    assert [names for names in servers_of(mine)[2:] + servers_of(others)[2:] if names != ["s02"]] == []
    delivered = [award for award in slots_of(mine) if award.state != "void"]
    assert len(delivered) == 3
    assert slots_of(mine)[2].work_left == 8.0  # slot 1 is done again
    with scope_disabled("the test looks at what was paid"):
        page = so_far(pool, slots_of(mine))
        settled = [entry for entry in transactions_about(subject=f"job:{mine.pk}") if entry.kind == "settle"]
        assert charge_verify(job_id=mine.pk).findings == ()
    assert (page.lost, page.slots, page.paid) == (1, 3, sum(award.paid for award in delivered))
    assert len(settled) == 3
    with scope(owner):
        row = TrainingJob.objects.select_related("pool", "tenant", "submitted_by").get(pk=mine.pk)
        table = job_page(row, at=moment(pool, 8.5), money=True).slots
    assert table is not None
    assert [row.slot for row in table.rows] == [award.start for award in delivered]  # none in which it waited
    paid = 2_000 * MICRO - sum(money(tenant)[0] for tenant in (owner, renter))
    assert paid == operator_money() + money(owner)[2] == sum(a.paid for a in [*delivered, *slots_of(others)])
    all_is_sound(pool)


def test_whoever_finds_no_room_without_the_server_waits_and_takes_it_again_when_it_is_back() -> None:
    pool, _, _, mine, others = two_jobs()
    run(pool, 0, 0)
    lose(pool, "s01", 0.5)
    run(pool, 1, 1)
    waits = next(job for job in (mine, others) if again(job).state == "queued")
    with scope(waits.tenant):
        assert explained(again(waits)).reason.code == "no_room"
    come_back(pool, "s01", 1.5)
    run(pool, 2, 2)
    assert {again(job).state for job in (mine, others)} == {"running"}
    run(pool, 3, 8)
    assert {again(job).state for job in (mine, others)} == {"finished"}
    all_is_sound(pool)


def test_slots_in_which_the_market_stood_still_are_neither_decided_nor_paid() -> None:
    pool, _, renter = make_elastic()
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(outage_grace_seconds=20)
    pool.refresh_from_db()
    job = make_elastic_job(pool, renter)
    run(pool, 0, 1)
    advance(pool, 9.5)
    assert [(award.start, award.state) for award in slots_of(job)] == [(0, "done"), (1, "done"), (9, "running")]
    assert (again(job).state, money(renter)[1]) == ("running", 3 * MICRO)
    [stopped] = events("market_stopped")
    assert (stopped.data["start"], stopped.data["end"]) == (2, 9)
    assert [event.data["start"] for event in events("job_started")] == [0, 9]
    run(pool, 10, 10)
    assert (again(job).state, money(renter)[:2]) == ("finished", (991 * MICRO, 0))
    before = everything()
    advance(pool, 10.0)
    assert everything() == before
    all_is_sound(pool)

"""The live batch lane, its rows read anew at every slot, decides just what one run of the simulation does in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.core.scenario import Scenario
from scheduling.core.settlement import micro
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import AWARDED, EXPIRED, Plan, Policy, View
from scheduling.market.decide.interval import batch_policy
from scheduling.market.decide.terms import allocation_rows
from scheduling.market.settle.slots import slot_settle
from scheduling.market.view.frame import PoolFrame, planning_frame
from scheduling.market.view.jobs import JobReader
from scheduling.models import AlonePlan, Award, JobFloor, JobState, Pool, RentState, TenantPolicy, TrainingJob
from tenants.ledger.audit import verify
from tenants.scoping import scope, scope_disabled
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.markets import at, give, make_market, make_waiting, run_slots

pytestmark = pytest.mark.django_db

SLOTS = 40


def make_random_market(seed: int, plans: Sequence[str] = (AlonePlan.KEEP,), parts: str | None = None) -> Pool:
    """Three owners of uneven size, a tenant without cells, a server that two share, jobs of all kinds. `parts`: what
    those of a job are worth that may be saved; then two of three are so, and longer than the others."""
    draw = np.random.default_rng(seed)
    policy = {"name": "astraea", "mode": "guarantee"} | ({"parts": parts} if parts else {})
    clock: dict[str, Any] = {
        "clock_first": int(draw.integers(1, 4)),
        "clock_cap": 8,
        "clock_restart": bool(draw.integers(2)),
    }
    pool, tenants = make_market("lumen", "castor", "vela", worker=4, batch_policy=policy, **clock)
    guest = make_tenant("guest")
    give(guest, 1_000)
    shared = make_server(pool, "s90", worker=8, ps=4)
    make_cells(shared, tenants[0], {"worker": 3, "ps": 1})
    make_cells(shared, tenants[1], {"worker": 2, "ps": 1})
    with scope(tenants[2]):
        TenantPolicy.objects.create(pool=pool, reserve_price={"worker": 0.2}, rent="budget", budget=3_000_000)
    for place, tenant in enumerate((*tenants, guest)):
        with scope(tenant):
            TenantPolicy.objects.update_or_create(pool=pool, defaults={"plan": plans[place % len(plans)]})
    for arrival in np.sort(draw.uniform(0, SLOTS * 0.6, size=24)):
        tenant = (*tenants, guest)[int(draw.integers(4))]
        base, gang = float(draw.uniform(5, 120)), int(draw.integers(1, 5))
        spec = {
            "epochs": int(draw.integers(1, 5)),
            "chunks": gang,
            "max_workers": gang,
            "gradient_mb": float(draw.choice([0.0, 20.0])),
            "worker_mbps": 1_000.0,
            "ps_mbps": 4_000.0,
            "priority": int(draw.integers(2)),
            "value": {"kind": "linear", "slope": -base / float(draw.uniform(10, 60)), "base": base},
        }
        if parts and draw.integers(3):
            spec |= {
                "divisible": True,
                "save_slots": float(draw.choice([0.0, 0.5])),
                "epochs": int(draw.integers(8, 24)),
            }
            spec["value"] = {"kind": "linear", "slope": -base / float(draw.uniform(4, 12)), "base": 4 * base}
        make_waiting(pool, tenant, arrival=round(float(arrival), 3), **spec)
    return pool


@dataclass(frozen=True)
class Uncut:
    """A policy that has nothing to settle where a run is cut: a market goes on."""

    policy: Policy
    name: ClassVar[str] = "uncut"

    def decide(self, view: View) -> Plan:
        return self.policy.decide(view)


def simulated(pool: Pool) -> tuple[PoolFrame, Outcome]:
    frame = planning_frame(pool, ())
    reader = JobReader(frame)
    with scope_disabled("the test looks at every job"):
        rows = list(TrainingJob.objects.filter(pool=pool).order_by("pk"))
    scenario = Scenario(frame.cluster, tuple(reader.read(row) for row in rows), SLOTS, {"name": "astraea"})
    return frame, simulate(scenario, {"batch": Uncut(batch_policy(frame))})


KEEP_PLANS, RENEWED = (AlonePlan.KEEP,), (AlonePlan.RENEW, AlonePlan.RENEW, AlonePlan.KEEP, AlonePlan.RENEW)


@pytest.mark.parametrize(("seed", "plans"), [(n, KEEP_PLANS) for n in range(4)] + [(n, RENEWED) for n in range(6)])
def test_live_market_books_what_the_simulation_books(seed: int, plans: Sequence[str]) -> None:
    pool = make_random_market(seed, plans)
    frame, outcome = simulated(pool)
    for slot in range(SLOTS):
        slot_settle(pool_id=pool.pk, slot=slot - 1, at=at(pool, slot))
        run_slots(pool, slot, slot)
    with scope_disabled("the test looks at everything"):
        awards = {award.job_id: award for award in Award.objects.all()}
        floors = {floor.job_id: floor for floor in JobFloor.objects.order_by("interval")}
    booked = [booking for track in outcome.tracks for booking in track.bookings]
    assert any(booking.paid > 0 for booking in booked)
    assert awards.keys() == {booking.job for booking in booked}
    for booking in booked:
        award = awards[booking.job]
        assert (award.start, award.end, award.phase, award.value) == (
            booking.start,
            booking.end,
            booking.phase,
            booking.value,
        )
        assert award.allocation == allocation_rows(frame, booking.allocation)
        assert award.paid == micro(booking.paid)
    for track in outcome.tracks:
        if track.floor is not None:
            stored = floors.pop(track.job.number)
            assert (stored.value, stored.start, stored.end) == (track.floor.value, track.floor.start, track.floor.end)
            assert stored.draft == track.floor.draft
        settled = track.settlement
        if (award := awards.get(track.job.number)) is not None and award.rent:
            assert (award.rent == RentState.CLOSED) == (settled is not None)
            assert award.adjusted == (min(micro(settled.refund), award.paid) if settled else 0)
    assert floors == {}
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
    assert verify().is_clean


@pytest.mark.parametrize("parts", ["prorated", "nothing"])
@pytest.mark.parametrize("seed", range(3))
def test_live_market_with_parts_books_and_settles_what_the_simulation_does(seed: int, parts: str) -> None:
    """Each piece, what became of each rent, and of each job; who is paid at once, and who has what back."""
    pool = make_random_market(seed, RENEWED, parts)
    _, outcome = simulated(pool)
    for slot in range(SLOTS):
        slot_settle(pool_id=pool.pk, slot=slot - 1, at=at(pool, slot))
        run_slots(pool, slot, slot)
    with scope_disabled("the test looks at everything"):
        awards = {(award.job_id, award.start): award for award in Award.objects.all()}
        jobs = {job.pk: job for job in TrainingJob.objects.filter(pool=pool)}
    booked = {(booking.job, booking.start): booking for track in outcome.tracks for booking in track.bookings}
    assert awards.keys() == booked.keys()
    assert sum(award.work is not None and award.phase == "shared" for award in awards.values()) >= 3
    for place, booking in booked.items():
        award = awards[place]
        terms = (award.end, award.phase, award.paid, award.work or booking.work)
        assert terms == (booking.end, booking.phase, micro(booking.paid), booking.work)
        assert award.value == pytest.approx(booking.value, abs=1e-9)
    for track in outcome.tracks:
        rents = [award for (number, _), award in awards.items() if number == track.job.number and award.rent]
        settled = track.settlement
        assert bool(rents) or settled is None
        assert {award.rent for award in rents} <= {RentState.OPEN if settled is None else RentState.CLOSED}
        back = 0 if settled is None else micro(settled.refund)
        assert sum(award.adjusted for award in rents) == pytest.approx(back, abs=len(rents))
        assert (jobs[track.job.number].state == JobState.EXPIRED) == (track.state == EXPIRED)
        if any(booking.provisional for booking in track.bookings) and track.state not in (AWARDED, EXPIRED):
            assert {award.rent for award in rents} == {RentState.OPEN}
    assert any(booking.provisional for booking in booked.values()) == (parts == "nothing")
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
    assert verify().is_clean

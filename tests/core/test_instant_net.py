"""The instant lane decides by what a job costs its tenant in the end, and a tenant's own idle cells come first.

Each random market has owners who lend, keep, or ask for a reserve price, home use of the batch lane, and a published
window whose contributions are anything. The answer is compared with plain loops over net prices and over own cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from scheduling.core.calendar import Shared
from scheduling.core.parts import parts_of
from scheduling.core.policies import build
from scheduling.core.policies.pdors.work import parts_of as parts_of_speed
from scheduling.core.policies.pdors.work import speed_of
from scheduling.core.types import BATCH, INSTANT, OWN, SHARED, Allocation, Booking, Job, Plan, Policy, View, Window
from scheduling.core.value import Linear, Sigmoid
from tests.core import reference_oasis, reference_pdors
from tests.core.builders import make_cluster, make_job, make_ps, make_tenant, make_worker
from tests.core.pdors_worlds import make_sample_job

SLOTS, FRONTIER = 12, 7
PRICE = {
    "worker": {"floor": 0.3, "ceiling": {"worker": 9.0}},
    "ps": {"floor": 0.2, "ceiling": {"ps": 4.0}},
}
POLICIES: dict[str, dict[str, Any]] = {
    "oasis": {"name": "oasis", "worker_price": PRICE["worker"], "ps_price": PRICE["ps"]},
    "pdors": {"name": "pdors", "price": {"floor": 0.3, "ceiling": {"worker": 9.0, "ps": 4.0}}},
}
BLOCKS = range(4)


@dataclass(frozen=True)
class Question:
    """A market and a job of its first tenant."""

    calendar: Shared
    policy: Policy
    job: Job

    def view(self, job: Job | None = None) -> View:
        job = job or self.job
        stage = self.calendar.stage(INSTANT, 0)
        return View(
            slot=0,
            horizon=SLOTS,
            cluster=stage.cluster,
            waiting=(job,),
            remaining=np.array([float(job.work)]),
            occupied=stage.occupied,
            tail=stage.tail,
            windows=stage.windows,
            jobs={job.number: job},
            own_idle=self.calendar.own_idle(job.tenant, 0),
        )

    def answer(self, job: Job | None = None) -> Booking | None:
        plan = self.policy.decide(self.view(job))
        return plan.bookings[0] if plan.bookings else None

    def plain_view(self) -> View:
        """The same with every slot written out, and without the windows' prices, which are below all that is asked."""
        view = self.view()
        assert max(float(window.prices.max()) for window in view.windows) < 0.2
        tail = np.zeros(view.cluster.capacity.shape) if view.tail is None else view.tail
        beyond = np.repeat(tail[:, None, :], SLOTS - view.occupied.shape[1], axis=1)
        return replace(view, windows=(), occupied=np.concatenate([view.occupied, beyond], axis=1))

    def parts_kept(self) -> reference_oasis.Net:
        """What of a price does not come back to the first tenant: in home cells, all but its contribution."""
        windows, servers = self.view().windows, len(self.calendar.cluster.servers)

        def part(slot: int, place: int, resource: int) -> float:
            if place < servers or slot >= FRONTIER:  # from there on home cells are not for sale
                return 1.0
            window = next(one for one in windows if one.start <= slot < one.end)
            idle = window.idle[resource, :-1, slot - window.start]
            return 1.0 - idle[0] / idle.sum() if idle.sum() else 1.0

        return part


def random_market(dice: np.random.Generator, policy: str) -> Question:
    servers = int(dice.integers(1, 4))
    cells = dice.integers(0, 3, size=(2, 3, servers)).astype(float)
    spare = dice.integers(0, 3, size=(2, servers)).astype(float)
    tenants = [
        make_tenant(
            f"u{index}",
            lend=str(dice.choice(["lend", "lend", "keep"])),
            reserve_price=(float(dice.choice([0.0, 0.0, 0.1])), 0.0),
        )
        for index in range(3)
    ]
    cluster = make_cluster(cells.sum(axis=1) + spare, quota=cells.sum(axis=2), cells=cells, tenants=tenants)
    calendar = Shared(parts_of(cluster))
    _publish(calendar, dice)
    _use_home(calendar, dice)
    job = make_job(
        99,
        tenant=0,
        arrival=float(dice.choice([-0.75, -0.3, 0.0])),
        epochs=int(dice.integers(1, 4)),
        chunks=int(dice.integers(1, 5)),
        worker_types=[make_worker(mbps=1.0)],
        ps_types=[make_ps(mbps=float(dice.choice([1.0, 2.0, 4.0])))],
        value=Linear(-float(dice.uniform(0.05, 3.0)), float(dice.uniform(3, 40))),
        lane=INSTANT,
    )
    return Question(calendar, build(POLICIES[policy], cluster, []), job)


def _publish(calendar: Shared, dice: np.random.Generator) -> None:
    """A window of four slots; the slots from there to the frontier have none."""
    idle = dice.integers(0, 3, size=(2, 4, 4)).astype(float)
    idle[:, -1] = 0.0
    for index, tenant in enumerate(calendar.cluster.tenants):
        idle[:, index] *= tenant.lend == "lend"
    window = Window(0, 4, dice.choice([0.0, 0.05, 0.15], size=(2, 4)), idle, np.zeros((2, 4)))
    calendar.publish(BATCH, 0, Plan(windows=[window], frontier=FRONTIER))


def _use_home(calendar: Shared, dice: np.random.Generator) -> None:
    """Some of each tenant's cells are in use by its own batch jobs."""
    for tenant in range(3):
        for server in range(len(calendar.cluster.servers)):
            workers, ps = calendar.cells[:, tenant, server]
            take, start = int(dice.integers(0, workers + 1)), int(dice.integers(0, FRONTIER))
            if take and ps:
                job = make_job(10 * tenant + server, tenant=tenant)
                end = start + int(dice.integers(1, 4))
                rows = (Allocation(server, start, end, take, 1),)
                booking = Booking(job.number, start, end, rows, work=1, workers=take, ps=1, phase=OWN)
                calendar.place(BATCH, job, booking)


def random_markets(block: int, number: int, policy: str) -> Iterator[Question]:
    dice = np.random.default_rng([1709, block])
    for _ in range(number):
        yield random_market(dice, policy)


def gained(booking: Booking | None, job: Job) -> float:
    """What the job leaves its tenant: value by the market's clock, less what it pays and does not get back."""
    if booking is None:
        return 0.0
    own_part = 0.0 if booking.payouts is None else float(booking.payouts[job.tenant])
    return float(job.value(booking.end - job.arrival)) - (booking.paid - own_part)


def soonest_at_home(question: Question) -> float:
    """The value of the job on its tenant's own idle cells alone: as many workers as fit in each slot, until it is done.

    What is idle of them is counted here from the bookings: the tenant's cells on a server less its own use, and no more
    than is free there beside what others keep.
    """
    calendar, job, done = question.calendar, question.job, 0
    ratio = job.worker_types[0].mbps / job.ps_types[0].mbps
    for slot in range(FRONTIER):
        free = calendar.home.capacity - _held(calendar, slot, None)
        for other in (1, 2):
            if _keeps(calendar, other, slot):
                free -= calendar.cells[:, other] - _held(calendar, slot, other)
        own = np.minimum(calendar.cells[:, 0] - _held(calendar, slot, 0), free).clip(min=0.0).sum(axis=1)
        fits = [n for n in range(job.max_workers + 1) if n <= own[0] and math.ceil(n * ratio) <= own[1]]
        done += max(fits)
        if done >= job.work:
            return max(float(job.value(slot + 1 - job.arrival)), 0.0)
    return 0.0


def _held(calendar: Shared, slot: int, tenant: int | None) -> np.ndarray:
    occupancy = calendar.home_all if tenant is None else calendar.own_use(tenant)
    window = occupancy.window(slot)
    return window[:, 0] if window.shape[1] else np.zeros(calendar.home.capacity.shape)


def _keeps(calendar: Shared, tenant: int, slot: int) -> bool:
    owner = calendar.cluster.tenants[tenant]
    posted = calendar.windows[0].prices[:, slot] if slot < 4 else np.zeros(2)
    return owner.lend == "keep" or bool((posted < owner.reserve_price).any())


@pytest.mark.parametrize("block", BLOCKS)
def test_the_answer_leaves_as_much_as_the_best_of_plain_loops_over_net_prices_and_own_cells(block: int) -> None:
    phases = {OWN: 0, SHARED: 0, None: 0}
    for question in random_markets(block, 60, "oasis"):
        booking = question.answer()
        rented = reference_oasis.answer(
            question.job, question.plain_view(), PRICE["worker"], PRICE["ps"], "market", net=question.parts_kept()
        )
        best = max(soonest_at_home(question), rented.value - rented.cost if rented else 0.0)
        assert gained(booking, question.job) == pytest.approx(best, abs=3e-6)
        phases[booking.phase if booking else None] += 1
        if booking is not None:
            question.calendar.place(INSTANT, question.job, booking)  # nothing is given out twice
    assert min(phases[OWN], phases[SHARED]) > 8


@pytest.mark.parametrize("block", BLOCKS)
def test_pdors_leaves_as_much_as_the_plain_quantum_program_at_net_prices(block: int) -> None:
    dice, rented = np.random.default_rng([1710, block]), 0
    policy = build({**POLICIES["pdors"], "external": "milp"}, make_cluster(), [])
    for question in random_markets(block + 20, 12, "pdors"):
        job = make_sample_job(
            7,
            arrival=0.0,
            samples=int(dice.integers(1, 4)),
            batch=int(dice.integers(1, 4)),
            exchange=float(dice.choice([0, 0.3])),
            rates=(4.0, 1.0),
            ratio=float(dice.choice([1, 2])),
            worker=[1.0, 0.0],
            ps=[0.0, 1.0],
            value=Linear(-float(dice.uniform(0.05, 3.0)), float(dice.uniform(3, 40))),
        )
        view = replace(question.plain_view(), waiting=(job,), jobs={7: job})
        parts = int(parts_of_speed(speed_of(job, job.worker_types[0], job.ps_types[0], view.cluster.slot_seconds), 4))
        price, net = POLICIES["pdors"]["price"], question.parts_kept()
        best = reference_pdors.quantum_payoff(job, view, price, parts, "market", net)
        plan = policy.decide(replace(question.view(job), own_idle=None))
        booking = plan.bookings[0] if plan.bookings else None
        assert gained(booking, job) == pytest.approx(best, abs=3e-6)
        rented += booking is not None
    assert rented > 3


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("block", BLOCKS)
def test_a_tenant_is_never_worse_off_than_on_its_own_idle_cells(block: int, policy: str) -> None:
    """Nor at a loss, by the clock of the market."""
    at_home = 0
    for question in random_markets(block + 10, 40, policy):
        booking = question.answer()
        least = soonest_at_home(question) if policy == "oasis" else booking.floor if booking else 0.0
        assert gained(booking, question.job) >= least
        if booking is not None:
            at_home += booking.phase == OWN
            assert gained(booking, question.job) > 0
            assert booking.floor == pytest.approx(least)
            assert booking.value == float(question.job.value(booking.end - question.job.arrival))
            assert booking.ideal == float(question.job.value(booking.end))
            question.calendar.place(INSTANT, question.job, booking)
    assert at_home > 3


@pytest.mark.parametrize("policy", POLICIES)
def test_on_its_own_cells_it_pays_nothing_and_on_others_its_limit_is_kept(policy: str) -> None:
    limited = 0
    for question in random_markets(30, 60, policy):
        free = question.answer()
        if free is None or free.phase == OWN:
            assert free is None or (free.paid, free.cost, free.payouts) == (0.0, 0.0, None)
            continue
        for part in (0.3, 0.7, 0.999):
            limited_job = replace(question.job, max_price=free.paid * part)
            booking = question.answer(limited_job)
            assert gained(booking, limited_job) <= gained(free, question.job) + 2e-6
            if booking is not None:
                assert booking.paid <= limited_job.max_price
            limited += booking is not None
    assert limited > 3


def test_a_limit_is_met_by_cheaper_units_where_there_are_some() -> None:
    """Net of its own part the tenant would take home cells, which are dear to hold; its limit lets it have others."""
    cells = np.array([[[1.0], [3.0]], [[1.0], [3.0]]])
    cluster = make_cluster([[5.0], [5.0]], quota=cells.sum(axis=2), cells=cells)
    calendar = Shared(parts_of(cluster))
    prices, idle = np.full((2, 4), 2.0), np.zeros((2, 3, 4))
    idle[:, :2] = cells[:, :, 0, None]
    idle[:, 0] *= 30.0  # nearly all that is paid for home cells is its own
    calendar.publish(BATCH, 0, Plan(windows=[Window(0, 4, prices, idle, np.zeros((2, 4)))], frontier=4))
    busy = make_job(1, tenant=0)
    rows = (Allocation(0, 0, 4, 1, 1),)
    calendar.place(BATCH, busy, Booking(1, 0, 4, rows, work=1, workers=1, ps=1, phase=OWN))  # no own idle cell is left
    policy = build(POLICIES["oasis"], cluster, [])
    job = make_job(2, tenant=0, value=Linear(0.0, 9.0), lane=INSTANT)
    dear = Question(calendar, policy, job).answer()
    assert dear is not None
    assert (dear.paid, gained(dear, job)) == (pytest.approx(4.0), pytest.approx(9.0 - 4.0 / 11.0, abs=2e-6))
    cheap = Question(calendar, policy, replace(job, max_price=3.0)).answer()
    assert cheap is not None
    assert cheap.paid < 3.0
    assert gained(cheap, job) == pytest.approx(9.0 - cheap.paid, abs=2e-6)  # the operator's: nothing comes back
    plan = policy.decide(Question(calendar, policy, replace(job, max_price=0.1)).view(replace(job, max_price=0.1)))
    assert plan.refusals[0].reason.code == "over_max_price"
    assert plan.refusals[0].reason.numbers["price"] == cheap.paid  # the least that has to be held


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("block", BLOCKS)
def test_an_honest_value_report_never_loses_with_own_cells_and_own_parts(block: int, policy: str) -> None:
    """Both menus, own cells and net prices, are there before the report: it only chooses from them."""
    dice = np.random.default_rng([171, block])
    lies = 0
    for question in random_markets(block + 50, 25 if policy == "oasis" else 8, policy):
        job = replace(question.job, max_price=float(dice.choice([1.0, 4.0, 50.0])))
        honest = gained(question.answer(job), job)
        for _ in range(4):
            lie = Sigmoid(
                float(dice.uniform(1, 90)), float(dice.choice([0, 0.2, 1.0, 5.0])), float(dice.integers(0, 9))
            )
            lies += 1
            assert gained(question.answer(replace(job, value=lie)), job) <= honest + 2e-6
    assert lies >= 32

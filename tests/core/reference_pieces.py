"""The slow reference of long jobs that rent in pieces (rules D), on top of that of renewed plans (rules K).

Plain loops from the rules alone, with a run of its own: `market_run(scenario)` is a whole scenario from the first slot
to the cut, and says of each job what it got, what it paid and what that is worth. Without divisible jobs it is the
reference of renewed plans.

Where the rules leave room this is how they are read:

- Pass 1 of D7 offers runs that finish a job, and breaks ties by R17. Pass 2 offers pieces and runs that finish
  together, to divisible jobs that bought nothing in this window, and breaks ties by D6, then by the pair of types.
- A piece has any start and any end in the window; its mini-batches decide whether it is one (D1).
- With `upgrade: false` a job with an award of this window buys nothing, pieces neither.
- P is net of refunds; the dividend is part of it.
- At a boundary: expiry by the rest (D8), the alone worlds (D2), settlement (D9), stored worth (D4c), home awards (D3),
  the two passes.
- A rent is open where the alone world still waits after this boundary's planning, with a draft or without.
- At the cut B of D4c is the last slot of the scenario.
- `parts: nothing`: a payment for a job that nothing but a draft, or nothing at all, will finish at home is provisional,
  whether it buys a part or the whole. It is settled at the first boundary at which the job is done, is sure of its end
  at home, or is refused for good; or at the cut. A job that is not done is worth nothing then.
- A divisible job is too large only if not even a piece of it fits an empty cluster in the longest window.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from scheduling.core.scenario import Scenario
from scheduling.core.types import (
    AWARDED,
    CENTRALIZED,
    DISTRIBUTED,
    EXPIRED,
    OWN,
    SHARED,
    WAITING,
    Booking,
    Cluster,
    Floor,
    Job,
    Plan,
    View,
    Window,
)
from tests.core.reference_astraea import Market, allocation, occupied_by
from tests.core.reference_renewal import AloneWorld, ReferenceRenewal, RenewalMarket, open_epoch
from tests.core.reference_search import (
    ENOUGH,
    TIE,
    Offer,
    Schedule,
    Search,
    amounts,
    gangs,
    minibatch_seconds,
    own_servers,
    remembered,
    rounded_up,
    type_pairs,
    units,
    worth,
)
from tests.core.reference_terms import boundary

Gang = tuple[tuple[int, int], int, str]  # pair of types, workers, placement


# -- D1 ----------------------------------------------------------------------------------------------------------------


def work_of(job: Job) -> int:
    return job.epochs * job.chunks * job.minibatches


def rounded_down(x: float) -> int:
    return math.floor(x + 1e-9 * max(1.0, abs(x)))


def slots_for(job: Job, minibatches: int, gang: Gang, cluster: Cluster) -> int:
    """Slots in which a gang does so much."""
    seconds = minibatch_seconds(job, *gang, int(cluster.hosts_workers.sum()))
    return max(1, rounded_up(minibatches * seconds / (cluster.slot_seconds * gang[1])))


def done_in(job: Job, slots: float, gang: Gang, cluster: Cluster) -> int:
    """Mini-batches that a gang does in so many slots of work."""
    seconds = minibatch_seconds(job, *gang, int(cluster.hosts_workers.sum()))
    return rounded_down(slots * cluster.slot_seconds * gang[1] / seconds)


def saved_in(job: Job, slots: int, gang: Gang, cluster: Cluster) -> int:
    """Mini-batches of a piece of so many slots: a save and the later load lose some of them."""
    return done_in(job, slots - job.save_slots, gang, cluster)


def shortest(job: Job, minibatches: int, cluster: Cluster, workers: str) -> int:
    return min(slots_for(job, minibatches, gang, cluster) for gang in gangs(job, workers))


# -- what became of a job ----------------------------------------------------------------------------------------------


@dataclass
class State:
    """A job from its collection on: rest R, paid P, stored worth W; and what follows from them."""

    job: Job
    rest: int
    paid: float = 0.0  # net of what was refunded
    stored: float | None = None
    payouts: list[float] = field(default_factory=list)  # by owner, of all awards, before any reversal
    bookings: list[Booking] = field(default_factory=list)
    floor: Floor | None = None
    open: bool = False
    provisional: bool = False  # it is settled when it ends, and not when the world alone is done with it
    alone: float | None = None  # what it was settled against
    refund: float = 0.0
    reversal: list[float] = field(default_factory=list)
    state: str = WAITING
    code: str | None = None

    @property
    def end(self) -> int:
        return max(booking.end for booking in self.bookings)

    @property
    def begun(self) -> bool:
        return self.rest < work_of(self.job)

    @property
    def done_share(self) -> float:
        return 1 - self.rest / work_of(self.job)

    @property
    def own_part(self) -> float:
        """What the payer got of its own payment, reversals taken off."""
        tenant = self.job.tenant
        got = self.payouts[tenant] if self.payouts else 0.0
        return got - (self.reversal[tenant] if self.reversal else 0.0)

    def net(self, value: float) -> float:
        return value - self.paid + self.own_part


@dataclass
class Run:
    """A whole run: the jobs' states in order of submission, the windows, and the boundaries with their windows."""

    states: list[State]
    worths: list[float]  # realised (D10)
    windows: list[Window]
    boundaries: list[tuple[int, list[tuple[int, int]]]]


# -- the world of one tenant alone knows of no pieces (D2) -------------------------------------------------------------


class Alone(AloneWorld):
    """That of rules K, with fewer starts tried: a gang fits first where the world begins or a reservation ends, and
    what ends earlier is worth no less."""

    def best(self, job: Job, reserved: Sequence[tuple[Job, Floor]]) -> Floor | None:
        early = (self.start, self.first_end)
        return at_home(self.cluster, self.tenant, job, reserved, early, Search(self.cluster, self.workers), self)


def at_home(
    cluster: Cluster,
    tenant: int,
    job: Job,
    reserved: Sequence[tuple[Job, Floor]],
    early: tuple[int, int],
    search: Search,
    world: Any,
) -> Floor | None:
    """The best positive schedule on a tenant's cells at no price, beside what is reserved."""
    begin, cells = early[0], cluster.cells
    assert cells is not None
    rows = [(job_, floor, row) for job_, floor in reserved for row in floor.allocation if row.end > begin]
    ends = sorted({begin, *(row.end for _, _, row in rows)})
    steps = sorted({*ends, *(row.start for _, _, row in rows if row.start > begin)})

    @cache
    def free(r: int, t: int, s: int) -> float:
        reserved_amounts = [
            amounts(job_, (floor.worker_type, floor.ps_type), row.workers, row.ps)[r]
            for job_, floor, row in rows
            if row.server == s and row.start <= t < row.end
        ]
        return float(cells[r, tenant, s]) - math.fsum(reserved_amounts)

    @cache
    def crowding(s: int) -> float:
        if not world.least_used:
            return 0.0
        resources = range(len(cluster.resources))
        return math.fsum(cells[r, tenant, s] - free(r, step(t), s) for r in resources for t in range(*early))

    def step(t: int) -> int:
        """The slot at or before t since which nothing changed."""
        return max(each for each in steps if each <= t)

    offer = replace(free_offer(free, crowding), servers=own_servers(cells, tenant))
    fit = cache(units)
    schedules = []
    for gang in gangs(job, search.workers):
        slots = slots_for(job, work_of(job), gang, cluster)
        for start in ends:
            run = [start, *(t for t in steps if start < t < start + slots)]
            if placed := search.rows(job, offer, fit, *gang, run):  # type: ignore[arg-type]
                value = worth(job.value, start + slots - job.arrival)
                schedules.append(schedule_of(gang, start, start + slots, placed, value, 0.0, 0.0))
                break
    if not schedules:
        return None
    top = max(each.value for each in schedules)
    best = min((each for each in schedules if each.value >= top - TIE * max(1.0, abs(top))), key=Schedule.rank)
    if best.value <= 0:
        return None
    return Floor(job.number, best.value, best.start, best.end, allocation(best), *best.pair, True)


def free_offer(free: Callable[[int, int, int], float], crowding: Callable[[int], float]) -> Offer:
    """Room, and no terms."""
    return Offer(
        starts=(),
        last_end=math.inf,
        free=free,
        share=lambda r, t: float(ENOUGH),
        price=lambda r, t: 0.0,
        charge=lambda r, t: 0.0,
        most_paid=math.inf,
        value_from=0.0,
        crowding=crowding,
    )


@dataclass(frozen=True)
class Part(Schedule):
    """A run in the pool, and the mini-batches that it does."""

    work: int


def schedule_of(
    gang: Gang,
    start: int,
    end: int,
    rows: Sequence[tuple[int, int, int]],
    value: float,
    cost: float,
    paid: float,
) -> Schedule:
    workers, ps = sum(row[1] for row in rows), sum(row[2] for row in rows)
    return Schedule(gang[0], gang[2], start, end, workers, ps, tuple(rows), value, cost, paid, value - paid)


# -- the market --------------------------------------------------------------------------------------------------------


class ReferencePieces(ReferenceRenewal):
    """The policy, and the books of all jobs between its boundaries."""

    name = "reference of pieces"

    def __init__(self, settings: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> None:
        super().__init__(settings, cluster, jobs)
        self.parts_are_worth_nothing = settings.get("parts") == "nothing"
        self.states = {job.number: State(job, work_of(job)) for job in jobs}

    def decide(self, view: View) -> Plan:
        market, memory = self.decided(view)
        if market is None:
            return Plan(memory=memory)
        return Plan(market.bookings, market.refusals, market.new_floors, market.windows, memory=memory)

    def decided(self, view: View) -> tuple[PiecesMarket | None, dict[str, Any]]:
        """The market of a boundary, None between boundaries; and what the clock must remember."""
        clock = self.settings["clock"]
        if view.open_rents and clock != "geometric" and clock["restart"]:
            windows, memory = open_epoch(clock, view, self.settings)
        else:
            windows, memory = boundary(self.settings, view)
        if not windows:
            return None, memory
        collected = [job for job in view.waiting if job.arrival < view.slot]
        market = PiecesMarket(self, view, collected, windows)
        for start, end in windows:
            market.round(start, end)
        self.states = market.states
        market.book()
        return market, memory


class PiecesMarket(RenewalMarket):
    """One boundary."""

    world = Alone

    def __init__(
        self, policy: ReferencePieces, view: View, collected: list[Job], windows: list[tuple[int, int]]
    ) -> None:
        self.states, self.begin = policy.states, view.slot
        self.parts_are_worth_nothing = policy.parts_are_worth_nothing
        self.bought: set[int] = set()
        super().__init__(policy, view, collected, windows)

    # -- before the rounds ---------------------------------------------------------------------------------------------

    def lengths(self, job: Job) -> list[int]:
        """D8: what is left decides whether a job is hopeless."""
        rest = self.states[job.number].rest
        return [slots_for(job, rest, gang, self.cluster) for gang in gangs(job, self.settings["workers"])]

    def too_large(self, job: Job) -> bool:
        """One piece is enough for a job that can be cut."""
        return super().too_large(job) and not (job.divisible and self.has_a_piece(job))

    def has_a_piece(self, job: Job) -> bool:
        capacity, clock = self.cluster.capacity, self.settings["clock"]
        longest = clock["cap"]
        offer = free_offer(lambda r, t, s: float(capacity[r, s]), lambda s: 0.0)
        for gang in gangs(job, self.settings["workers"]):
            some = [saved_in(job, slots, gang, self.cluster) for slots in range(1, longest + 1)]
            if any(1 <= done < work_of(job) for done in some) and self.search.rows(job, offer, units, *gang, range(1)):
                return True
        return False

    def floor_plan(self, job: Job) -> Floor:
        """Return the job's floor of G2, found by the starts that matter."""
        jobs = self.view.jobs
        reserved = [(jobs[n], floor) for n, floor in self.floors.items() if jobs[n].tenant == job.tenant]
        first, size = self.first_window()

        class Manner:
            least_used = self.settings["server_choice"] == "least_used"

        schedule = at_home(self.cluster, job.tenant, job, reserved, (first, first + size), self.search, Manner)
        return Floor(job.number) if schedule is None else replace(schedule, draft=False)

    def settle(self) -> None:
        """D9, at the end of the alone world of each job that has an open rent; D16, once it has ended or is sure to."""
        for state in self.states.values():
            if not state.open or self.floors[state.job.number].draft:
                continue
            if not state.provisional or self.will_be_done(state) or self.is_given_up(state.job):
                close(state, self.floors[state.job.number].value, self.worth_at_end(state))

    def will_be_done(self, state: State) -> bool:
        """It is done, or something at home that is no draft will do it."""
        home = self.home(state.job)
        return state.rest == 0 or (home is not None and not home.draft)

    def is_given_up(self, job: Job) -> bool:
        """Refused for good at this boundary."""
        return any(refusal.job == job.number for refusal in self.refusals)

    def worth_at_end(self, state: State) -> float:
        home = self.home(state.job)
        if state.rest == 0:
            return worth(state.job.value, state.end - state.job.arrival)
        if home is not None:
            return worth(state.job.value, self.rest_end(state.job, home, state.rest) - state.job.arrival)
        if self.parts_are_worth_nothing:
            return 0.0
        return stored_worth(state, self.span[0], self.cluster, self.settings["workers"])

    # -- D3, D4 --------------------------------------------------------------------------------------------------------

    def home(self, job: Job) -> Floor | None:
        """The schedule at home that the job has coming: an award of this window, a kept floor or a draft."""
        floor = self.floors[job.number]
        return floor if floor.allocation else None

    def rest_end(self, job: Job, home: Floor, rest: int) -> int:
        """D3: the same start, servers and gang, and less work."""
        return min(home.end, home.start + slots_for(job, rest, gang_of(home), self.cluster))

    def kept_otherwise(self, job: Job) -> float:
        """D4: the standing, which the next purchase must beat."""
        state, home = self.states[job.number], self.home(job)
        if home is None:
            return stored_worth(state, self.start, self.cluster, self.settings["workers"])
        value = worth(job.value, self.rest_end(job, home, state.rest) - job.arrival)
        return max(value, state.stored or 0.0) if home.draft else value

    def round(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        for job in self.pending:
            if self.home(job) is None:
                stored_worth(self.states[job.number], start, self.cluster, self.settings["workers"])
        self.bought = set()
        super().round(start, end)

    def award_floors(self) -> None:
        """G3 and D3."""
        for job in list(self.pending):
            home, state = self.floors[job.number], self.states[job.number]
            if home.value > 0 and not home.draft and self.start <= home.start < self.end:
                self.award(job, self.home_booking(job, home, state.rest))

    def home_booking(self, job: Job, home: Floor, rest: int) -> Booking:
        end = self.rest_end(job, home, rest)
        return Booking(
            job=job.number,
            start=home.start,
            end=end,
            allocation=tuple(replace(row, end=end) for row in home.allocation),
            work=float(rest),
            workers=sum(row.workers for row in home.allocation),
            ps=sum(row.ps for row in home.allocation),
            worker_type=home.worker_type,
            ps_type=home.ps_type,
            phase=OWN,
            placement=CENTRALIZED if len(home.allocation) == 1 else DISTRIBUTED,
            value=worth(job.value, end - job.arrival),
            ideal=worth(job.value, end - self.start),
            floor=home.value,
        )

    # -- D5 to D7 ------------------------------------------------------------------------------------------------------

    def offer_all(self) -> None:
        queue = list(self.pending)
        if self.settings["upgrade"]:
            queue += [self.view.jobs[number] for number in self.awards]
        queue.sort(key=lambda job: (job.arrival, job.number))
        for job in queue:
            self.offer(job, pieces=False)
        for job in queue:
            if job.divisible and job.number not in self.bought:
                self.offer(job, pieces=True)

    def offer(self, job: Job, *, pieces: bool) -> None:
        """D6: one job, at the prices as they are now."""
        limit = self.most_to_pay(job)
        if limit is None:
            return
        price = {(r, t): self.pool_price(r, t) for r in self.resources for t in range(self.start, self.end)}
        sellers = {(r, t): self.sellers(r, t, price[r, t]) for r, t in price}
        net = self.settings["payment"] == "net"

        @cache
        def charge(r: int, t: int) -> float:
            return price[r, t] * (1.0 - (self.part(job.tenant, r, t, sellers) if net else 0.0))

        offer = remembered(
            Offer(
                starts=(),
                last_end=self.end,
                free=lambda r, t, s: self.for_sale(r, t, s, sellers[r, t]),
                share=lambda r, t: self.pool[r, t],
                price=lambda r, t: price[r, t],
                charge=charge,
                most_paid=limit,
                value_from=job.arrival,
                crowding=self.crowding,
                besides=lambda schedule: math.fsum(self.gain_parts(job, schedule, sellers)),
            )
        )
        best = self.best(job, offer, pieces)
        if best is not None:
            self.buy(job, best, price, sellers)

    def best(self, job: Job, offer: Offer, pieces: bool) -> Part | None:
        """The greatest worth - net price above the standing. The dearest promises are looked at first, so that few
        candidates are placed: no gang costs less than its workers and the parameter servers it has at least."""
        standing = self.kept_otherwise(job)
        least_ps = 0 if job.all_reduce else 1
        promising = []
        for gang, start, end, value, work in self.candidates(job, pieces):
            lower = self.sums(job, offer.charge, gang, start, end, gang[1], least_ps)
            if self.pays(value + 1e-6 * max(1.0, abs(value)), lower, standing):
                promising.append((value - lower, gang, start, end, value, work))
        promising.sort(key=lambda each: -each[0])
        fit = cache(units)
        parts: list[Part] = []
        top = -math.inf
        for bound, gang, start, end, value, work in promising:
            if bound < top - 1e-6 * max(1.0, abs(top)):
                break
            rows = self.search.rows(job, offer, fit, *gang, range(start, end))
            if not rows:
                continue
            workers, ps = sum(row[1] for row in rows), sum(row[2] for row in rows)
            cost = self.sums(job, offer.price, gang, start, end, workers, ps)
            paid = self.sums(job, offer.charge, gang, start, end, workers, ps)
            schedule = schedule_of(gang, start, end, rows, value, cost, paid)
            if paid + offer.besides(schedule) <= offer.most_paid + 1e-9:
                parts.append(Part(**vars(schedule), work=work))
                top = max(top, schedule.surplus)
        if not parts:
            return None
        tied = [schedule for schedule in parts if schedule.surplus >= top - TIE * max(1.0, abs(top))]
        best = min(tied, key=in_order if pieces else Schedule.rank)
        return best if self.pays(best.value, best.paid, standing) else None

    def pays(self, value: float, paid: float, standing: float) -> bool:
        """D6."""
        return value - paid > max(0.0, standing + 1e-9 * max(1.0, standing))

    def sums(
        self,
        job: Job,
        price: Callable[[int, int], float],
        gang: Gang,
        start: int,
        end: int,
        workers: int,
        ps: int,
    ) -> float:
        demand = [(r, amount) for r, amount in enumerate(amounts(job, gang[0], workers, ps)) if amount > 0]
        return math.fsum(price(r, t) * amount for t in range(start, end) for r, amount in demand)

    def candidates(self, job: Job, pieces: bool) -> Iterator[tuple[Gang, int, int, float, int]]:
        """(gang, start, end, worth, mini-batches): what finishes the job, and in the second pass what does not."""
        rest = self.states[job.number].rest
        for gang in gangs(job, self.settings["workers"]):
            slots = slots_for(job, rest, gang, self.cluster)
            for start in range(self.start, self.end - slots + 1):
                yield gang, start, start + slots, worth(job.value, start + slots - job.arrival), rest
            if not pieces:
                continue
            for length in range(1, self.end - self.start + 1):
                done = saved_in(job, length, gang, self.cluster)
                if not 1 <= done <= rest - 1:
                    continue
                for start in range(self.start, self.end - length + 1):
                    value = self.worth_of_piece(job, start + length, gang, rest - done)
                    if value is not None:
                        yield gang, start, start + length, value, done

    def worth_of_piece(self, job: Job, end: int, gang: Gang, rest: int) -> float | None:
        """D5, of a piece that leaves so much; None where it may not be bought."""
        home = self.home(job)
        if home is not None:
            if end > home.start:
                return None
            return worth(job.value, self.rest_end(job, home, rest) - job.arrival)
        value = worth(job.value, end + slots_for(job, rest, gang, self.cluster) - job.arrival)
        return (1 - rest / work_of(job)) * value if value > 0 else None

    def most_to_pay(self, job: Job) -> float | None:
        limit = Market.most_to_pay(self, replace(job, max_price=None))
        if limit is None or job.max_price is None:
            return limit
        return min(limit, job.max_price - self.states[job.number].paid)

    def buy(
        self,
        job: Job,
        best: Part,
        price: Mapping[tuple[int, int], float],
        sellers: Mapping[tuple[int, int], list[int]],
    ) -> None:
        state, gained = self.states[job.number], self.gain_parts(job, best, sellers)
        need, dividend, payouts = self.kept_otherwise(job), math.fsum(gained), list(gained)
        for t in range(best.start, best.end):
            for r, amount in enumerate(amounts(job, best.pair, best.workers, best.ps)):
                for owner in self.owners:
                    if owner != job.tenant or self.settings["payment"] == "gross":
                        payouts[owner] += price[r, t] * amount * self.part(owner, r, t, sellers)
                self.sold[r, t] += amount
        money = {"cost": best.cost, "paid": best.paid + dividend, "dividend": dividend, "payouts": np.array(payouts)}
        booking = replace(self.booked(job, best, SHARED, **money), work=float(best.work))
        home = self.home(job)
        state.rest -= best.work
        state.paid += booking.paid
        state.payouts = [a + b for a, b in zip(state.payouts or [0.0] * len(payouts), payouts, strict=True)]
        state.stored = best.value if home is None else None
        state.open = state.open or (self.floors[job.number].draft and state.alone is None)
        if self.parts_are_worth_nothing and job.divisible and (home is None or home.draft):
            state.open = state.provisional = True
        self.make_room(job, state)
        if state.rest == 0 and job in self.pending:
            self.pending.remove(job)
        self.bought.add(job.number)
        self.spent[job.tenant] += booking.paid
        self.sold_to(job, booking, need)
        self.place(job, booking, +1)
        self.bookings.append(booking)

    def make_room(self, job: Job, state: State) -> None:
        """An award of this window is shortened by what was bought, or replaced; its cells are free from now on."""
        award = self.awards.pop(job.number, None)
        if award is None:
            return
        self.place(job, award, -1)
        for r, t, s, amount in occupied_by(job, award):
            self.homes[job.tenant, r, t, s] -= amount
        if state.rest:
            shorter = self.home_booking(job, self.floors[job.number], state.rest)
            self.awards[job.number] = shorter
            self.place(job, shorter, +1)
            self.remember_home(job, shorter, None)

    def as_it_is(self) -> PiecesMarket:
        other = super().as_it_is()
        assert isinstance(other, PiecesMarket)
        other.states = {number: copy.copy(state) for number, state in self.states.items()}
        other.bought = set(self.bought)
        return other

    # -- the books -----------------------------------------------------------------------------------------------------

    def book(self) -> None:
        """What the boundary decided, into the states."""
        for floor in self.new_floors:
            self.states[floor.job].floor = floor
        for refusal in self.refusals:
            state = self.states[refusal.job]
            state.state, state.code = refusal.state, refusal.reason.code
        for booking in self.bookings:
            state = self.states[booking.job]
            state.bookings = [*state.bookings, booking]
            if booking.phase == OWN:
                state.rest = 0
        for state in self.states.values():
            if state.rest == 0:
                state.state = AWARDED


def gang_of(home: Floor) -> Gang:
    placement = CENTRALIZED if len(home.allocation) == 1 else DISTRIBUTED
    return (home.worker_type, home.ps_type), sum(row.workers for row in home.allocation), placement


def in_order(piece: Schedule) -> tuple[int, int, int, bool, tuple[int, int]]:
    """D6 among equals."""
    return piece.start, piece.end, piece.workers, piece.placement == DISTRIBUTED, piece.pair


def stored_worth(state: State, slot: int, cluster: Cluster, workers: str) -> float:
    """D4c: what is saved is worth, once it is asked for, its share of the whole job's worth if the rest ran at once."""
    job = state.job
    if state.stored is None:
        if not state.begun:
            return 0.0
        soonest = worth(job.value, slot + shortest(job, state.rest, cluster, workers) - job.arrival)
        state.stored = state.done_share * max(0.0, soonest)
    return state.stored


def close(state: State, alone: float, value: float) -> None:
    """D9: what falls short of the alone world comes back, from each owner by what it received for all awards."""
    refund = max(0.0, alone - (value - state.paid))
    assert refund <= state.paid * (1 + 1e-9) + 1e-9, (refund, state.paid)
    state.open, state.alone, state.refund = False, alone, refund
    state.reversal = [refund * payout / state.paid if refund else 0.0 for payout in state.payouts]
    state.paid -= refund


# -- a whole run -------------------------------------------------------------------------------------------------------


class Books:
    """A run in progress: what is occupied, who waits, what was spent."""

    def __init__(self, scenario: Scenario, policy: ReferencePieces) -> None:
        self.scenario, self.policy = scenario, policy
        self.jobs = {job.number: job for job in scenario.jobs}
        self.occupied: dict[tuple[int, int, int], float] = defaultdict(float)
        for preload in scenario.preload:
            self.occupied[preload.resource, preload.slot, preload.server] += preload.amount
        self.memory: dict[str, Any] = {}
        self.floors: dict[int, Floor] = {}
        self.spent = [0.0] * len(scenario.cluster.tenants)
        self.windows: list[Window] = []
        self.boundaries: list[tuple[int, list[tuple[int, int]]]] = []

    def run(self) -> Run:
        settings, slots = self.policy.settings, self.scenario.slots
        for slot in range(slots):
            waiting = self.waiting(slot)
            if waiting or any(state.open for state in self.policy.states.values()):
                market, self.memory = self.policy.decided(self.view(slot, waiting))
                if market is not None:
                    self.apply(slot, market)
        states = [self.policy.states[job.number] for job in self.scenario.jobs]
        for state in states:
            if state.open and state.job.divisible:  # D9: the world alone is cut, too
                close(state, 0.0, self.realised(state, slots, settings["workers"]))
        worths = [self.realised(state, slots, settings["workers"]) for state in states]
        return Run(states, worths, self.windows, self.boundaries)

    def realised(self, state: State, slot: int, workers: str) -> float:
        """D10."""
        job = state.job
        if state.state == AWARDED:
            return worth(job.value, state.end - job.arrival)
        if self.policy.parts_are_worth_nothing:
            return 0.0
        if state.state == EXPIRED and state.stored is None:
            return 0.0
        return stored_worth(state, slot, self.scenario.cluster, workers)

    def waiting(self, slot: int) -> list[Job]:
        here = [job for job in self.scenario.jobs if math.ceil(job.arrival) <= slot]
        return sorted(
            (job for job in here if self.policy.states[job.number].state == WAITING),
            key=lambda job: (job.arrival, job.number),
        )

    def view(self, slot: int, waiting: list[Job]) -> View:
        cluster, states = self.scenario.cluster, self.policy.states.values()
        ahead = max([0, *(t - slot + 1 for _, t, _ in self.occupied)])
        occupied = np.zeros((len(cluster.resources), ahead, len(cluster.servers)))
        for (r, t, s), amount in self.occupied.items():
            if t >= slot:
                occupied[r, t - slot, s] = amount
        booked = [booking for state in states for booking in state.bookings]
        return View(
            slot=slot,
            horizon=self.scenario.slots,
            cluster=cluster,
            waiting=tuple(waiting),
            remaining=np.array([float(self.policy.states[job.number].rest) for job in waiting]),
            occupied=occupied,
            active=tuple(booking for booking in booked if booking.end > slot),
            jobs=self.jobs,
            floors=self.floors,
            spent=np.array(self.spent),
            memory=self.memory,
            open_rents=tuple(state.bookings[-1] for state in states if state.open),
        )

    def apply(self, slot: int, market: PiecesMarket) -> None:
        for floor in market.new_floors:
            self.floors[floor.job] = floor
        for booking in market.bookings:
            job = self.jobs[booking.job]
            for r, t, s, amount in occupied_by(job, booking):
                self.occupied[r, t, s] += amount
                assert self.occupied[r, t, s] <= self.scenario.cluster.capacity[r, s] + 1e-6, (slot, job.name)
        paid = [0.0] * len(self.spent)
        for state in self.policy.states.values():
            paid[state.job.tenant] += state.paid
        self.spent = paid
        self.windows += market.windows
        self.boundaries.append((slot, [(window.start, window.end) for window in market.windows]))


def market_run(scenario: Scenario) -> Run:
    """A whole scenario by the book."""
    return Books(scenario, ReferencePieces(scenario.policy, scenario.cluster, scenario.jobs)).run()


def alone_world(scenario: Scenario, tenant: int, boundaries: Iterable[tuple[int, list[tuple[int, int]]]]) -> Alone:
    """A tenant's own world at the end of a run, from its own jobs and the boundaries (K1 to K3)."""
    settings = ReferencePieces(scenario.policy, scenario.cluster, scenario.jobs).settings
    world = Alone(scenario.cluster, tenant, settings["workers"], settings["server_choice"] == "least_used")
    coming = [job for job in scenario.jobs if job.tenant == tenant and type_pairs(job)]
    for slot, windows in boundaries:
        collected = [job for job in coming if job.arrival < slot]
        coming = [job for job in coming if job not in collected]
        world.boundary(*windows[0], windows[-1][1], collected)
    return world

"""What the rules of pieces (D) promise of a whole run, checked on what the run says and on nothing that made it.

`broken(scenario, run)` is a line for each promise that a run breaks. The world of each tenant alone is worked out
again, from its own jobs and the boundaries.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from scheduling.core.scenario import Scenario
from scheduling.core.types import AWARDED, KEEP, OWN, RENEW, SHARED, WAITING, Booking, Floor, Job
from tests.core.reference_astraea import occupied_by
from tests.core.reference_pieces import Alone, Run, State, alone_world
from tests.core.reference_search import worth

NOTHING = 1e-6


def broken(scenario: Scenario, run: Run) -> list[str]:
    lines = [*over_capacity(scenario, run)]
    for state, value in zip(run.states, run.worths, strict=True):
        lines += [f"{state.job.name}: {line}" for line in wrong_with(scenario, run, state, value)]
    for tenant, each in enumerate(scenario.cluster.tenants):
        mine = [(s, w) for s, w in zip(run.states, run.worths, strict=True) if s.job.tenant == tenant]
        if each.plan == RENEW:
            world = alone_world(scenario, tenant, run.boundaries)
            for state, value in mine:
                lines += [f"{state.job.name}: {line}" for line in below(scenario, state, value, world)]
            lines += [f"tenant {tenant}: {line}" for line in whole_tenant(run, tenant, world)]
        else:
            for state, value in mine:
                lines += [f"{state.job.name}: {line}" for line in below_kept(scenario, state, value)]
    return lines


# -- one job -----------------------------------------------------------------------------------------------------------


def wrong_with(scenario: Scenario, run: Run, state: State, value: float) -> Iterator[str]:
    """Work, windows, money and order of the parts of one job."""
    job, work = state.job, state.job.epochs * state.job.chunks * state.job.minibatches
    if len(state.bookings) > 1 and not job.divisible:
        yield f"{len(state.bookings)} awards, and it cannot be divided"
    for one, other in zip(state.bookings, state.bookings[1:], strict=False):
        if other.start < one.end:
            yield f"{one} and {other} overlap"
    booked = sum(booking.work for booking in state.bookings)
    if booked != work - state.rest or (state.state == AWARDED) != (state.rest == 0):
        yield f"{booked} of {work} mini-batches in its awards, {state.rest} left, and it is {state.state}"
    for booking in state.bookings:
        last = state.rest == 0 and booking is state.bookings[-1]
        able = minibatches(scenario, job, booking, booking.end - booking.start - (0 if last else job.save_slots))
        if booking.work < 1 or able < booking.work - NOTHING * max(1.0, able):
            yield f"{booking.work} mini-batches in {booking}, which can do {able}"
        if booking.phase == SHARED and not any(
            start <= booking.start < booking.end <= end for _, windows in run.boundaries for start, end in windows
        ):
            yield f"{booking.start} to {booking.end} is in no window"
        got = 0.0 if booking.payouts is None else float(sum(booking.payouts))
        if not close(got, booking.paid) or (booking.payouts is not None and min(booking.payouts) < 0):
            yield f"{booking.paid} is split into {booking.payouts}"
    yield from wrong_money(scenario, state, value)


def minibatches(scenario: Scenario, job: Job, booking: Booking, slots: float) -> float:
    """What the gang of a booking trains in so many slots, by the law of speed and where its workers are (R6)."""
    worker, ps = job.worker_types[booking.worker_type], job.ps_types[booking.ps_type]
    rows = [row for row in booking.allocation if row.workers]
    servers, together = len(rows), len(booking.allocation) == 1
    seconds = worker.seconds + ps.seconds
    exchange = 2.0 * job.gradient_mb * 8.0 / worker.mbps
    if not together:
        seconds += exchange * (servers - 1) / servers if job.all_reduce else exchange
    return slots * scenario.cluster.slot_seconds * sum(row.workers for row in rows) / seconds


def wrong_money(scenario: Scenario, state: State, value: float) -> Iterator[str]:
    job, paid = state.job, sum(booking.paid for booking in state.bookings)
    plan = scenario.cluster.tenants[job.tenant].plan
    cells = scenario.cluster.cells
    assert cells is not None
    if not close(paid - state.refund, state.paid):
        yield f"paid {paid}, {state.refund} back, and {state.paid} in its books"
    if not -NOTHING <= state.refund <= paid + NOTHING:
        yield f"{state.refund} back of {paid}"
    guest = not cells[:, job.tenant].any()
    if scenario.policy.get("parts") == "nothing":
        yield from wrong_where_parts_are_worth_nothing(state, value, paid, guest=guest)
    elif state.refund > NOTHING and plan == KEEP:
        yield f"{state.refund} back under a kept plan"
    elif state.refund > NOTHING and guest:
        yield f"{state.refund} back to a tenant without cells"
    if guest and value - state.paid < -NOTHING * max(1.0, value):
        yield f"paid {state.paid} for {value}, and it has no cells"
    if not close(sum(state.reversal), state.refund):
        yield f"{state.refund} back, {state.reversal} reversed"
    received = [0.0] * (len(scenario.cluster.tenants) + 1)
    for booking in state.bookings:
        for owner, part in enumerate([] if booking.payouts is None else booking.payouts):
            received[owner] += float(part)
    for owner, back in enumerate(state.reversal):
        if not -NOTHING <= back <= received[owner] + NOTHING:
            yield f"owner {owner} received {received[owner]} and gives {back} back"
    if job.max_price is not None and state.paid > job.max_price + NOTHING:
        yield f"paid {state.paid}, at most {job.max_price}"
    if state.state == AWARDED and not close(value, worth(job.value, state.end - job.arrival)):
        yield f"worth {value}, and it ends at {state.end}"


def wrong_where_parts_are_worth_nothing(state: State, value: float, paid: float, *, guest: bool) -> Iterator[str]:
    """D16: who is not done pays nothing, unless something at home will do it; of those who are done only an owner may
    have had more alone."""
    at_home = state.floor is not None and state.floor.allocation and not state.floor.draft
    if state.state == AWARDED:
        if guest and state.refund > NOTHING:
            yield f"{state.refund} back, and it is done"
    elif value != 0:
        yield f"worth {value}, and it is {state.state}"
    elif not at_home and not close(state.refund, paid):
        yield f"{state.refund} back of {paid}, and it is {state.state}"
    elif at_home and state.refund > NOTHING:
        yield f"{state.refund} back, and it has its place at home"


# -- and the world alone -----------------------------------------------------------------------------------------------


def below(scenario: Scenario, state: State, value: float, world: Alone) -> Iterator[str]:
    """Where the owner's plans are renewed (D9, D10)."""
    number, floor = state.job.number, state.floor
    fixed, alone = world.fixed.get(number), world.alone.get(number, 0.0)
    if state.net(value) < alone - NOTHING * max(1.0, alone):
        yield f"got {state.net(value)}, alone {alone}"
    if state.state == WAITING and fixed is not None:
        yield "waits, and has started alone"
    if fixed is not None and (floor is None or placed(floor) != placed(fixed[1])):
        yield f"started alone with {fixed[1]}, and its floor is {floor}"
    if fixed is None and floor is not None and floor.draft != (number in world.waiting):
        yield f"{floor} in the market, {'waiting' if number in world.waiting else 'dropped'} alone"
    homes = [booking for booking in state.bookings if booking.phase == OWN]
    if homes and (fixed is None or not as_alone(homes, fixed[1])):
        yield f"runs at home in another way than alone: {homes[0]}"


def below_kept(scenario: Scenario, state: State, value: float) -> Iterator[str]:
    """Where plans are kept for good: a job that the end of the run left waiting for its floor would end by it."""
    floor = state.floor
    alone = 0.0 if floor is None else floor.value
    if state.state == WAITING and floor is not None and floor.allocation:
        value = max(value, ends_at(scenario, state, floor))
    if state.net(value) < alone - NOTHING * max(1.0, alone):
        yield f"got {state.net(value)}, alone {alone}"
    homes = [booking for booking in state.bookings if booking.phase == OWN]
    if homes and (floor is None or not as_alone(homes, floor)):
        yield f"runs at home in another way than alone: {homes[0]}"


def ends_at(scenario: Scenario, state: State, floor: Floor) -> float:
    """What the job will be worth at the end of what is left of its floor."""
    gang = Booking(
        state.job.number, floor.start, floor.end, floor.allocation, 0.0, 0, 0, floor.worker_type, floor.ps_type
    )
    each = minibatches(scenario, state.job, gang, 1)
    slots = max(1, math.ceil(state.rest / each - NOTHING))
    return worth(state.job.value, min(floor.end, floor.start + slots) - state.job.arrival)


def as_alone(homes: list[Booking], floor: Floor) -> bool:
    """One award at home, with the start, servers and gang of the world alone, and no later end (D3)."""
    rows = [[(row.server, row.workers, row.ps) for row in each] for each in (homes[0].allocation, floor.allocation)]
    return len(homes) == 1 and rows[0] == rows[1] and homes[0].start == floor.start and homes[0].end <= floor.end


def placed(floor: Floor) -> tuple[object, ...]:
    return floor.draft, floor.start, floor.end, floor.allocation, floor.worker_type, floor.ps_type


# -- all of them -------------------------------------------------------------------------------------------------------


def whole_tenant(run: Run, tenant: int, world: Alone) -> Iterator[str]:
    """K12: its jobs, and what it earned, reversals included."""
    gain = 0.0
    for state, value in zip(run.states, run.worths, strict=True):
        if state.job.tenant == tenant:
            gain += value - state.paid
        if state.payouts:
            gain += state.payouts[tenant] - (state.reversal[tenant] if state.reversal else 0.0)
    alone = sum(world.alone.values())
    if gain < alone - NOTHING * max(1.0, alone):
        yield f"gained {gain}, alone {alone}"


def over_capacity(scenario: Scenario, run: Run) -> Iterator[str]:
    """On every server in every slot; and home awards on the owner's own cells."""
    amounts: dict[tuple[int, int, int], float] = defaultdict(float)
    own: dict[tuple[int, int, int, int], float] = defaultdict(float)
    for each in scenario.preload:
        amounts[each.resource, each.slot, each.server] += each.amount
    for state in run.states:
        for booking in state.bookings:
            for r, t, s, amount in occupied_by(state.job, booking):
                amounts[r, t, s] += amount
                if booking.phase == OWN:
                    own[r, state.job.tenant, t, s] += amount
    for (r, t, s), amount in amounts.items():
        if amount > scenario.cluster.capacity[r, s] + NOTHING:
            yield f"{amount} of resource {r} on server {s} in slot {t}"
    cells = scenario.cluster.cells
    assert cells is not None
    for (r, u, t, s), amount in own.items():
        if amount > cells[r, u, s] + NOTHING:
            yield f"tenant {u} has {amount} of resource {r} at home on server {s} in slot {t}"


def close(one: float, other: float) -> bool:
    return abs(one - other) <= NOTHING * max(1.0, abs(one), abs(other))

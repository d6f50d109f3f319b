"""Make bookings of schedules: in absolute slots, and with what is paid to whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scheduling.core.policies.astraea.pieces import end_at_home
from scheduling.core.policies.astraea.pool import IdlePool
from scheduling.core.policies.astraea.round import Round
from scheduling.core.policies.astraea.schedule import Schedule
from scheduling.core.policies.astraea.terms import PairTerms
from scheduling.core.types import CENTRALIZED, DISTRIBUTED, OWN, SHARED, Booking, FloatArray, Floor, Job, Split


def own_booking(round_: Round, job: Job, schedule: Schedule, prices: FloatArray) -> Booking:
    """Book a schedule of phase one on shares. It is free; `prices` (resources, slots) only steered the choice."""
    shadow_cost = float((schedule.amounts @ prices[:, schedule.start : schedule.end]).sum())
    return Booking(**_schedule(round_, job, schedule), phase=OWN, shadow_cost=shadow_cost)


def home_booking(round_: Round, job: Job, floor: Floor) -> Booking:
    """Book the job's floor schedule on its owner's cells, free. It may end after the window (G4). The rest of a job
    that was begun may end sooner than its floor (D3)."""
    rest, end, allocation, value = round_.rests.get(job.number), floor.end, floor.allocation, floor.value
    if rest is not None and not rest.is_whole:
        end = end_at_home(round_.cluster, floor, rest)
        allocation = tuple(replace(row, end=end) for row in allocation)
        value = float(job.value(end - job.arrival))
    return Booking(
        job=job.number,
        start=floor.start,
        end=end,
        allocation=allocation,
        work=job.work if rest is None else rest.work,
        workers=sum(row.workers for row in floor.allocation),
        ps=sum(row.ps for row in floor.allocation),
        worker_type=floor.worker_type,
        ps_type=floor.ps_type,
        phase=OWN,
        placement=CENTRALIZED if len(floor.allocation) == 1 else DISTRIBUTED,
        value=value,
        ideal=float(job.value(end - round_.start)),
        floor=floor.value,
    )


def rented_booking(
    round_: Round, job: Job, schedule: Schedule, pool: IdlePool, terms: PairTerms, floor: float
) -> Booking:
    """Book a schedule of phase two. Each slot's cost goes to the owners by contribution; where payments are net, the
    payer's own part is not charged (R21, G7).

    In slots in which the payer's terms were raised to the least that can be paid, the owners get that amount.
    """
    slots = slice(schedule.start, schedule.end)
    costs = schedule.amounts[:, None] * pool.prices[:, slots]  # (resources, slots)
    # Not `Split.slot_payouts`, which may differ in the last bit: intervals of before are replayed with this sum.
    slot_payouts = np.einsum("rs,ros->so", costs, pool.contribution[:, :, slots])
    cost = paid = float(costs.sum())
    payer = job.tenant if round_.settings.payment == "net" else None
    if payer is not None:
        slot_payouts[:, payer] = 0.0
        paid = float(slot_payouts.sum())
    raised = bool(terms.raised[slots].any())
    if raised:
        _raise(slot_payouts, round_, job, schedule, pool, terms)
        paid = float(slot_payouts.sum())
        cost = float(np.maximum(costs.sum(axis=0), slot_payouts.sum(axis=1)).sum())
    return Booking(
        **_schedule(round_, job, schedule),
        phase=SHARED,
        floor=floor,
        cost=cost,
        paid=paid,
        payouts=slot_payouts.sum(axis=0),
        slot_payouts=slot_payouts,
        split=None if raised else Split(pool.supply, round_.start + schedule.start, costs, payer),
    )


def _raise(
    slot_payouts: FloatArray, round_: Round, job: Job, schedule: Schedule, pool: IdlePool, terms: PairTerms
) -> None:
    """Raise the payouts of slots in which a unit costs the least that can be paid. The same owners share that amount.
    Where the posted price is 0 the other tenants share it by what they sell, as the operator asked for nothing."""
    for slot in np.flatnonzero(terms.raised[schedule.start : schedule.end]).tolist():
        at, weights = schedule.start + slot, slot_payouts[slot]
        if not weights.any():
            weights = schedule.amounts @ pool.contribution[:, :, at]
            weights[-1] = 0.0
            weights[job.tenant] *= round_.settings.payment != "net"
        due = schedule.workers * terms.price_worker[at] + schedule.ps * terms.price_ps[at]
        slot_payouts[slot] = weights * (due / weights.sum())


def _schedule(round_: Round, job: Job, schedule: Schedule) -> dict[str, Any]:
    """Return the fields of a booking that follow from its schedule."""
    start, end = round_.start + schedule.start, round_.start + schedule.end
    since = round_.start if round_.settings.value_from == "round_start" else job.arrival
    return {
        "job": job.number,
        "start": start,
        "end": end,
        "allocation": tuple(
            replace(row, start=round_.start + row.start, end=round_.start + row.end) for row in schedule.rows
        ),
        "work": round_.rests[job.number].work if job.number in round_.rests else job.work,
        "workers": schedule.workers,
        "ps": schedule.ps,
        "worker_type": schedule.pair.worker_type,
        "ps_type": schedule.pair.ps_type,
        "placement": CENTRALIZED if schedule.central else DISTRIBUTED,
        "value": float(job.value(end - since)),
        "ideal": float(job.value(end - round_.start)),
    }

"""Book what a job rents: what it pays, and which owner gets how much of that (R21, G7)."""

from __future__ import annotations

import numpy as np

from scheduling.core.policies.astraea.renting.pool import IdlePool
from scheduling.core.policies.astraea.schedules.schedule import Schedule
from scheduling.core.policies.astraea.schedules.terms import PairTerms
from scheduling.core.policies.astraea.window.awards import fields_of
from scheduling.core.policies.astraea.window.round import Round
from scheduling.core.types import SHARED, Booking, FloatArray, Job, Split


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
        **fields_of(round_, job, schedule),
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

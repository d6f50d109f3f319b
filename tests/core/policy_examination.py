"""A policy under examination: passes every question on and checks each answer against what all policies promise."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from scheduling.core.types import EXPIRED, REJECTED, WAITING, Booking, Job, Plan, Policy, Refusal, View

NOTHING = 1e-9
PLAIN = {bool, float, int, str, type(None)}  # most of what there is: they are asked nothing more


def frozen(value: Any) -> Any:
    """A value and all that is in it, as something that can be compared: arrays become lists, functions themselves."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, np.ndarray):
        return ("array", value.shape, value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if names := field_names(type(value)):
        return (type(value).__name__, *[frozen(getattr(value, name)) for name in names])
    if hasattr(value, "items"):
        return tuple(sorted([(str(key), frozen(item)) for key, item in value.items()]))
    if isinstance(value, list | tuple):
        return tuple([frozen(item) for item in value])
    return value


@cache
def field_names(kind: type) -> tuple[str, ...]:
    """Of a dataclass; of no other class."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def snapshot(view: View) -> View:
    """The view as it is now; what a simulation hands out goes on changing with the run."""
    now = {"occupied": view.occupied.copy(), "spent": view.spent.copy(), "remaining": view.remaining.copy()}
    maps = {name: dict(getattr(view, name)) for name in ("floors", "jobs", "memory", "paid", "worths")}
    return replace(view, **now, **maps)


def arrays_in(view: View) -> list[np.ndarray]:
    """Every array that a policy could lay hands on."""
    owned = [getattr(view.cluster, field.name) for field in fields(view.cluster)]
    return [array for array in (view.remaining, view.occupied, view.spent, *owned) if isinstance(array, np.ndarray)]


class Examined:
    """Stands before a policy in a simulation. `plans` counts the answers that held a booking."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.name, self.plans = policy, policy.name, 0

    def decide(self, view: View) -> Plan:
        before = frozen(view)
        assert not any(array.flags.writeable for array in arrays_in(view))
        plan = self.policy.decide(view)
        assert frozen(view) == before, "the view was changed"
        assert frozen(self.policy.decide(view)) == frozen(plan), "the same view gave another plan"
        assert json.loads(json.dumps(plan.memory if plan.memory is None else dict(plan.memory))) == plan.memory
        self.examine(view, plan)
        self.plans += bool(plan.bookings)
        return plan

    def examine(self, view: View, plan: Plan) -> None:
        waiting = {job.number: job for job in view.waiting}
        remaining = dict(zip(waiting, view.remaining.tolist(), strict=True))
        booked, refused = [b.job for b in plan.bookings], [r.job for r in plan.refusals]
        assert set(booked) | set(refused) <= set(waiting), "answered for a job that does not wait"
        assert not set(booked) & set(refused), "booked and refused at once"
        assert len(refused) == len(set(refused)), "refused twice at once"
        for booking in plan.bookings:
            examine_times(view, waiting[booking.job], booking)
            examine_gang(view, waiting[booking.job], booking)
            examine_money(view, booking)
            assert 0 < booking.work <= remaining[booking.job] * (1 + NOTHING), "more work than is asked"
        for refusal in plan.refusals:
            examine_refusal(refusal)
        for window in plan.windows:
            assert (window.prices >= 0).all(), "a negative price"
            assert (window.idle >= -NOTHING).all(), "somebody sells less than nothing"


def examine_times(view: View, job: Job, booking: Booking) -> None:
    assert booking.start >= view.slot, "starts in the past"
    assert booking.start >= job.first_slot, "starts before the arrival"
    assert booking.end > booking.start, "ends before it starts"
    assert all(booking.start <= row.start < row.end <= booking.end for row in booking.allocation)


def examine_gang(view: View, job: Job, booking: Booking) -> None:
    workers, ps = np.zeros(booking.end - booking.start), np.zeros(booking.end - booking.start)
    for row in booking.allocation:
        assert min(row.workers, row.ps) >= 0, "fewer than no units"
        assert not row.workers or view.cluster.hosts_workers[row.server], "a worker where none may run"
        assert not row.ps or view.cluster.hosts_ps[row.server], "a parameter server where none may run"
        workers[row.start - booking.start : row.end - booking.start] += row.workers
        ps[row.start - booking.start : row.end - booking.start] += row.ps
    assert (ps[workers > 0] >= job.least_ps).all(), "workers without a parameter server"
    assert not (job.all_reduce and ps.any()), "parameter servers for a job that has none"
    assert workers.max() == booking.workers <= job.max_workers, "more workers than the job can use"
    assert ps.max() == booking.ps, "the number of parameter servers is not that of the allocation"


def examine_money(view: View, booking: Booking) -> None:
    assert min(booking.paid, booking.cost) >= -NOTHING, "a negative price"
    assert np.isfinite([booking.paid, booking.cost, booking.value]).all()
    payouts = np.zeros(len(view.cluster.owners)) if booking.payouts is None else booking.payouts
    assert payouts.shape == (len(view.cluster.owners),)
    assert (payouts >= -NOTHING).all(), "an owner pays"
    assert np.isclose(payouts.sum(), booking.paid, rtol=NOTHING, atol=NOTHING), "payouts are not the price"
    if booking.slot_payouts is not None:
        assert booking.slot_payouts.shape == (booking.end - booking.start, len(payouts))
        assert np.allclose(booking.slot_payouts.sum(axis=0), payouts, rtol=NOTHING, atol=NOTHING)


def examine_refusal(refusal: Refusal) -> None:
    assert refusal.state in (WAITING, REJECTED, EXPIRED)
    assert refusal.reason.code, "no reason"
    json.dumps(dict(refusal.reason.numbers))

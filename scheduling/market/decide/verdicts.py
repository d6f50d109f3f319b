"""What the instant lane says to one job, as a function of what it is told: the same question has the same answer."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.core.speed import minibatches_per_slot
from scheduling.core.types import Booking, Cluster, Job, Plan, Policy, Reason, View
from scheduling.market.view.instant import share_of
from tenants.ledger.amounts import credits_of

# Worker-slots of a job times its most workers at once. Finding the cheapest schedule takes time in proportion, and
# meanwhile everybody else in the lane waits. What is larger has time for the batch lane.
LARGEST = 500_000


@dataclass(frozen=True)
class Purse:
    """What a tenant can pay for one more job now, in micro-credits."""

    available: int
    budget_left: int | None  # None: no budget binds
    budgeted: bool = False  # whether its tenant has any budget at all; no answer depends on it

    @property
    def most(self) -> float:
        """Credits."""
        amounts = [self.available] if self.budget_left is None else [self.available, self.budget_left]
        return credits_of(min(amounts))


@dataclass(frozen=True, eq=False)
class Question:
    """All on which an answer depends. The view is the counter's, and its one waiting job is bounded by the purse and by
    its share of the pool; `cluster` is the whole pool's."""

    cluster: Cluster
    policy: Policy
    share_percent: int
    view: View
    purse: Purse
    own_limit: float | None  # the most that its tenant set for the job itself, in credits

    @property
    def job(self) -> Job:
        return self.view.waiting[0]


def verdict(question: Question) -> Booking | Reason:
    """A booking names the counter's servers, see `scheduling.core.calendar`."""
    if (reason := _too_large(question) or _over_share(question)) is not None:
        return reason
    return _booking_or_reason(question.policy.decide(question.view), question)


def _too_large(question: Question) -> Reason | None:
    job, slot_seconds = question.job, question.cluster.slot_seconds
    rate = max(
        minibatches_per_slot(job, worker, 0, slot_seconds, centralized=False) for worker in range(len(job.worker_types))
    )
    size = job.work / rate * job.max_workers
    return Reason("too_large_for_lane", {"size": size, "most": LARGEST}) if size > LARGEST else None


def _over_share(question: Question) -> Reason | None:
    job, percent = question.job, question.share_percent
    most = share_of(job, question.cluster, percent)
    if percent == 100 or job.min_workers <= most:
        return None
    return Reason("over_share", {"asked": job.min_workers, "most": most, "percent": percent})


def _booking_or_reason(plan: Plan, question: Question) -> Booking | Reason:
    """The booking, or a reason that names what bound: the price the tenant set, its budget, or its balance."""
    if plan.bookings:
        return plan.bookings[0]
    purse, own_limit, reason = question.purse, question.own_limit, plan.refusals[0].reason
    price = reason.numbers.get("price")
    if reason.code != "over_max_price" or not isinstance(price, int | float):
        return reason
    if own_limit is not None and price > own_limit:
        return Reason("over_max_price", {"price": price, "max_price": own_limit})
    if purse.budget_left is not None and purse.budget_left <= purse.available:
        return Reason("over_budget", {"price": price, "left": credits_of(purse.budget_left)})
    return Reason("low_balance", {"price": price, "left": credits_of(purse.available)})

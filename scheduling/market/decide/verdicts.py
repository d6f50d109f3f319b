"""The instant lane's answer to one job, as a pure function: the same question always gets the same answer."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.core.speed import minibatches_per_slot
from scheduling.core.types import Booking, Cluster, Job, Plan, Policy, Reason, View
from scheduling.market.view.instant import share_of
from scheduling.money import BudgetLimit
from tenants.ledger.amounts import credits_of

# The largest job of the lane: its worker-slots times its most workers at once. Finding the cheapest schedule takes time
# in proportion to that, and meanwhile everybody else in the lane waits. A larger job must go to the batch lane.
LARGEST = 500_000


@dataclass(frozen=True)
class Purse:
    """What a tenant can pay for one more job now, in micro-credits."""

    available: int
    budget_left: int | None  # None: no budget limits this job
    budgets: tuple[BudgetLimit, ...] = ()  # of the tenant, as the purse was read; no answer depends on it

    @property
    def most(self) -> float:
        """The most that can be paid, in credits."""
        amounts = [self.available] if self.budget_left is None else [self.available, self.budget_left]
        return credits_of(min(amounts))


@dataclass(frozen=True, eq=False)
class Question:
    """Everything that an answer depends on. `view` is that of the counter (what the lane has for sale); its one waiting
    job is limited by the purse and by its share of the pool. `cluster` is the whole pool."""

    cluster: Cluster
    policy: Policy
    share_percent: int
    view: View
    purse: Purse
    own_limit: float | None  # the highest price that the tenant set for this job, in credits

    @property
    def job(self) -> Job:
        return self.view.waiting[0]


def verdict(question: Question) -> Booking | Reason:
    """Return a booking, or the reason why there is none. A booking's servers are those of the counter, see
    `scheduling.core.calendar`."""
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
    """Return the booking, or a reason. For a price that is too high the reason names the limit that it exceeds: the
    price the tenant set, that it may never rent, its budget, or its balance."""
    if plan.bookings:
        return plan.bookings[0]
    purse, own_limit, reason = question.purse, question.own_limit, plan.refusals[0].reason
    price = reason.numbers.get("price")
    if reason.code != "over_max_price" or not isinstance(price, int | float):
        return reason
    if own_limit is not None and price > own_limit:
        return Reason("over_max_price", {"price": price, "max_price": own_limit})
    if question.job.max_price == 0.0 < purse.most:  # nothing else makes the limit so low
        return Reason("rent_never", {"price": price})
    if purse.budget_left is not None and purse.budget_left <= purse.available:
        return Reason("over_budget", {"price": price, "left": credits_of(purse.budget_left)})
    return Reason("low_balance", {"price": price, "left": credits_of(purse.available)})

"""What would become of a job if it were submitted now. The same question as a submission, without its consequence.

A quote locks nothing and writes nothing. In the instant lane it is the very computation that a submission makes, so
the price is the one that a submission at this moment pays. In the batch lane the decision lies ahead and others may
still come: the answer is what the next boundary would decide if nobody did, with a range, and marked as an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scheduling.models import Lane, Pool, TrainingJob
from scheduling.services.desks import BatchDesk, Desk, InstantDesk, Terms
from scheduling.services.estimates import Estimate, start_estimate
from scheduling.services.jobs import job_checked
from scheduling.snapshots.specs import spec_read
from tenants.access import Access, Refused
from tenants.roles import Permission
from tenants.scoping import scope, scope_disabled
from tenants.services.members import NOT_ALLOWED

__all__ = ["Change", "Quote", "Terms", "job_quote"]

MARGIN = 1.001  # a value just above the price wins; one that only equals it does not

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """Something else to ask for that would win."""

    what: str  # later | fewer_workers | higher_value | more_budget | higher_max_price
    before: float
    after: float
    terms: Terms | None  # None: only the money is missing
    fields: Spec = field(default_factory=dict)  # what would be said differently, in the words of a specification


@dataclass(frozen=True)
class Quote:
    lane: str
    terms: Terms
    estimate: Estimate | None  # batch lane: the terms are an estimate, and this is the range
    change: Change | None  # the cheapest one found, where the job would not be admitted


def job_quote(*, pool: Pool, name: str, spec: Spec, lane: str, by: Access, at: datetime) -> Quote | Refused:
    """Arguments as those of `job_submit`. A job that could not be submitted is refused in the same words."""
    if by.tenant is None or not by.allows(Permission.QUOTES_MAKE):
        return NOT_ALLOWED
    with scope(by.tenant):
        job = job_checked(by.tenant, pool, name, spec, lane, by.user, at)
    if isinstance(job, Refused):
        return job
    with scope_disabled("what is for sale, and who waits, is everybody's"):
        desk: Desk = InstantDesk(job, at) if lane == Lane.INSTANT else BatchDesk(job, at)
        terms = desk.ask({})
        estimate = None if lane == Lane.INSTANT else _estimate(job, at)
        return Quote(lane, terms, estimate, None if terms.admitted else _cheapest(job, terms, desk))


def _estimate(job: TrainingJob, at: datetime) -> Estimate:
    as_core = spec_read(job.pool, job.spec, tenant_id=job.tenant_id, arrival=job.arrival, lane=job.lane)
    return start_estimate(job.pool, as_core, at=at)


def _cheapest(job: TrainingJob, terms: Terms, desk: Desk) -> Change | None:
    """Of the changes that would win, the one with the lowest price. Each is tried, not guessed."""
    found = [change for change in _changes(job, terms, desk) if change.terms is None or change.terms.admitted]
    return min(found, key=lambda change: change.terms.price if change.terms else 0, default=None)


def _changes(job: TrainingJob, terms: Terms, desk: Desk) -> Iterator[Change]:
    numbers = terms.reason.numbers if terms.reason else {}
    price = numbers.get("price", numbers.get("price_at_least"))
    code = terms.reason.code if terms.reason else ""
    if code in ("over_budget", "low_balance") and isinstance(price, int | float):
        left = numbers.get("left", numbers.get("available", 0.0))
        yield Change("more_budget", float(left or 0), float(price), None)
    if code == "over_max_price" and isinstance(price, int | float):
        yield _tried("higher_max_price", float(job.spec["max_price"]), float(price), {"max_price": price}, desk)
    most = int(job.spec.get("max_workers", job.spec["chunks"]))
    least = int(job.spec.get("min_workers", 1))
    for fewer in sorted({max(most // 2, least), max(most // 4, least)} - {most}):
        yield _tried("fewer_workers", most, fewer, {"max_workers": fewer}, desk)
    for asked_for, tried, found in desk.later():
        yield Change("later", asked_for, tried, found)
        if found.admitted:
            break
    value = numbers.get("value")
    if code == "outbid" and isinstance(price, int | float) and isinstance(value, int | float):
        raised = _raised(job.spec["value"], float(value), float(price))
        yield _tried("higher_value", float(value), float(price) * MARGIN, {"value": raised}, desk)


def _tried(what: str, before: float, after: float, fields: Spec, desk: Desk) -> Change:
    return Change(what, before, after, desk.ask(fields), fields)


def _raised(value: Spec, worth: float, price: float) -> dict[str, Any]:
    """The same curve, so much higher that the schedule in question is worth a little more than its price."""
    name = {"linear": "base", "deadline": "base", "convex": "scale", "sigmoid": "priority"}[value["kind"]]
    if value["kind"] == "linear" or worth <= 0:
        return {**value, name: value[name] + price * MARGIN - worth}
    return {**value, name: value[name] * price * MARGIN / worth}

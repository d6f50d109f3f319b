"""Quotes: what would become of a job if it were submitted now. A quote asks what a submission asks, without effect.

A quote locks nothing and writes nothing. In the instant lane it is the same computation that a submission makes, so
the price is the one that a submission at this moment pays. In the batch lane the decision comes later and other jobs
may still arrive: the quote is what the next boundary would decide if none did, with a range, and marked as an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from scheduling.core.scenario import BadScenario
from scheduling.core.scenario.jobs import read_value
from scheduling.core.types import Reason
from scheduling.jobs import Checked, Intake, job_checked
from scheduling.market.decide import Estimate, program_kept, start_estimate
from scheduling.market.view import SpecRead, arrival_of
from scheduling.models import Lane, Pool, TrainingJob
from scheduling.quotes.desks import BatchDesk, Desk, InstantDesk, QuotedTerms
from scheduling.quotes.elastic_quotes import ByUse, ElasticDesk
from scheduling.quotes.restarts import Restarts, restarts_of
from tenants.access import Access, Refused
from tenants.ledger.amounts import credits_of
from tenants.roles import Permission
from tenants.scoping import scope, scope_disabled
from tenants.services.members import NOT_ALLOWED

__all__ = ["Change", "Quote", "QuotedTerms", "job_quote"]

MARGIN = 1.001  # a value just above the price wins; an equal one does not
MOST_RAISES = 4
LEAST_PRICE = credits_of(1)

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """A change of the job with which it would be admitted."""

    # later | fewer_workers | more_workers | fewer_epochs | higher_value | more_budget | higher_max_price
    what: str
    before: float
    after: float
    terms: QuotedTerms | None  # None if only money is missing
    fields: Spec = field(default_factory=dict)  # the fields of the specification that would change


@dataclass(frozen=True)
class Quote:
    lane: str
    terms: QuotedTerms
    estimate: Estimate | None  # in the batch lane, where the terms are an estimate: the range
    change: Change | None  # the cheapest one found, if the job would not be admitted
    by_use: ByUse | None = None  # in an elastic pool: what a slot costs; the terms are of the next slot alone
    restarts: Restarts | None = None  # of a program that is started again when its size changes


def job_quote(
    *,
    pool: Pool,
    name: str,
    spec: Spec,
    lane: str,
    by: Access,
    at: datetime,
    read: SpecRead | None = None,
    worth_from: datetime | None = None,
) -> Quote | Refused:
    """Return the quote of a job. The arguments are those of `job_submit`, and a job that could not be submitted gets
    the same refusal. `read` is the specification as it was just checked for the batch lane. Also where the job is tried
    later than at `worth_from`, its worth counts from then."""
    if by.tenant is None or not by.allows(Permission.QUOTES_MAKE):
        return NOT_ALLOWED
    with scope(by.tenant):
        intake = Intake(pool, by.tenant, by.user, at, read.rows if read else None)
        checked = job_checked(intake, name, spec, lane, read=read)
    if isinstance(checked, Refused):
        return checked
    job = checked.job
    job.worth_from = None if worth_from is None else arrival_of(pool, worth_from)
    quote = _quote_of(pool, job, checked, lane, at)
    with scope(by.tenant):
        program = program_kept(job.spec, tenant_id=job.tenant_id) if quote.terms.resizes else None
    restarts = restarts_of(quote.terms.resizes, program[0].program if program else None, pool.slot_seconds)
    return replace(quote, restarts=restarts)


def _quote_of(pool: Pool, job: TrainingJob, checked: Checked, lane: str, at: datetime) -> Quote:
    with scope_disabled("what is for sale, and who waits, is everybody's"):
        if pool.is_elastic:
            by_slot = ElasticDesk(job, at)
            terms = by_slot.ask({})
            cheapest = None if terms.admitted else _cheapest(job, terms, by_slot)
            return Quote(job.lane, terms, None, cheapest, by_slot.by_use())
        if lane == Lane.INSTANT:
            at_once = InstantDesk(job, at)
            terms = at_once.ask({})
            return Quote(lane, terms, None, None if terms.admitted else _cheapest(job, terms, at_once))
        desk = BatchDesk(job, at)
        terms = desk.ask({})
        if not terms.admitted and (never := desk.never()) is not None:  # then there is no start to estimate
            terms = QuotedTerms(False, never)
            return Quote(lane, terms, None, _cheapest(job, terms, desk))
        estimate = start_estimate(pool, checked.read)
        if terms.admitted and terms.start is not None:  # others may make it start sooner or later than it would alone
            estimate = replace(estimate, latest=max(estimate.latest, terms.start))
        return Quote(lane, terms, estimate, None if terms.admitted else _cheapest(job, terms, desk))


def _cheapest(job: TrainingJob, terms: QuotedTerms, desk: Desk) -> Change | None:
    """Return the change with the lowest price among those that would win. Each is tried, not guessed."""
    offers = [change for change in _changes(job, terms, desk) if change.terms is None or change.terms.admitted]
    return min(offers, key=lambda change: change.terms.net if change.terms else 0, default=None)


def _changes(job: TrainingJob, terms: QuotedTerms, desk: Desk) -> Iterator[Change]:
    numbers = terms.reason.numbers if terms.reason else {}
    code = terms.reason.code if terms.reason else ""
    if code in ("over_budget", "low_balance") and (price := _price(numbers)) is not None:
        rest = numbers.get("left", numbers.get("available", 0.0))
        least = numbers.get("least_price", price)  # an elastic pool lets it run smaller
        yield Change("more_budget", float(rest or 0), float(least or 0), None)
    if (enough := numbers.get("enough_workers")) is not None:
        yield _tried("more_workers", _most_workers(job.spec), float(enough), {"max_workers": enough}, desk)
    if (epochs := numbers.get("epochs_that_fit")) is not None:
        yield _tried("fewer_epochs", int(job.spec["epochs"]), float(epochs), {"epochs": epochs}, desk)
    for fewer, fields in _fewer(job.spec, code):
        yield _tried("fewer_workers", _most_workers(job.spec), fewer, fields, desk)
    for asked_for, tried, offer in desk.later():
        yield Change("later", asked_for, tried, offer)
        if offer.admitted:
            break
    if (dearer := _dearer(job, terms, desk)) is not None:
        yield dearer


def _fewer(spec: Spec, code: str) -> Iterator[tuple[int, Spec]]:
    """Yield (workers, fields to change) of smaller gangs: half and a quarter of the workers, but no fewer than the job
    must have; and if the refusal is for its size, half and a quarter of that least number, too."""
    most, least = _most_workers(spec), int(spec.get("min_workers", 1))
    for fewer in sorted({max(most // 2, least), max(most // 4, least)} - {most}):
        yield fewer, {"max_workers": fewer}
    if code in ("no_room", "larger_than_window", "no_piece"):
        for fewer in sorted({max(least // 2, 1), max(least // 4, 1)} - {least}):
            yield fewer, {"max_workers": fewer, "min_workers": fewer}


def _most_workers(spec: Spec) -> int:
    return int(spec.get("max_workers", spec["chunks"]))


def _dearer(job: TrainingJob, terms: QuotedTerms, desk: Desk) -> Change | None:
    """Return the change to a higher value or price limit, as high as the desk's answer requires.

    An answer may name only a lower bound of the price, or the other limit may apply next: so it is raised again, up to
    `MOST_RAISES` times.
    """
    fields: dict[str, Any] = {}
    first: tuple[str, float] | None = None
    after = 0.0
    for _ in range(MOST_RAISES):
        raised = None if terms.reason is None else _raise({**job.spec, **fields}, terms.reason)
        if raised is None:
            break
        what, before, after, words = raised
        first = first or (what, before)
        fields |= words
        terms = desk.ask(fields)
    if first is None:
        return None
    what, before = first
    after = fields["max_price"] if what == "higher_max_price" else after
    return Change(what, before, float(after), terms, fields)


def _raise(spec: Spec, reason: Reason) -> tuple[str, float, float, Spec] | None:
    """Return (what, from, to, fields to change) for a refusal because of the price, or None for any other refusal."""
    price, worth = _price(reason.numbers), reason.numbers.get("value", reason.numbers.get("best_value"))
    if reason.code == "over_max_price" and price is not None and spec.get("max_price") is not None:
        return "higher_max_price", float(spec["max_price"]), price, {"max_price": price}
    if price is not None:
        price -= float(reason.numbers.get("own_part") or 0.0)  # the job need only be worth what does not come back
    if reason.code == "not_worth_it":
        price = LEAST_PRICE  # no price was computed yet: the next answer names one
    if reason.code not in ("outbid", "not_worth_it") or price is None or not isinstance(worth, int | float):
        return None
    value = _raised(spec["value"], float(worth), price)
    return None if value is None else ("higher_value", float(worth), price * MARGIN, {"value": value})


def _price(numbers: Mapping[str, Any]) -> float | None:
    price = numbers.get("price", numbers.get("price_at_least", numbers.get("net_price_at_least")))
    return float(price) if isinstance(price, int | float) else None


def _tried(what: str, before: float, after: float, fields: Spec, desk: Desk) -> Change:
    return Change(what, before, after, desk.ask(fields), fields)


def _raised(value: Spec, worth: float, price: float) -> dict[str, Any] | None:
    """Return the same curve, raised until the schedule in question is worth a little more than its price. Return None
    if the number is higher than a job may have: no sensible factor raises a curve that has almost reached zero."""
    kind = value["kind"].removesuffix("_until")
    name = {"linear": "base", "deadline": "base", "convex": "scale", "sigmoid": "priority"}[kind]
    if kind == "linear" or worth <= 0:
        raised = value[name] + price * MARGIN - worth
    else:
        raised = value[name] * price * MARGIN / worth
    curve = {**value, name: raised}
    try:
        read_value(curve, "value")
    except BadScenario:
        return None
    return curve

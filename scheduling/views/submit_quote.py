"""A quote as the page shows it: lane by lane, with names, times and a change that a button can make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.models import Lane, Pool
from scheduling.selectors.estimates import Record, estimates_record
from scheduling.selectors.explain import reason_sentence
from scheduling.selectors.measured import offer
from scheduling.selectors.payees import Payee, payees
from scheduling.services.elastic_quotes import ByUse
from scheduling.services.jobs import InvalidJob, closes
from scheduling.services.quotes import Change, Quote, Terms, job_quote
from scheduling.services.submission import Wanted
from scheduling.snapshots.jobs import arrival_of
from scheduling.views.submit_form import plain, value_fields
from scheduling.views.value_picture import ValuePicture, value_picture
from tenants.access import Access, Refused
from tenants.ledger.postings import MICRO
from tenants.templatetags.look import clock

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class ChangeCard:
    """`fill`: the form's fields after the change, as JSON; empty where no field of the form makes it."""

    words: str
    price: int | None
    detail: str
    fill: str


@dataclass(frozen=True)
class LaneCard:
    """Amounts in micro-credits."""

    lane: str
    chosen: bool
    admitted: bool
    reason: str  # a sentence; empty where there is nothing to say
    at_home: bool
    workers: int
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    earliest_at: datetime | None = None
    latest_at: datetime | None = None
    price: int = 0
    price_high: int | None = None
    worth: int = 0
    home_worth: int | None = None
    home_starts_at: datetime | None = None
    home_ends_at: datetime | None = None
    payees: tuple[Payee, ...] = ()
    change: ChangeCard | None = None
    by_use: ByUse | None = None  # of an elastic pool

    @property
    def left(self) -> int:
        return self.worth - self.price

    @property
    def gain(self) -> int | None:
        """More than at home; None where there is nothing to compare with, or it is the same."""
        return None if self.home_worth is None or self.at_home else self.left - self.home_worth


@dataclass(frozen=True)
class MeasuredCard:
    """Times that an earlier run of the same program and model took. `fill`: the form's fields, as JSON."""

    minibatch_seconds: float
    said: float | None  # by the form
    job_id: int
    at: datetime
    fill: str


@dataclass(frozen=True)
class QuoteCard:
    """`refused`: the job could not be submitted at all; no lane was asked."""

    at: datetime
    closes_at: datetime
    lanes: tuple[LaneCard, ...] = ()
    refused: Refused | None = None
    picture: ValuePicture | None = None
    record: Record | None = None
    measured: MeasuredCard | None = None

    @property
    def summary(self) -> str:
        """One polite sentence for who hears the page."""
        parts = [
            f"{lane.lane.capitalize()}: would be {'admitted' if lane.admitted else 'refused'}"
            + (f", about {lane.price / MICRO:,.2f} credits" if lane.admitted else f". {lane.reason}")
            + (f". A slot costs {lane.by_use.per_slot / MICRO:,.2f} credits at its largest size" if lane.by_use else "")
            for lane in self.lanes
        ]
        return ". ".join(parts)


def quote_card(*, pool: Pool, name: str, spec: Spec, wanted: str, by: Access, own_id: int, at: datetime) -> QuoteCard:
    closes_at = datetime.fromisoformat(closes(pool, at)["closes_at"])
    cards, ends, refused = [], {}, None
    for lane in _lanes(pool):
        quote = job_quote(pool=pool, name=name, spec=spec, lane=lane, by=by, at=at)
        if isinstance(quote, Refused):
            refused = refused or quote
            continue
        cards.append(_lane(pool, quote, spec, wanted, own_id))
        if quote.terms.admitted and quote.terms.end is not None:
            more = quote.by_use.slots - 1 if quote.by_use else 0  # the terms are of the first slot alone
            ends[lane] = quote.terms.end + more - arrival_of(pool, at)
    if isinstance(refused, InvalidJob) or not cards:
        return QuoteCard(at, closes_at, refused=refused)
    picture = value_picture(spec["value"], ends)
    return QuoteCard(at, closes_at, tuple(cards), None, picture, estimates_record(pool), _measured(spec))


def _measured(spec: Spec) -> MeasuredCard | None:
    found = offer(spec)
    if found is None:
        return None
    fill = json.dumps({name: plain(value) for name, value in found.times.items()})
    said = spec.get("minibatch_seconds")
    seconds = float(found.times["minibatch_seconds"])
    return MeasuredCard(seconds, said, found.measured.job_id, found.measured.at, fill)


def _lanes(pool: Pool) -> tuple[str, ...]:
    batch, instant = str(Lane.BATCH.value), str(Lane.INSTANT.value)
    return (batch, instant) if pool.instant_policy is not None else (batch,)


def _lane(pool: Pool, quote: Quote, spec: Spec, wanted: str, own_id: int) -> LaneCard:
    terms, estimate = quote.terms, quote.estimate
    home = terms.home
    return LaneCard(
        lane=quote.lane,
        chosen=wanted in (quote.lane, Wanted.EITHER),
        admitted=terms.admitted,
        reason=reason_sentence(pool, terms.reason.code, terms.reason.numbers) if terms.reason else "",
        at_home=terms.phase == "own",
        workers=terms.workers,
        starts_at=_time(pool, terms.start),
        ends_at=_time(pool, terms.end),
        earliest_at=_time(pool, estimate.earliest if estimate else None),
        latest_at=_time(pool, estimate.latest if estimate else None),
        price=terms.price,
        price_high=max(estimate.price_high, terms.price) if estimate else None,
        worth=_micro(terms.worth),
        home_worth=None if home is None else _micro(home.value),
        home_starts_at=_time(pool, home.start if home else None),
        home_ends_at=_time(pool, home.end if home else None),
        payees=payees(own_id, terms.payees or {}),
        change=_change(pool, quote.change, spec) if quote.change else None,
        by_use=quote.by_use,
    )


def _change(pool: Pool, change: Change, spec: Spec) -> ChangeCard:
    words = {
        "later": f"Wait until {clock(pool.slot_start(round(change.after)), 's')}",
        "fewer_workers": f"Allow at most {change.after:.0f} worker{'' if change.after == 1 else 's'}",
        "higher_value": f"If it were worth {change.after:,.2f} instead of {change.before:,.2f}",
        "more_budget": f"Have {change.after:,.2f} credits to spend instead of {change.before:,.2f}",
        "higher_max_price": f"Pay up to {change.after:,.2f} instead of {change.before:,.2f}",
    }.get(change.what, change.what.replace("_", " ").capitalize())
    fields = dict(change.fields)
    if "value" in fields:
        fields |= value_fields(fields.pop("value"))
    if "max_workers" in fields and fields["max_workers"] < int(spec.get("min_workers", 1)):
        fields["min_workers"] = fields["max_workers"]
    fill = json.dumps({name: plain(value) for name, value in fields.items()}) if fields else ""
    return ChangeCard(words, change.terms.price if change.terms else None, _then(pool, change.terms), fill)


def _then(pool: Pool, terms: Terms | None) -> str:
    if terms is None:
        return "Then there would be enough to pay for it."
    if terms.start is None or terms.end is None:
        return "Then it would be admitted."
    where = "at home" if terms.phase == "own" else "on rented units"
    span = f"{clock(pool.slot_start(terms.start), 's')} to {clock(pool.slot_start(terms.end), 's')}"
    left = terms.worth - terms.price / MICRO
    return f"Then it runs {where}, {span}, with {terms.workers} workers, and leaves you {left:,.2f}."


def _time(pool: Pool, slot: int | None) -> datetime | None:
    return None if slot is None else pool.slot_start(slot)


def _micro(credits: float) -> int:
    return round(credits * MICRO)

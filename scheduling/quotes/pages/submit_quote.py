"""Prepare a quote for the page: lane by lane, with names, times and a change that a button can make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.jobs import CourseRecord, Record, courses_record, estimates_record, lanes_refused
from scheduling.market.calendar import closes
from scheduling.market.reads import NamedPayee, payees, reason_in_words
from scheduling.market.view import SpecRead, arrival_of
from scheduling.models import Lane, Pool
from scheduling.quotes.desks import LikelyCourse
from scheduling.quotes.elastic_quotes import ByUse
from scheduling.quotes.pages.submit_form import plain, value_fields
from scheduling.quotes.pages.value_picture import ValuePicture, value_picture
from scheduling.quotes.quotes import Change, Quote, QuotedTerms, job_quote
from scheduling.quotes.restarts import Restarts
from scheduling.reasons import slot_clock
from scheduling.runs import offer
from tenants.access import Access, Refused
from tenants.ledger.amounts import adding_up, enough, micro, micro_up, rounded, shown

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class ChangeCard:
    """A change that would help. `fill` is the form's fields after it, as JSON; empty where no field of the form makes
    it."""

    words: str
    price: int | None
    detail: str
    fill: str


@dataclass(frozen=True)
class LaneCard:
    """The quote of one lane. Amounts are in micro-credits. `tried` says that the lane was asked about the job, and
    about changes that would help where it would not take it; else `reason` says why it was not asked."""

    lane: str
    is_chosen: bool
    admitted: bool
    reason: str  # a sentence; empty where there is nothing to say
    help: str = ""  # what would help, where no change that was tried does
    tried: bool = True
    at_home: bool = False
    workers: int = 0
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    earliest_at: datetime | None = None
    latest_at: datetime | None = None
    price: int = 0
    own_part: int = 0  # the part of the price that comes back
    price_high: int | None = None
    worth: int = 0
    worth_said: int | None = None  # for an end by the moment that the submitter named, where they named one
    home_worth: int | None = None
    home_starts_at: datetime | None = None
    home_ends_at: datetime | None = None
    payees: tuple[NamedPayee, ...] = ()
    change: ChangeCard | None = None
    by_use: ByUse | None = None  # of an elastic pool
    restarts: Restarts | None = None
    course: LikelyCourse | None = None  # of a job that would be begun in pieces
    course_ends_at: datetime | None = None

    @property
    def surplus(self) -> int:
        return self.worth - self.price + self.own_part

    @property
    def is_worth_more(self) -> bool:
        """Return whether an end before the moment that the submitter named is worth more than they said, as amounts are
        shown."""
        if self.worth_said is None or self.worth <= self.worth_said:
            return False
        return shown(self.worth, self.digits) != shown(self.worth_said, self.digits)

    @property
    def digits(self) -> int:
        """Return with how many digits the sums of the card add up as they are shown."""
        parts = [payee.amount for payee in self.payees]
        paid = (*parts, -sum(parts))  # either the whole price, own part included, or the price without it
        return adding_up((self.worth, -self.price, self.own_part, -self.surplus), paid if parts else ())

    @property
    def worth_nothing(self) -> bool:
        """Return whether the job would end when it is worth nothing any more, as amounts are shown. A first piece of
        several says nothing of that."""
        parts = self.course is not None and self.course.pieces > 1
        return self.admitted and not parts and (self.worth <= 0 or shown(self.worth) == shown(0))

    @property
    def summary(self) -> str:
        """Return the quote of the lane in one sentence, without its full stop."""
        if self.by_use is not None:
            now = (
                f"Would run in the next slot, for {shown(self.price)} credits"
                if self.admitted
                else "Would wait for now"
            )
            why = f". {self.reason.removesuffix('.')}" if self.reason else ""
            return f"{now}{why}. A slot costs {shown(self.by_use.per_slot)} credits at its largest size"
        if not self.admitted:
            return f"{self.lane.capitalize()}: would be refused. {self.reason.removesuffix('.')}"
        nothing = ", but worth nothing when it ends" if self.worth_nothing else ""
        return f"{self.lane.capitalize()}: would be admitted, about {shown(self.price, self.digits)} credits{nothing}"

    @property
    def gain(self) -> int | None:
        """Return how much more it is than at home; None where there is nothing to compare with, or it is the same."""
        return None if self.home_worth is None or self.at_home else self.surplus - self.home_worth


@dataclass(frozen=True)
class MeasuredCard:
    """Times that an earlier run of the same program and model took. `fill` is the form's fields, as JSON."""

    minibatch_seconds: float
    form_seconds: float | None  # what the form says
    job_id: int
    at: datetime
    fill: str


@dataclass(frozen=True)
class QuoteCard:
    """The whole quote. `refused` says that the job could not be submitted at all; then no lane was asked."""

    at: datetime
    closes_at: datetime
    lanes: tuple[LaneCard, ...] = ()
    refused: Refused | None = None
    picture: ValuePicture | None = None
    record: Record | None = None
    courses: CourseRecord | None = None  # where a lane has a likely course
    measured: MeasuredCard | None = None

    @property
    def summary(self) -> str:
        """Return one polite sentence for people who use a screen reader."""
        return ". ".join(lane.summary for lane in self.lanes)


def quote_card(
    *,
    pool: Pool,
    name: str,
    spec: Spec,
    lane: str,
    otherwise: str | None,
    by: Access,
    own_id: int,
    at: datetime,
    read: SpecRead | None = None,
    worth_from: datetime | None = None,
    worth_said: int | None = None,
) -> QuoteCard:
    """Return a quote of every lane that the pool has, and of the chosen one even if the pool has it not. `read` is the
    specification as it was just checked for the batch lane. The worth counts from `worth_from` at the latest.
    `worth_said` is what its submitter said of an end by the moment that they named, in micro-credits."""
    closing, wish = closes(pool, at, None if read is None else read.rows.frontier), (lane, otherwise)
    closes_at = datetime.fromisoformat(closing["closes_at"])
    if (refused := lanes_refused(lane, otherwise)) is not None:
        return QuoteCard(at, closes_at, refused=refused)
    lanes = [each for each in Lane.values if each != Lane.INSTANT or pool.instant_policy is not None or each in wish]
    question: dict[str, Any] = {"pool": pool, "name": name, "spec": spec, "by": by, "at": at}
    question["worth_from"] = worth_from
    specs = {Lane.BATCH.value: read}
    quotes = {each: job_quote(lane=each, read=specs.get(each), **question) for each in lanes}
    refusals = {each: quote for each, quote in quotes.items() if isinstance(quote, Refused)}
    if len(refusals) == len(quotes):
        return QuoteCard(at, closes_at, refused=refusals[otherwise or lane])
    cards, ends = [], {}
    for each, quote in quotes.items():
        if isinstance(quote, Refused):
            cards.append(LaneCard(each, each in wish, admitted=False, reason=quote.sentence, tried=False))
            continue
        cards.append(_lane(pool, quote, spec, is_chosen=each in wish, own_id=own_id, worth_said=worth_said))
        if quote.terms.admitted and quote.terms.end is not None:
            more = quote.by_use.slots - 1 if quote.by_use else 0  # the terms are for the first slot alone
            ends[each] = quote.terms.end + more - arrival_of(pool, at)
    picture = value_picture(spec["value"], ends)
    courses = courses_record(pool) if any(card.course and card.course.pieces > 1 for card in cards) else None
    return QuoteCard(at, closes_at, tuple(cards), None, picture, estimates_record(pool), courses, _measured(spec))


def _measured(spec: Spec) -> MeasuredCard | None:
    measurement = offer(spec)
    if measurement is None:
        return None
    fill = json.dumps({name: plain(value) for name, value in measurement.times.items()})
    form_seconds = spec.get("minibatch_seconds")
    seconds = float(measurement.times["minibatch_seconds"])
    return MeasuredCard(seconds, form_seconds, measurement.measured.job_id, measurement.measured.at, fill)


def _lane(pool: Pool, quote: Quote, spec: Spec, *, is_chosen: bool, own_id: int, worth_said: int | None) -> LaneCard:
    terms, estimate = quote.terms, quote.estimate
    home, why = terms.home, reason_in_words(pool, terms.reason.code, terms.reason.numbers) if terms.reason else None
    return LaneCard(
        lane=quote.lane,
        is_chosen=is_chosen,
        admitted=terms.admitted,
        reason=why.sentence if why else "",
        help=why.help if why else "",
        at_home=terms.phase == "own",
        workers=terms.workers,
        starts_at=_time(pool, terms.start),
        ends_at=_time(pool, terms.end),
        earliest_at=_time(pool, estimate.earliest if estimate else None),
        latest_at=_time(pool, estimate.latest if estimate else None),
        price=terms.price,
        own_part=terms.own_part,
        price_high=max(estimate.price_high, terms.price) if estimate else None,
        worth=micro(terms.worth),
        worth_said=worth_said,
        home_worth=None if home is None else micro(home.value),
        home_starts_at=_time(pool, home.start if home else None),
        home_ends_at=_time(pool, home.end if home else None),
        payees=payees(own_id, terms.payees or {}),
        course=terms.course,
        course_ends_at=_time(pool, terms.course.end) if terms.course else None,
        change=_change(pool, quote.change, spec) if quote.change else None,
        by_use=quote.by_use,
        restarts=quote.restarts,
    )


def _change(pool: Pool, change: Change, spec: Spec) -> ChangeCard:
    before, after = rounded(change.before, 2), enough(micro_up(change.after))
    words = {
        "later": f"Wait until {slot_clock(pool, round(change.after))}",
        "more_workers": f"Allow up to {change.after:.0f} worker{'' if change.after == 1 else 's'}",
        "fewer_epochs": f"Train at most {change.after:.0f} epoch{'' if change.after == 1 else 's'}",
        "fewer_workers": f"Allow at most {change.after:.0f} worker{'' if change.after == 1 else 's'}",
        "higher_value": f"If it were worth {after} instead of {before}",
        "more_budget": f"Have {after} credits to spend instead of {before}",
        "higher_max_price": f"Pay up to {after} instead of {before}",
    }.get(change.what, change.what.replace("_", " ").capitalize())
    fields = dict(change.fields)
    if "value" in fields:
        fields |= value_fields(fields.pop("value"))
    if "max_workers" in fields and fields["max_workers"] < int(spec.get("min_workers", 1)):
        fields["min_workers"] = fields["max_workers"]
    fill = json.dumps({name: plain(value) for name, value in fields.items()}) if fields else ""
    return ChangeCard(words, change.terms.price if change.terms else None, _then(pool, change.terms), fill)


def _then(pool: Pool, terms: QuotedTerms | None) -> str:
    if terms is None:
        return "Then there would be enough to pay for it."
    if terms.start is None or terms.end is None:
        return "Then it would be admitted."
    where = "at home" if terms.phase == "own" else "on rented units"
    span = f"{slot_clock(pool, terms.start)} to {slot_clock(pool, terms.end)}"
    rest = shown(micro(terms.worth) - terms.net)
    return (
        f"Then it runs {where}, {span}, with {terms.workers} worker{'s' * (terms.workers != 1)}, and leaves you {rest}."
    )


def _time(pool: Pool, slot: int | None) -> datetime | None:
    return None if slot is None else pool.slot_start(slot)

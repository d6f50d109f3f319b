"""Writing the audit bundle of a period: everything that is needed to recompute it, and the program that does so."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any

from django.db.models import Max, Min, Q, QuerySet

from scheduling.audit.bundle import check, signature
from scheduling.audit.feed_seals import EventRow, events_beside, events_told, seal_place
from scheduling.common import one_moment
from scheduling.core import records
from scheduling.feed import EventKind, job_subject
from scheduling.market.decide import START, answer_contents, answer_place, submission_document
from scheduling.market.reads import contents_of, unpacked
from scheduling.models import (
    AnswerFrame,
    Award,
    FeedSeal,
    InstantAnswer,
    Interval,
    Lane,
    LaneClock,
    Pool,
    RentState,
    StartEstimate,
    TrainingJob,
)
from tenants.access import Refused
from tenants.common.zones import EARLIEST, LATEST, is_within_reach
from tenants.ledger.amounts import DIGITS
from tenants.ledger.export import awards_between, balances_at, transactions_between
from tenants.ledger.selectors import transactions_about_all
from tenants.scoping import scope_disabled

NO_PERIOD = Refused("no_period", "The period ends before it begins.")
OUT_OF_REACH = Refused("invalid_period", f"A period begins on {EARLIEST} or later, and ends before {LATEST}.")
ARCHIVED = Refused("archived", "Intervals of the period lie in archives, which are bundles already: take those.")
AWARDS_AT_ONCE = 500
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the date of every file in a bundle, so that the same period gives the same bundle

README = """An audit bundle of the pool {pool}, for what happened from {start} to {end}.

intervals.jsonl     every decision of the period: its whole input, its answer, its digest and the one it follows
answers.jsonl       every answer of the instant lane, in the same way; frames.jsonl has the pool as answers found it
awards.jsonl        what these decisions gave, and every award about which the book says something in the period.
                    `later` is what was still set aside for slots that may be over: the next bundle has what came of it
events.jsonl        what the feed told of the pool in the period; seals.jsonl has the seals that closed over them, and
                    `beside` of an event of an older version is what its seal closes over as well
submissions.jsonl   every job that was submitted in the period, as it was submitted
transactions.jsonl  the whole book of the period (all pools): amounts are micro-credits, lines are [account, amount]
balances.json       every account after the period
manifest.json       the period, and `open` where the market had not finished it; how many digits a credit has, in the
                    last of which amounts are counted; every account before it; where each chain begins and ends in
                    it; SHA-256 of each file.
                    signature.json signs all of this with Ed25519
check.py            checks all of this: python3 check.py BUNDLE.zip --key PUBLIC_KEY

Accounts: 1 is the operator, 2 the outside; a tenant's are 8 times its number, + 0 available, + 1 held, + 2 earned.
Take check.py from a place that you trust, and read it: it is one file. The public key is {key}
"""


@dataclass(frozen=True)
class Bundle:
    intervals: int
    answers: int
    awards: int
    events: int
    transactions: int
    public_key: str
    is_open: bool  # the market has not finished the period: see `period_is_open`


OPEN = "The market has not finished this period: write the bundle again once it has, for the next one to follow it."


def period_is_open(pool: Pool, end: datetime) -> bool:
    """Return whether the clock of the market has not passed the end of a period. What comes until then, and what a late
    clock makes up for, belongs to the period and is in no bundle that is written before."""
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first()
    return clock is not None and pool.slot_start(clock.settled_slot + 1) < end


def bundle_write(*, pool: Pool, start: datetime, end: datetime, seed: bytes, file: IO[bytes]) -> Bundle | Refused:
    """Write the bundle of the period [start, end), by the time that decisions and money are about. All of it is read as
    of one moment of the database."""
    if end <= start:
        return NO_PERIOD
    if refusal := reach_refusal(start, end):
        return refusal
    with scope_disabled("an audit looks at everybody's awards and payments"), one_moment():
        if _of_period(pool, start, end).filter(view=b"", plan=b"").exists():
            return ARCHIVED
        return _write(pool, start, end, seed, file)


def reach_refusal(start: datetime, end: datetime) -> Refused | None:
    """Refuse a period near the ends of the calendar, where no time could be added to a moment."""
    return None if is_within_reach(start.date()) and is_within_reach(end.date()) else OUT_OF_REACH


def _of_period(pool: Pool, start: datetime, end: datetime) -> QuerySet[Interval]:
    rows = Interval.objects.filter(pool=pool, decided_at__gte=start, decided_at__lt=end)
    return rows.order_by("number").prefetch_related("base")


def _write(pool: Pool, start: datetime, end: datetime, seed: bytes, file: IO[bytes]) -> Bundle:
    public = signature.public_key(seed).hex()
    with zipfile.ZipFile(file, "w") as bundle:
        writer = _Writer(bundle)
        intervals = _of_period(pool, start, end)
        readme = README.format(pool=pool.slug, start=start.isoformat(), end=end.isoformat(), key=public)
        writer.file("README.txt", [readme.encode()])
        count = writer.rows("intervals.jsonl", (_interval(row) for row in intervals.iterator(chunk_size=20)))
        answers = _answers(pool, start, end)
        frames = AnswerFrame.objects.filter(pk__in=answers.order_by().values("frame")).order_by("pk")
        writer.rows("frames.jsonl", (_frame(row) for row in frames.iterator(chunk_size=20)))
        answered = writer.rows("answers.jsonl", (_answer(row) for row in answers.iterator(chunk_size=200)))
        awards = writer.rows("awards.jsonl", _awards(pool, start, end, answers))
        feed = events_told(pool.pk, start, end)
        seals = _seals(feed)
        writer.rows("seals.jsonl", (_seal(row) for row in seals.iterator(chunk_size=5)))
        events = writer.rows("events.jsonl", _events(feed))
        writer.rows("submissions.jsonl", _submissions(feed))
        transactions = writer.rows("transactions.jsonl", transactions_between(start=start, end=end))
        writer.file("balances.json", [_line({"closing": balances_at(moment=end)})])
        writer.file("check.py", [Path(check.__file__).read_bytes()])
        period = {"start": start.astimezone(UTC).isoformat(), "end": end.astimezone(UTC).isoformat()}
        chains = {
            "chain": {"pool": pool.pk, **_ends(intervals, "interval")},
            "answers": {"pool": pool.pk, **_ends(answers, "answer")},
            "feed": _ends(seals, "seal"),
        }
        opening = {"period": period, **chains, "opening": balances_at(moment=start)}
        is_open = period_is_open(pool, end)
        stated = {"format": check.FORMAT, "digits": DIGITS, **opening, "files": dict(writer.digests)}
        stated |= {"open": True} if is_open else {}  # so that a period that is over always gives the same bundle
        manifest = _line(stated)
        writer.file("manifest.json", [manifest])
        signed = {"public_key": public, "signature": signature.sign(seed, manifest).hex()}
        writer.file("signature.json", [_line(signed)])
    return Bundle(count, answered, awards, events, transactions, public, is_open)


class _Writer:
    """Writes files into the bundle, and keeps the digest of each."""

    def __init__(self, bundle: zipfile.ZipFile) -> None:
        self.bundle = bundle
        self.digests: dict[str, str] = {}

    def file(self, name: str, parts: Iterable[bytes]) -> int:
        digest, count = hashlib.sha256(), 0
        about = zipfile.ZipInfo(name, LONG_AGO)
        about.compress_type = zipfile.ZIP_DEFLATED
        with self.bundle.open(about, "w", force_zip64=True) as file:
            for part in parts:
                file.write(part)
                digest.update(part)
                count += 1
        self.digests[name] = digest.hexdigest()
        return count

    def rows(self, name: str, rows: Iterable[dict[str, Any]]) -> int:
        return self.file(name, (_line(row) for row in rows))


def _ends(rows: Any, what: str) -> dict[str, Any]:
    """Return where the period's rows begin and end in their chain. The digest before the first row is taken from
    here."""
    first, last = rows.first(), rows.last()
    return {
        f"first_{what}": first.number if first else 1,
        "previous_digest": first.previous if first else START,
        "last_digest": last.digest if last else START,
    }


def _interval(row: Interval) -> dict[str, Any]:
    contents = contents_of(row)
    return {
        "pool": row.pool_id,
        "number": row.number,
        "slot": row.slot,
        "decided_at": row.decided_at.astimezone(UTC).isoformat(timespec="microseconds"),
        "code_version": row.code_version,
        "previous": row.previous,
        "digest": row.digest,
        "policy": contents.policy.decode(),
        "view": contents.view.decode(),
        "plan": contents.plan.decode(),
        "windows": contents.windows.decode(),
        "heads": contents.heads.decode(),
    }


def _answers(pool: Pool, start: datetime, end: datetime) -> QuerySet[InstantAnswer]:
    """Return the answers from the first to the last of the period, in the order of the chain. An answer has the moment
    of its request, so one that waited for the lane may come in the chain a little after one with a later moment."""
    rows = InstantAnswer.objects.filter(pool=pool).order_by("number")
    first = rows.filter(at__gte=start).aggregate(number=Min("number"))["number"]
    last = rows.filter(at__lt=end).aggregate(number=Max("number"))["number"]
    return rows.none() if first is None or last is None else rows.filter(number__gte=first, number__lte=last)


def _frame(row: AnswerFrame) -> dict[str, Any]:
    return {"digest": row.pk, "content": unpacked(bytes(row.content)).decode()}


def _answer(row: InstantAnswer) -> dict[str, Any]:
    contents = answer_contents(row)
    return {
        **answer_place(row),
        "number": row.number,
        "previous": row.previous,
        "digest": row.digest,
        "input": contents.input.decode(),
        "plan": contents.plan.decode(),
    }


def _seals(events: Sequence[EventRow]) -> QuerySet[FeedSeal]:
    """Return the seals that closed over these events."""
    if not events:
        return FeedSeal.objects.none()
    before = FeedSeal.objects.filter(last_event_id__lt=events[0].id).aggregate(last=Max("number"))["last"] or 0
    closing = FeedSeal.objects.filter(last_event_id__gte=events[-1].id).aggregate(first=Min("number"))["first"]
    seals = FeedSeal.objects.filter(number__gt=before).order_by("number")
    return seals if closing is None else seals.filter(number__lte=closing)


def _seal(row: FeedSeal) -> dict[str, Any]:
    members = bytes(row.members).hex()
    return {**seal_place(row), "members": members, "previous": row.previous, "digest": row.digest}


def _events(events: Sequence[EventRow]) -> Iterator[dict[str, Any]]:
    """Return the events; those of older versions with what their seals also close over."""
    beside = events_beside(events)
    for row in events:
        more = {"beside": beside[row.id].decode().removeprefix("\n")} if row.id in beside else {}
        yield asdict(row) | more


def _submissions(events: Sequence[EventRow]) -> Iterator[dict[str, Any]]:
    """Return the submissions as canonical JSON, whose digest the event of each submission has, or, of an older version,
    has beside it."""
    lanes = {row.subject: json.loads(row.data) for row in events if row.kind == EventKind.JOB_SUBMITTED}
    lanes_by_job = {int(subject[4:]): str(data.get("lane")) for subject, data in lanes.items()}
    estimates = {row.job_id: row for row in StartEstimate.objects.filter(job__in=lanes_by_job).order_by("-pk")}
    for job in TrainingJob.objects.filter(pk__in=lanes_by_job).order_by("pk").iterator(chunk_size=1_000):
        document = submission_document(job, lane=lanes_by_job[job.pk], estimate=estimates.get(job.pk))
        yield {"job": job.pk, "submission": records.to_bytes(document).decode()}


def _awards(pool: Pool, start: datetime, end: datetime, answers: QuerySet[InstantAnswer]) -> Iterator[dict[str, Any]]:
    """Return the awards that were decided in the period, those that ran in it, and those of which the book says
    something in it: an open rent is paid for at its settlement, which may be long after it ran, and what is not
    delivered comes back before it would have run."""
    ran = Q(start__lte=pool.slot_at(end), end__gte=pool.slot_at(start))
    decided = Q(awarded_at__gte=start, awarded_at__lt=end) | Q(pk__in=answers.order_by().values("award"))
    booked = Q(pk__in=awards_between(start=start, end=end))
    rows = Award.objects.filter(ran | decided | booked, pool=pool).select_related("interval").order_by("pk")
    of_lane = InstantAnswer.objects.filter(pool=pool, award__in=rows.order_by().values("pk"))
    numbers = dict(of_lane.order_by().values_list("award", "number"))
    stored = rows.defer("interval__view", "interval__plan", "interval__windows").iterator(chunk_size=AWARDS_AT_ONCE)
    while some := list(islice(stored, AWARDS_AT_ONCE)):
        later = _later(some, end)
        for award in some:
            yield {
                "id": award.pk,
                "job": award.job_id,
                "tenant": award.tenant_id,
                "interval": award.interval.number if award.interval else None,
                "answer": numbers.get(award.pk),
                "start": award.start,
                "end": award.end,
                "paid": award.paid,
                "charges": award.charges,
                "adjusted": award.adjusted,
                "later": later.get(award.pk, 0),
            }


def _later(awards: Sequence[Award], end: datetime) -> dict[int, int]:
    """Map awards to what was set aside for them at the end of the period although their slots may have been over: a
    rent is settled later, and what a late clock did not deliver comes back at a moment after its slots."""
    rents = {award.pk for award in awards if award.rent != RentState.NONE}
    others = {award.pk for award in awards if award.returned or award.cut_at is not None}
    amounts = {award.pk: award.owed_after(-1) for award in awards if award.rent == RentState.OPEN}
    about = transactions_about_all(subjects={job_subject(a.job_id) for a in awards if a.pk in rents | others})
    for row in about:
        number = row.facts.get("award", 0)
        if row.at >= end and (number in rents or (number in others and row.kind != "settle")):
            held_for = sum(-amount for account, amount in row.entries if account.kind == "held")
            amounts[number] = amounts.get(number, 0) + held_for
    return amounts


def _line(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"

"""Following the instant lane's chain from answer to answer. Each is decided again from its bytes, and compared with the
rows that it left behind."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from scheduling.audit.verification.awards import terms_verify
from scheduling.audit.verification.findings import Finding, differences
from scheduling.audit.verification.replay import Replayed
from scheduling.core import records, settlement
from scheduling.core.calendar import counter_parts, on_real_servers
from scheduling.core.collector import collector_resting
from scheduling.core.types import Allocation, Booking, Plan, Reason
from scheduling.feed import EventKind, job_subject
from scheduling.market.calendar import CalendarUnit, amounts_in
from scheduling.market.decide import (
    AnswerContents,
    StoredQuestion,
    answer_contents,
    answer_link,
    code_version,
    given_up_sold,
    plan_of,
    question_of,
    submission_document,
    verdict,
)
from scheduling.market.reads import REPLAY_ERRORS, unpacked
from scheduling.market.view import OPERATOR_ID
from scheduling.models import AnswerFrame, Award, Event, InstantAnswer, Interval, Lane, Part, TrainingJob
from tenants.ledger.amounts import credits_of


@dataclass
class AnswerWalk:
    """The state of a walk along the chain: how far it was followed, and what was found."""

    pool_id: int
    number: int
    digest: str
    findings: list[Finding] = field(default_factory=list)
    answers: int = 0


@dataclass(frozen=True)
class AnswerRows:
    """The rows that answers left behind, and those that they refer to, by the rows' own keys."""

    frames: Mapping[str, bytes]  # uncompressed; empty where it can no longer be read
    jobs: Mapping[int, TrainingJob]
    awards: Mapping[int, Award]
    intervals: frozenset[str]  # digests of intervals


def answers_walk(walk: AnswerWalk, *, upto: int, most: int) -> bool:
    """Verify the next answers of the chain, at most `most`. Return False where there are no more up to number
    `upto`."""
    rest = InstantAnswer.objects.filter(pool=walk.pool_id, number__gt=walk.number, number__lte=upto)
    with collector_resting():
        answers = list(rest.order_by("number")[:most])
        rows = answer_rows(answers)
        for answer in answers:
            follows = {
                "its number": (answer.number, walk.number + 1),
                "what it follows": (answer.previous, walk.digest),
            }
            walk.findings += differences(name_of_answer(answer), follows)
            walk.findings += answer_verify(answer, rows)
            walk.number, walk.digest = answer.number, answer.digest
            walk.answers += 1
    return len(answers) == most


def answer_rows(answers: Sequence[InstantAnswer]) -> AnswerRows:
    heads = {answer.interval_head for answer in answers}
    frames = AnswerFrame.objects.filter(pk__in={answer.frame_id for answer in answers})
    pools = {answer.pool_id for answer in answers}
    return AnswerRows(
        {frame.pk: _content(frame) for frame in frames},
        TrainingJob.objects.in_bulk([answer.job_id for answer in answers]),
        {award.pk: award for award in Award.objects.filter(pk__in=[answer.award_id for answer in answers])},
        frozenset(Interval.objects.filter(pool__in=pools, digest__in=heads).values_list("digest", flat=True)),
    )


def _content(frame: AnswerFrame) -> bytes:
    try:
        return unpacked(bytes(frame.content))
    except zlib.error:
        return b""


def without_answer(awards: Sequence[Award]) -> list[Finding]:
    """Name the awards of the instant lane that no answer gave. An award from before answers had records is in an event
    that names no answer, and the feed's seals close over its terms."""
    ids = [award.pk for award in awards]
    recorded = set(InstantAnswer.objects.filter(award__in=ids).values_list("award_id", flat=True))
    rest = [award for award in awards if award.pk not in recorded]
    if not rest:
        return []
    events = Event.objects.filter(kind=EventKind.JOB_AWARDED, subject__in=[job_subject(award.job_id) for award in rest])
    events = events.filter(tenant__in={award.tenant_id for award in rest})
    awards_in_events = {data.get("award") for data in events.values_list("data", flat=True) if "answer" not in data}
    return [
        Finding(f"award {award.pk} of job {award.job_id}", "no answer gave it")
        for award in rest
        if award.pk not in awards_in_events
    ]


def name_of_answer(answer: InstantAnswer) -> str:
    return f"answer {answer.number} of pool {answer.pool_id}"


def answer_verify(answer: InstantAnswer, rows: AnswerRows) -> list[Finding]:
    """Verify one answer: its bytes, what it says when it is decided again, its job, and its award."""
    where = name_of_answer(answer)
    try:
        return _verified(answer, rows, where)
    except REPLAY_ERRORS as error:
        return [Finding(where, f"its bytes cannot be replayed ({type(error).__name__}: {error})")]


def _verified(answer: InstantAnswer, rows: AnswerRows, where: str) -> list[Finding]:
    contents, frame = answer_contents(answer), rows.frames.get(answer.frame_id, b"")
    findings = differences(where, {"the digest": (answer.digest, answer_link(answer, contents))})
    if hashlib.sha256(frame).hexdigest() != answer.frame_id:
        return [*findings, Finding(where, f"the pool as it found it (frame {answer.frame_id[:12]}) was changed")]
    if answer.interval_head and answer.interval_head not in rows.intervals:
        findings.append(Finding(where, "the interval that it names as the last is not in the chain"))
    question, plan = question_of(frame, contents.input), records.plan_from(contents.plan)
    findings += _decided_again(answer, question, plan, contents)
    job = rows.jobs.get(answer.job_id)
    if job is None:
        findings.append(Finding(where, f"job {answer.job_id}, which it is about, is gone"))
    else:
        findings += _submission_differs(job, question.submission)
    booking = plan.bookings[0] if plan.bookings and not plan.refusals else None
    award = rows.awards.get(answer.award_id or 0)
    if award is not None:
        findings += _award_verify(answer, award, question, booking)
    elif booking is not None or answer.award_id is not None:
        findings.append(Finding(where, f"job {answer.job_id} has no award"))
    return findings


def _decided_again(
    answer: InstantAnswer, question: StoredQuestion, plan: Plan, contents: AnswerContents
) -> list[Finding]:
    """Check that the same question has the same answer, byte for byte. For a booking that was taken back, the answer
    says by how much it was too dear when it was to be paid."""
    where, again = name_of_answer(answer), verdict(question.question)
    job = question.question.job.number
    findings = differences(where, {"the job in its question": (job, answer.job_id)})
    right = plan_of(job, None, again) if isinstance(again, Reason) else plan_of(job, again, _too_dear(again, plan))
    if records.plan_bytes(right) != contents.plan:
        code = "" if answer.code_version == code_version() else f"; it was decided by {answer.code_version}"
        findings.append(Finding(where, f"decided again, the answer to job {answer.job_id} is another{code}"))
    return findings


def _too_dear(booking: Booking, plan: Plan) -> Reason | None:
    """Return the refusal that follows such a booking where its price was no longer there, or no longer left under a
    budget, or None where none was written."""
    if not plan.refusals:
        return None
    price, reason = credits_of(settlement.micro(booking.paid)), plan.refusals[0].reason
    rest = reason.numbers.get("left")
    numbers = {"price": price, "left": rest if isinstance(rest, int | float) and rest < price else None}
    return Reason("over_budget", numbers) if reason.code == "over_budget" else Reason("low_balance", numbers)


def _submission_differs(job: TrainingJob, submission: Mapping[str, Any]) -> list[Finding]:
    """Check that the job's row says what was submitted."""
    row = json.loads(records.to_bytes(submission_document(job, lane=Lane.INSTANT)))
    pairs = {name: (value, submission.get(name)) for name, value in row.items()}
    return differences(f"job {job.pk} of pool {job.pool_id}", pairs)


def _award_verify(
    answer: InstantAnswer, award: Award, stored: StoredQuestion, booking: Booking | None
) -> list[Finding]:
    where = f"award {award.pk} of job {award.job_id}"
    if booking is None:
        return [Finding(where, f"{name_of_answer(answer)} refused the job")]
    question = stored.question
    cluster, view = question.cluster, question.view
    placed = on_real_servers(booking, len(cluster.servers))
    owner_ids = (*(int(tenant.name) for tenant in cluster.tenants), OPERATOR_ID)
    server_ids = tuple(int(name) for name in cluster.servers)
    replayed = Replayed(view, question.policy, Plan(bookings=(placed,)), owner_ids, server_ids)
    operator, _ = counter_parts(booking, len(server_ids))
    origin = {
        "job": (award.job_id, answer.job_id),
        "pool": (award.pool_id, answer.pool_id),
        "lane": (award.lane, str(Lane.INSTANT)),
        "interval": (award.interval_id, None),
        "attempt": (award.attempt, 0),
        "awarded_at": (award.awarded_at, answer.at),
        "rent": (award.rent, ""),  # an award of the instant lane is paid as it runs
    }
    findings = terms_verify(award, placed, replayed, on_operator=replayed.rows(operator)) + differences(where, origin)
    resold = [list(row) for row in _resold(stored, placed, operator)] or None
    return findings + differences(name_of_answer(answer), {"what it sold of given up units": (answer.resold, resold)})


def _resold(question: StoredQuestion, placed: Booking, operator: Sequence[Allocation]) -> list[tuple[int, float]]:
    """Return (given up units, amount sold of them) by the booking, which names real servers."""
    job, view, servers = question.question.job, question.question.view, len(question.question.cluster.servers)
    worker, ps = job.worker_types[placed.worker_type].demand, job.ps_types[placed.ps_type].demand
    whole, of_operator = ([astuple(row) for row in rows] for rows in (placed.allocation, operator))
    amounts = amounts_in(whole, of_operator, worker, ps, range(len(worker)), since=placed.start)
    offered = []
    for units, resale in zip(question.freed, view.resale, strict=True):
        part = Part.OPERATOR if resale.server < servers else Part.HOME
        place = CalendarUnit(resale.server % servers, resale.resource, part.value, resale.slot)
        offered.append((place, units, resale.share))
    return given_up_sold(placed.phase, question.submission["tenant"], amounts, offered)

"""Where a job is, and why: its newest award, and its reason with the numbers and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import BigIntegerField, Case, F, OuterRef, Q, Subquery, Sum, When
from django.db.models.functions import Coalesce

from scheduling.market.reads.now import is_late
from scheduling.models import Award, JobState, Pool, TrainingJob
from scheduling.reasons import Numbers, reason_help, reason_sentence, slot_clock, units_words

# Of awards whose jobs may have had others, and which do not say what those cost: `has_several` as a condition.
SEVERAL = Q(work_left=None) & (Q(work__isnull=False) | Q(attempt__gt=0))


@dataclass(frozen=True)
class ReasonInWords:
    """`code`: of `scheduling.reasons`, or the job's state where it has no reason. `help`: what would help; empty
    where nothing is to be done."""

    code: str
    numbers: Numbers
    sentence: str
    help: str = ""


@dataclass(frozen=True)
class JobView:
    """A job as its tenant sees it. Amounts in micro-credits; times are those of the award, if there is one. `price`:
    for all that it has been given, also before a loss, less what came back."""

    id: int
    name: str
    lane: str
    state: str
    phase: str
    payer: str
    price: int | None  # None: not decided yet
    reason: ReasonInWords
    starts_at: datetime | None
    ends_at: datetime | None
    workers: int


def job_explain(job: TrainingJob) -> JobView:
    """One job, with its last award. Needs the tenant's scope."""
    return jobs_explain(job.pool, [job])[0]


def paid_beside() -> Case:
    """Micro-credits, less what came back: of a job that may have had several awards, for it goes on in pieces or was
    lost before, the sum of its others; of any other what its award says itself. Costs nothing where every job has had
    one."""
    others = Award.objects.filter(job=OuterRef("job")).exclude(pk=OuterRef("pk")).order_by()
    total = others.values("job").annotate(total=Sum(F("paid") - F("returned"))).values("total")
    beside = Coalesce(Subquery(total), 0, output_field=BigIntegerField())
    return Case(When(SEVERAL, then=beside), default=F("paid_before"), output_field=BigIntegerField())


def has_several(award: Award) -> bool:
    """Whether its job may have had other awards, pieces or those before a loss."""
    return award.work_left is None and (award.work is not None or award.attempt > 0)


def jobs_explain(pool: Pool, jobs: Sequence[TrainingJob], at: datetime | None = None) -> list[JobView]:
    """All of one pool, with `tenant` at hand; one query for their awards. `at`: see `job_view`."""
    awards: dict[int, Award] = {}
    newest = Award.objects.filter(job__in=[job.pk for job in jobs]).order_by("job_id", "-attempt", "-start")
    for award in newest.distinct("job_id").annotate(beside=paid_beside()):
        award.paid_before, awards[award.job_id] = award.beside, award
    return [job_view(pool, job, awards.get(job.pk), at) for job in jobs]


def job_view(pool: Pool, job: TrainingJob, award: Award | None, at: datetime | None = None) -> JobView:
    """With `tenant` at hand, and the job's last award; asks the database nothing. `at`: the reader's moment, so that
    nothing that is over for the reader is told as to come; decisions may be late."""
    paid = None if award is None else award.paid_before + award.paid - award.returned
    if award is not None and award.attempt != job.attempt:
        paid, award = paid or None, None  # of an earlier attempt: the job waits anew, and has paid what was delivered
    in_parts = award is not None and (award.work_left is not None or award.work is not None)
    waits = job.state == JobState.QUEUED and in_parts  # between its slots, or its pieces
    return JobView(
        id=job.pk,
        name=job.name,
        lane=job.lane,
        state=job.state,
        phase=award.phase if award and not waits else "",
        payer=job.tenant.name,
        price=_price_of_nothing(job) if paid is None else paid,
        reason=_reason(pool, job, award, at),
        starts_at=pool.slot_start(award.start) if award and not waits else None,
        ends_at=pool.slot_start(award.end) if award and not waits else None,
        workers=award.workers if award and not waits else 0,
    )


def reason_in_words(pool: Pool, code: str, numbers: Numbers) -> ReasonInWords:
    return ReasonInWords(code, numbers, reason_sentence(pool, code, numbers), reason_help(code))


def _price_of_nothing(job: TrainingJob) -> int | None:
    return None if job.state == JobState.QUEUED else 0


def _reason(pool: Pool, job: TrainingJob, award: Award | None, at: datetime | None) -> ReasonInWords:
    if job.reason_code == "waiting_for_interval" and (late := _overdue(pool, job, at)):
        return ReasonInWords(job.reason_code, job.reason_numbers, late)
    if job.reason_code and not (award and award.work_left is not None and job.state == JobState.RUNNING):
        return reason_in_words(pool, job.reason_code, job.reason_numbers)
    if award is None:
        return ReasonInWords(job.state, {}, f"{job.get_state_display()}.")
    if award.work_left is not None:
        return _sized(pool, job, award)
    numbers = {"start": award.start, "end": award.end, "workers": award.workers, "paid": award.paid}
    where = {"own": "on your own cells", "shared": "on rented units"}.get(award.phase, "as booked")
    most = f"on {award.workers} worker{'s' * (award.workers != 1)} at most"
    if job.state == JobState.AWARDED and at is not None and is_late(pool.slot_start(award.start), at):
        sentence = f"Was to start {where} at {slot_clock(pool, award.start)}, {most}; the market is late."
        return ReasonInWords(job.state, numbers, sentence)
    if job.state == JobState.RUNNING and at is not None and is_late(pool.slot_start(award.end), at):
        sentence = f"Was to run {where} until {slot_clock(pool, award.end)}, {most}; the market is late."
        return ReasonInWords(job.state, numbers, sentence)
    verb, when = {
        JobState.AWARDED: ("Starts", f"at {slot_clock(pool, award.start)}"),
        JobState.RUNNING: ("Runs", f"until {slot_clock(pool, award.end)}"),
    }.get(JobState(job.state), ("Ran", f"until {slot_clock(pool, award.end)}"))
    return ReasonInWords(job.state, numbers, f"{verb} {where} {when}, {most}.")


def _overdue(pool: Pool, job: TrainingJob, at: datetime | None) -> str:
    """Of a job that waits for an interval which should have been decided by now; else empty."""
    slot = job.reason_numbers.get("slot", job.reason_numbers.get("closes_at"))
    if at is None or not isinstance(slot, int) or not is_late(pool.slot_start(slot), at):
        return ""
    return f"Waits for the interval that was to be decided at {slot_clock(pool, slot)}; the market is late."


def _sized(pool: Pool, job: TrainingJob, award: Award) -> ReasonInWords:
    """Of a job that is sized anew in every slot, by its newest one."""
    paid = award.paid_before + award.paid - award.returned
    numbers = {"slot": award.start, "workers": award.workers, "ps": award.ps, "paid": paid}
    units = units_words(award.workers, award.ps)
    if job.state == JobState.RUNNING and job.reason_code:
        why = reason_in_words(pool, job.reason_code, job.reason_numbers)
        sentence = f"Runs on {units}; its size is decided again at {slot_clock(pool, award.end)}. {why.sentence}"
        return replace(why, numbers={**numbers, **job.reason_numbers}, sentence=sentence)
    if job.state == JobState.RUNNING:
        sentence = f"Runs on {units}; its size is decided again at {slot_clock(pool, award.end)}."
    else:
        sentence = f"Ran until {slot_clock(pool, award.end)}, at last on {units}."
    return ReasonInWords(job.state, numbers, sentence)

"""Explain the state of a job: its newest award, and its reason with the numbers and in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import BigIntegerField, Case, F, OuterRef, Q, Subquery, Sum, When
from django.db.models.functions import Coalesce

from scheduling.core.types import Reason
from scheduling.market.reads.now import is_late
from scheduling.models import Award, JobState, Pool, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.reasons import Numbers, reason_help, reason_sentence, slot_clock, units_words
from tenants.templatetags.look import clock, lasting

# A condition for awards whose jobs may have had other awards, and which do not have the cost of those in their row. It
# is the same as `has_several`.
SEVERAL = Q(work_left=None) & (Q(work__isnull=False) | Q(attempt__gt=0))
# A condition for awards whose jobs have one for each slot, or for each piece. It is the same as `is_part`.
PART = Q(work_left__isnull=False) | Q(work__isnull=False)


@dataclass(frozen=True)
class ReasonInWords:
    """A reason for people. `code` is one of `scheduling.reasons`, or the job's state where it has no reason. `help`
    says what would help, and is empty where nothing needs to be done."""

    code: str
    numbers: Numbers
    sentence: str
    help: str = ""


@dataclass(frozen=True)
class JobView:
    """A job as its tenant sees it. Amounts are micro-credits; slots and times are those of the award, if there is one;
    what began slot by slot, or in pieces, started with the first of its awards. `price` is for everything that it was
    awarded, also before a loss, less what was returned."""

    id: int
    name: str
    lane: str
    state: str
    phase: str
    payer: str
    price: int | None  # None if it is not decided yet
    reason: ReasonInWords
    start: int | None
    end: int | None
    starts_at: datetime | None
    ends_at: datetime | None
    workers: int

    @property
    def alive(self) -> bool:
        return self.state in LIVE_STATES


def paid_beside() -> Case:
    """Return an expression for what a job paid beside this award, in micro-credits, less what was returned. For a job
    that may have had several awards, because it runs in pieces or was lost before, it is the sum of the others. For any
    other job it is the number in the award itself. It costs nothing where every job has had one award."""
    others = Award.objects.filter(job=OuterRef("job")).exclude(pk=OuterRef("pk")).order_by()
    total = others.values("job").annotate(total=Sum(F("paid") - F("returned"))).values("total")
    beside = Coalesce(Subquery(total), 0, output_field=BigIntegerField())
    return Case(When(SEVERAL, then=beside), default=F("paid_before"), output_field=BigIntegerField())


def first_slot() -> Case:
    """Return an expression for the slot in which the attempt of this award's job began. It costs nothing where an award
    is for the whole job."""
    others = Award.objects.filter(job=OuterRef("job"), attempt=OuterRef("attempt"))
    return Case(When(PART, then=Subquery(others.order_by("start").values("start")[:1])), default=F("start"))


def is_part(award: Award) -> bool:
    """Return whether the award is for one slot of its job, or for one piece."""
    return award.work_left is not None or award.work is not None


def has_several(award: Award) -> bool:
    """Return whether the award's job may have had other awards: pieces, or awards before a loss."""
    return award.work_left is None and (award.work is not None or award.attempt > 0)


def jobs_explain(pool: Pool, jobs: Sequence[TrainingJob], at: datetime | None = None) -> list[JobView]:
    """Explain jobs of one pool, each with its last award. Their `tenant` must be loaded. Takes one query, for the
    awards, and one more where some are for a slot or a piece. Needs the tenant's scope. For `at` see `job_view`."""
    awards: dict[int, Award] = {}
    newest = Award.objects.filter(job__in=[job.pk for job in jobs]).order_by("job_id", "-attempt", "-start")
    for award in newest.distinct("job_id").annotate(beside=paid_beside()):
        award.paid_before, awards[award.job_id] = award.beside, award
    begun_read(awards.values())
    return [job_view(pool, job, awards.get(job.pk), at) for job in jobs]


def begun_read(awards: Iterable[Award]) -> None:
    """Write into the awards with which slot their jobs began. Takes one query, and none where no award is a part."""
    parts = [award for award in awards if is_part(award)]
    if parts:
        rows = Award.objects.filter(pk__in=[award.pk for award in parts]).annotate(first=first_slot())
        begun = dict(rows.values_list("pk", "first"))
        for award in parts:
            award.begun = begun[award.pk]


def job_view(pool: Pool, job: TrainingJob, award: Award | None, at: datetime | None = None) -> JobView:
    """Explain a job from its row, whose `tenant` must be loaded, and its last award. Makes no query. `at` is the moment
    of reading: decisions may be late, and what is over for the reader must not be shown as still to come."""
    paid = None if award is None else award.paid_before + award.paid - award.returned
    if award is not None and award.attempt != job.attempt:
        # The award is of an earlier attempt: the job waits again, and has paid for what was delivered.
        paid, award = paid or None, None
    waits = job.state == JobState.QUEUED and award is not None and is_part(award)  # between its slots, or its pieces
    start, end = (_start(job, award), award.end) if award and not waits else (None, None)
    return JobView(
        id=job.pk,
        name=job.name,
        lane=job.lane,
        state=job.state,
        phase=award.phase if award and not waits else "",
        payer=job.tenant.name,
        price=_price_of_nothing(job) if paid is None else paid,
        reason=_reason(pool, job, award, at),
        start=start,
        end=end,
        starts_at=None if start is None else pool.slot_start(start),
        ends_at=None if end is None else pool.slot_start(end),
        workers=award.workers if award and not waits else 0,
    )


def _start(job: TrainingJob, award: Award) -> int:
    """Return the slot in which the job began; of one whose next piece is still to come, that piece's first slot."""
    return award.start if award.begun is None or job.state == JobState.AWARDED else award.begun


def reason_in_words(pool: Pool, code: str, numbers: Numbers) -> ReasonInWords:
    return ReasonInWords(code, _with_moment(pool, numbers), reason_sentence(pool, code, numbers), reason_help(code))


def reason_of_length(numbers: Numbers, longest: int | None, *, in_pieces: bool) -> Reason:
    """Return why a job waits that a plan calls larger than the window. The plan names the window that it dealt out; the
    owner is told the longest that there will be. One that may run in pieces waits for no window at all."""
    return Reason("no_piece" if in_pieces else "larger_than_window", {**numbers, "window_slots": longest})


def _with_moment(pool: Pool, numbers: Numbers) -> Numbers:
    """Return the numbers with a boundary as a submission writes it, by its slot and its moment: a policy knows no
    clock, and gives the slot in place of the moment."""
    slot = numbers.get("closes_at")
    if not isinstance(slot, int):
        return numbers
    return {**numbers, "slot": slot, "closes_at": pool.slot_start(slot).isoformat()}


def _price_of_nothing(job: TrainingJob) -> int | None:
    return None if job.state == JobState.QUEUED else 0


def _reason(pool: Pool, job: TrainingJob, award: Award | None, at: datetime | None) -> ReasonInWords:
    if job.reason_code == "waiting_for_interval" and (late := _overdue(pool, job, at)):
        return ReasonInWords(job.reason_code, _with_moment(pool, job.reason_numbers), late)
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
    if job.ended_at is not None and job.ended_at < pool.slot_start(award.end) and job.state not in LIVE_STATES:
        time = job.ended_at - pool.slot_start(award.start)  # a job in pieces began with another award
        lasted = "" if award.work is not None else f" {lasting(time.total_seconds())}"
        done = "done" if job.state == JobState.FINISHED else "ended"
        reserved = f"reserved until {slot_clock(pool, award.end)}, {most}"
        sentence = f"Ran{lasted} {where}, {done} at {clock(job.ended_at, 's')}; {reserved}."
        return ReasonInWords(job.state, numbers, sentence)
    verb, when = {
        JobState.AWARDED: ("Starts", f"at {slot_clock(pool, award.start)}"),
        JobState.RUNNING: ("Runs", f"until {slot_clock(pool, award.end)}"),
    }.get(JobState(job.state), ("Ran", f"until {slot_clock(pool, award.end)}"))
    return ReasonInWords(job.state, numbers, f"{verb} {where} {when}, {most}.")


def _overdue(pool: Pool, job: TrainingJob, at: datetime | None) -> str:
    """Return the sentence for a job that waits for an interval which should have been decided by now, else ""."""
    slot = job.reason_numbers.get("slot", job.reason_numbers.get("closes_at"))
    if at is None or not isinstance(slot, int) or not is_late(pool.slot_start(slot), at):
        return ""
    return f"Waits for the interval that was to be decided at {slot_clock(pool, slot)}; the market is late."


def _sized(pool: Pool, job: TrainingJob, award: Award) -> ReasonInWords:
    """Explain a job that is sized anew in every slot, by its newest award."""
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
        early = job.ended_at is not None and job.ended_at < pool.slot_start(award.end)
        until = clock(job.ended_at, "s") if early else slot_clock(pool, award.end)
        sentence = f"Ran until {until}, at last on {units}."
    return ReasonInWords(job.state, numbers, sentence)

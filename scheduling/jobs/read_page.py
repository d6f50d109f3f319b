"""Read one job for its page: where it is and why, the promise it was given, and what it costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from scheduling.jobs.read_arrays import ArraySums, array_sums
from scheduling.jobs.read_courses import CourseRecord, Guess, courses_record, guess_of
from scheduling.jobs.read_life import Happening, LifeStep, happenings, life
from scheduling.jobs.read_pieces import PiecesOfJob, award_of_pieces, pieces_among, pieces_of
from scheduling.jobs.read_queue import QueuePlace, queue_place
from scheduling.jobs.read_slots import SlotTable, slot_table, slot_tables
from scheduling.market.elastic import MOST_SLOTS, SoFar, award_of_slots, so_far
from scheduling.market.reads import JobView, NamedPayee, job_view, payees
from scheduling.market.view import floor_stands
from scheduling.models import Award, AwardState, JobFloor, JobState, Lane, Pool, Server, StartEstimate, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.programs.ordering import after_arrays, after_jobs
from tenants.ledger.amounts import adding_up, micro
from tenants.ledger.selectors import TransactionView, transactions_about

HEAVY = ("interval__policy", "interval__view", "interval__plan", "interval__windows")  # a megabyte, not needed here
MOST_OTHERS = 20
MOST_SERVERS = 4  # named in a sentence; the rest is counted


@dataclass(frozen=True)
class JobWorld:
    """One way in which the job could run, or does. Amounts are in micro-credits."""

    where: str
    starts_at: datetime
    ends_at: datetime
    start: int
    end: int
    worth: int
    pays: int
    own_part: int = 0  # the part of what it pays that comes back
    dividend: int = 0  # the part of what it pays that is a share of what renting gains it
    projected: bool = False  # whether each interval plans it anew, so that it may still change

    @property
    def net(self) -> int:
        """Return what it costs in the end."""
        return self.pays - self.own_part

    @property
    def surplus(self) -> int:
        return self.worth - self.net

    @property
    def terms(self) -> tuple[int, ...]:
        """Return amounts that a reader can add up to nothing."""
        return (self.worth, -self.pays, self.own_part, -self.surplus)


@dataclass(frozen=True)
class EstimateView:
    """What was estimated for a job, and how that held. Of a job that goes on in pieces, `paid` is what all of them
    cost, as far as they are bought: whether that was within the range is known once the job is over."""

    made_at: datetime
    earliest_at: datetime
    latest_at: datetime
    price_high: int
    price_low: int
    started_at: datetime | None
    paid: int | None
    start_held: bool | None  # None: not known yet
    price_held: bool | None
    so_far: bool = False  # more may follow


@dataclass(frozen=True)
class AttemptView:
    """An award of an earlier attempt, which the platform cut short."""

    number: int
    starts_at: datetime
    cut_at: datetime | None
    paid: int
    returned: int


@dataclass(frozen=True)
class JobPage:
    job: TrainingJob
    view: JobView
    award: Award | None
    alive: bool
    steps: tuple[LifeStep, ...]
    happenings: tuple[Happening, ...]
    home: JobWorld | None  # alone
    in_market: JobWorld | None  # as awarded
    slots: SlotTable | None
    payees: tuple[NamedPayee, ...]
    own_part: int  # the part of the gross price that would have been its own tenant's
    own_idle_worth: int  # instant lane: its worth on those cells of its tenant that were idle when it was answered
    estimate: EstimateView | None
    attempts: tuple[AttemptView, ...]
    postings: tuple[TransactionView, ...]
    asked_interval: int | None  # the number of the interval that gave it its place, or else its floor
    others: tuple[TrainingJob, ...]  # the first of the jobs that must have ended well before it
    other_arrays: tuple[ArraySums, ...]  # the first of the arrays all of whose jobs must have
    queue: QueuePlace | None  # while it waits for an interval
    by_use: SoFar | None  # in an elastic pool, once it has run: then `award` is all of its slots together
    pieces: PiecesOfJob | None  # of a job that goes on in pieces: then `award` is all of them together
    course: Guess | None  # what its first piece lets one guess, where nothing is planned at home
    course_ends_at: datetime | None
    courses: CourseRecord | None  # how such guesses held
    left_to_pay: int | None  # of the highest price of a job in pieces that goes on, for all that is to come

    @property
    def rented(self) -> bool:
        return self.award is not None and self.award.phase != "own"

    @property
    def gain(self) -> int | None:
        """Return what the market added to the promise; None where one of the two is missing, or the job ended before it
        had what it was given."""
        ended_early = self.job.state in (JobState.CANCELLED, JobState.FAILED, JobState.STOPPED)
        return self.in_market.surplus - self.home.surplus if self.in_market and self.home and not ended_early else None

    @property
    def digits(self) -> int:
        """Return with how many digits the sums of both worlds, and the difference between them, add up as they are
        shown."""
        sums = [world.terms for world in (self.home, self.in_market) if world]
        if self.home and self.in_market and self.gain is not None:
            sums.append((self.in_market.surplus, -self.home.surplus, -self.gain))
        if self.in_market:
            sums.append((self.in_market.pays, -self.in_market.own_part, -self.in_market.net))
        return adding_up(*sums)

    @property
    def paid_before(self) -> int:
        """Return what was paid for what was delivered before the platform cut the job short, where it was sold
        whole."""
        return sum(attempt.paid - attempt.returned for attempt in self.attempts)

    @property
    def paid_sum(self) -> int:
        return sum(payee.amount for payee in self.payees)

    @property
    def lead(self) -> str:
        """Return the template of the sentences that its page begins with."""
        state = JobState(self.job.state)
        if self.by_use:
            kind = "by_use"
        elif self.pieces and state in (JobState.AWARDED, JobState.RUNNING, JobState.FINISHED):
            kind = "pieces"
        elif self.award and state in (JobState.AWARDED, JobState.RUNNING, JobState.FINISHED):
            kind = state.value
        elif state == JobState.CANCELLED:
            kind = "cancelled"
        else:
            kind = "reason"
        return f"jobs/leads/{kind}.html"

    @property
    def is_refused(self) -> bool:
        """Return whether it never got anything, so that there is nothing to say of a price, a start or a promise."""
        never = JobState(self.job.state) in (JobState.REJECTED, JobState.EXPIRED)
        return never and self.award is None and self.by_use is None and not self.attempts

    @property
    def never_ran(self) -> bool:
        """Return whether it is over and no slot of it was ever run."""
        if self.alive or self.by_use or self.attempts:
            return False
        cut_at = self.award.cut_at if self.award else None
        if self.award is None or cut_at is None:
            return self.award is None
        return cut_at <= self.award.start and self.award.pays_from is None

    @property
    def may_wait(self) -> bool:
        return self.job.lane == "instant" and self.job.state == JobState.REJECTED


@dataclass(frozen=True)
class JobAwards:
    """What a job was awarded, as its page tells it: all at once, in pieces, or slot by slot in an elastic pool.

    `rows` are the awards that are told of one by one, oldest first: one for each attempt of a job that has it at once;
    of a job in an elastic pool a single one with all of its slots. `award` is what the present attempt has: all pieces
    together, or all slots.
    """

    rows: Sequence[Award] = ()
    award: Award | None = None
    newest: Award | None = None  # as stored, and with what those before it cost
    pieces: Sequence[Award] = ()
    by_use: SoFar | None = None  # in an elastic pool
    slots: SlotTable | None = None  # what the present attempt pays, slot by slot

    @property
    def allocation(self) -> list[Sequence[int]]:
        """Return the places of the newest attempt, or of all pieces."""
        return [place for award in self.pieces or self.rows[-1:] for place in award.allocation]

    @property
    def own_part(self) -> int:
        """Return the own part of the present attempt's gross price. A piece that was lost does not count, as its work
        is done again."""
        awards = self.pieces or ([self.award] if self.award else [])
        paid = [award for award in awards if award.paid and award.state != AwardState.VOID]
        return sum(max(micro(award.cost) - (award.paid - award.dividend), 0) for award in paid)


def job_page(job: TrainingJob, *, at: datetime, money: bool) -> JobPage:
    """Return the page of a job. Needs the tenant's scope, and the job with its pool, tenant and submitter. `money` adds
    the book's lines."""
    # 1. What it was awarded, and where it would run alone.
    pool, alive = job.pool, job.state in LIVE_STATES
    awards, floor = _job_awards(job, at), _floor(job)
    award, pieces, slots = awards.award, awards.pieces, awards.slots
    names = _server_names([*awards.allocation, *(floor.allocation if floor else [])])
    home = _home(pool, floor, names)
    # 2. What happened to it, and how it may go on: a guess where its end is not planned.
    events_of_job = happenings(pool, job.tenant_id, job.pk)
    course = guess_of(pool, job, pieces) if pieces and alive and home is None else None
    return JobPage(
        job=job,
        view=job_view(pool, job, awards.newest, at),
        award=award,
        alive=alive,
        steps=life(job, award, floor, events_of_job, at, first_piece=pieces[0] if pieces else None),
        happenings=events_of_job,
        home=home,
        in_market=_in_market(pool, award, slots, names),
        slots=slots,
        payees=payees(job.tenant_id, slots.by_owner, slots.settled_by_owner) if slots else (),
        own_part=awards.own_part,
        own_idle_worth=micro(award.floor) if award and job.lane == Lane.INSTANT else 0,
        estimate=_estimate(pool, job, pieces),
        attempts=_attempts(pool, [each for each in awards.rows if each.attempt != job.attempt and each.work is None]),
        postings=transactions_about(subject=f"job:{job.pk}") if money else (),
        asked_interval=None if pool.is_elastic else _asked_interval(award, floor),
        others=_others(job),
        other_arrays=tuple(array_sums(after_arrays(job.after)[:MOST_OTHERS]).values()),
        queue=queue_place(job, at=at),
        by_use=awards.by_use,
        pieces=pieces_of(pool, job, pieces, {each.pk: where(each.allocation, names) for each in pieces}),
        course=course,
        course_ends_at=None if course is None else pool.slot_start(course.end),
        courses=None if course is None else courses_record(pool),
        left_to_pay=_left_to_pay(job, awards.rows) if pieces and alive else None,
    )


def _job_awards(job: TrainingJob, at: datetime) -> JobAwards:
    """Read what a job was awarded. Of a job in an elastic pool only its newest slots are read."""
    newest_first = Award.objects.filter(job=job).select_related("interval").defer(*HEAVY).order_by("-attempt", "-start")
    rows = list(newest_first[:MOST_SLOTS])[::-1]
    if not rows:
        return JobAwards()
    if job.pool.is_elastic:
        return _slot_by_slot(job, rows, at)
    newest = rows[-1]
    newest.paid_before = sum(each.paid - each.returned for each in rows[:-1])
    if pieces := pieces_among(job, rows):
        slots = slot_tables([slot_table(job.pool, each, at) for each in pieces if each.paid])
        return JobAwards(rows, award_of_pieces(pieces), newest, pieces, slots=slots)
    award = next((each for each in rows if each.attempt == job.attempt), None)
    slots = slot_table(job.pool, award, at) if award and award.paid else None
    return JobAwards(rows, award, newest, slots=slots)


def _slot_by_slot(job: TrainingJob, rows: Sequence[Award], at: datetime) -> JobAwards:
    """Return the awards of a job in an elastic pool, where it has one for each slot, told as one."""
    by_use, together = so_far(job.pool, rows), award_of_slots(rows)
    award = together if together.attempt == job.attempt else None
    slots = None
    if award and award.paid:
        gross = {each.start: micro(each.cost) for each in rows if each.state != AwardState.VOID}
        # Slots that were not delivered are not listed; what was set aside for them came back.
        lost = sum(each.returned for each in rows if each.state == AwardState.VOID)
        slots = slot_table(job.pool, award, at, gross=gross)
        slots = replace(slots, paid=slots.paid + lost, returned=slots.returned + lost)
    return JobAwards([together], award, by_use.newest, by_use=by_use, slots=slots)


def _left_to_pay(job: TrainingJob, awards: Sequence[Award]) -> int | None:
    """Return what is left of the job's highest price after all that it has paid, also for what the platform lost; None
    without such a price. A piece that costs more is not bought."""
    most = job.spec.get("max_price")
    if most is None:
        return None
    return max(0, micro(most) - sum(award.paid - award.returned for award in awards))


def _others(job: TrainingJob) -> tuple[TrainingJob, ...]:
    named = after_jobs(job.after)[:MOST_OTHERS]
    return tuple(TrainingJob.objects.filter(pk__in=named).only("name", "state").order_by("pk")) if named else ()


def _floor(job: TrainingJob) -> JobFloor | None:
    """Return the floor of the job's present attempt, if it was given one. While the job waits for it, it has to stand:
    of a place that was lost nothing may be promised."""
    floors = JobFloor.objects.filter(job=job, attempt=job.attempt).select_related("interval").defer(*HEAVY)
    floor = floors.order_by("-interval").first()
    return None if floor and job.state == JobState.QUEUED and not floor_stands(floor) else floor


def _asked_interval(award: Award | None, floor: JobFloor | None) -> int | None:
    interval = award.interval if award else floor.interval if floor else None
    return None if interval is None else interval.number


def _home(pool: Pool, floor: JobFloor | None, names: Mapping[int, str]) -> JobWorld | None:
    """Return how the job would run alone. Return None also where no schedule at home was worth anything, as then there
    is nothing to compare with."""
    if floor is None or floor.end <= floor.start:
        return None
    workers = where(floor.allocation, names)
    span = (pool.slot_start(floor.start), pool.slot_start(floor.end), floor.start, floor.end)
    return JobWorld(workers, *span, micro(floor.value), 0, projected=floor.draft)


def _in_market(pool: Pool, award: Award | None, slots: SlotTable | None, names: Mapping[int, str]) -> JobWorld | None:
    """Return how the job runs as awarded. What came back is not paid, and no owner has a part of it. The owners' share
    of the gain comes back with the price, in the same proportion (as statements have it)."""
    if award is None:
        return None
    span = (pool.slot_start(award.start), pool.slot_start(award.end), award.start, award.end)
    pays = award.paid - award.returned
    own_part = slots.by_owner.get(award.tenant_id, 0) if slots else 0
    dividend = award.dividend * pays // award.paid if award.paid else 0
    return JobWorld(where(award.allocation, names), *span, micro(award.value), pays, own_part, dividend)


def _server_names(rows: Iterable[Sequence[int]]) -> dict[int, str]:
    return dict(Server.objects.filter(pk__in={row[0] for row in rows}).values_list("pk", "name"))


def where(allocation: Sequence[Sequence[int]], names: Mapping[int, str]) -> str:
    """Return the most workers at once on each server, such as "4 on s02, 2 on s03". Where slots differ in their
    servers, as the instant lane's do, return "6 at a time, moving between s02, s03 and s04"."""
    most: defaultdict[int, int] = defaultdict(int)
    for server, _, _, workers, _ in allocation:
        most[server] = max(most[server], workers)
    starts = {row[1] for row in allocation}
    at_once = max((sum(row[3] for row in allocation if row[1] <= start < row[2]) for start in starts), default=0)
    if sum(most.values()) > at_once:
        return f"{at_once} at a time, moving between " + _list_text(
            [names.get(server, "?") for server in most if most[server]]
        )
    return _list_text([f"{workers} on {names.get(server, '?')}" for server, workers in most.items() if workers])


def _list_text(parts: Sequence[str]) -> str:
    rest = f" and {len(parts) - MOST_SERVERS} more" if len(parts) > MOST_SERVERS else ""
    return ", ".join(parts[:MOST_SERVERS]) + rest


def _estimate(pool: Pool, job: TrainingJob, pieces: Sequence[Award]) -> EstimateView | None:
    """Return the job's newest estimate and how it held. `pieces` are those of a job that goes on in pieces."""
    estimate = StartEstimate.objects.filter(job=job).order_by("-pk").first()
    if estimate is None:
        return None
    begun, priced = estimate.started is not None, estimate.price_high > 0  # without a posted price none was estimated
    paid = sum(piece.paid - piece.returned for piece in pieces) if pieces else estimate.paid
    so_far = bool(pieces) and job.state in LIVE_STATES
    return EstimateView(
        made_at=estimate.made_at,
        earliest_at=pool.slot_start(estimate.earliest),
        latest_at=pool.slot_start(estimate.latest),
        price_high=estimate.price_high,
        price_low=estimate.price_low,
        started_at=pool.slot_start(estimate.started) if estimate.started is not None else None,
        paid=paid,
        start_held=estimate.earliest <= (estimate.started or 0) <= estimate.latest if begun else None,
        price_held=estimate.price_low <= paid <= estimate.price_high
        if paid is not None and priced and not so_far
        else None,
        so_far=so_far,
    )


def _attempts(pool: Pool, awards: Sequence[Award]) -> tuple[AttemptView, ...]:
    return tuple(
        AttemptView(
            number=award.attempt + 1,
            starts_at=pool.slot_start(award.start),
            cut_at=pool.slot_start(award.cut_at) if award.cut_at is not None else None,
            paid=award.paid,
            returned=award.returned,
        )
        for award in awards
    )

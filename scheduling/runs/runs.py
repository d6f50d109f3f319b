"""Run awards on an engine: start the gangs of awards that begin, change and follow them, and note each end once.

One engine process calls `runs_tick` each second and whenever an award moved. Every call reads from the rows what is to
be done, so a call that is late, repeated or cut short by a crash does no harm.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q

from scheduling.catalogue import secrets_opened
from scheduling.core.scenario import BadScenario
from scheduling.engines.base import ENDED, FAILED, LOST, RUNNING, STOPPING, UNKNOWN, Engine, Fault, Gang, Handle, Status
from scheduling.feed import EventKind, events_append, job_event, tenant_tell
from scheduling.market.decide import program_kept, program_of
from scheduling.models import ALIVE, PROGRAM, Award, JobState, Pool, Run, RunState, Server
from scheduling.models.runs import OPEN
from scheduling.programs.catalogue import NONE
from scheduling.programs.stored import stored_program
from scheduling.runs.ends import run_end
from scheduling.runs.plans import amounts, decided_within, ends_at, gang_fault, generations, is_all_reduce, own_program
from scheduling.runs.reports import reports_hear
from scheduling.runs.slots import next_slot, still_open
from tenants.scoping import scope_disabled

LOOKED = timedelta(seconds=4)  # how often a run's row notes that its engine has seen it
log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True)
class Ticked:
    """How many runs began and ended in one call. `late` has, for each gang that was seen running for the first time,
    the seconds between the moment when it could begin and its start. `ends` has state and detail of each run that
    ended."""

    started: int
    ended: int
    late: tuple[float, ...] = ()
    ends: tuple[tuple[str, str], ...] = ()


def runs_tick(*, engine: Engine, at: datetime) -> Ticked:
    """Bring the engine in line with the awards, and the rows in line with what the engine did. The engine is asked once
    about all gangs that run, and gets all that begin in one submission."""
    engine.touch()
    with scope_disabled("an engine carries out awards of all tenants"):
        runs = list(_open_runs(engine))
        # The engine or the database died while these were started. Submitted again, each is the same gang.
        cut_off = [run for run in runs if not run.reference and run.award.state in ALIVE]
        failures = _submit(engine, cut_off, at)
        runs = [run for run in runs if run.pk not in failures]
        statuses = engine.observe([handle_of(run) for run in runs])
        late = tuple(_late(run, statuses[run.key]) for run in runs if _begins(run, statuses[run.key]))
        before = {run.pk: run.progress for run in runs}
        over = failures | {run.pk for run in runs if _has_ended(engine, run, statuses[run.key], at)}
        for done in reports_hear([run for run in runs if _reports(run, before[run.pk], over)], at=at):
            engine.stop(handle_of(done))
        opened = [run for award in list(awards_due(engine, at)) if (run := _open(engine, award, at))]
        refused = _submit(engine, opened, at)
        rows = Run.objects.filter(pk__in=over | refused) if over or refused else Run.objects.none()
        ends = tuple(rows.order_by("pk").values_list("state", "detail"))
    return Ticked(len(opened) - len(refused), len(over), late, ends)


def runs_reconcile(*, engine: Engine, at: datetime) -> None:
    """After a restart, take over the gangs that still run and end those that no row knows."""
    engine.touch()
    with scope_disabled("an engine looks for gangs of all tenants"):
        for run in _open_runs(engine):
            if not run.reference and (reference := engine.find(home(run), run.key)):
                Run.objects.filter(pk=run.pk).update(reference=dict(reference.reference))
        engine.reconcile([handle_of(run) for run in _open_runs(engine)])


def runs_note_ends(*, engine: Engine, at: datetime) -> None:
    """Note how gangs ended when the market stops, while the database still runs."""
    with scope_disabled("gangs of all tenants have ended"):
        runs = {run.key: run for run in _open_runs(engine)}
        for key, status in engine.observe([handle_of(run) for run in runs.values()]).items():
            if status.state == ENDED:
                run_end(run=runs[key], status=status, at=at)


def next_start(*, at: datetime) -> datetime | None:
    """Return when the next award with a program begins, in any pool; None if there is none."""
    with scope_disabled("an engine waits for awards of all tenants"):
        moments = [
            pool.slot_start(slot)
            for pool in Pool.objects.all()
            for slot in Award.objects.filter(
                pool=pool, state__in=ALIVE, start__gt=pool.slot_at(at), job__spec__has_key=PROGRAM
            )
            .order_by("start")
            .values_list("start", flat=True)[:1]
        ]
    return min(moments, default=None)


def awards_due(engine: Engine, at: datetime) -> Iterator[Award]:
    """Yield awards with a program that run now, or will in a moment, and have no run except paused ones, of jobs that
    are not over and of which no other gang is left: it may still be saving, or be on its way out after a loss."""
    begun = Run.objects.filter(award=OuterRef("pk")).exclude(state=RunState.PAUSED)
    lead = timedelta(seconds=engine.timings.lead)
    goes_on = Run.objects.filter(job=OuterRef("job"), state__in=OPEN)
    for pool in Pool.objects.filter(engine=engine.name):
        alive = Award.objects.filter(
            pool=pool, state__in=ALIVE, start__lte=pool.slot_at(at + lead), end__gt=pool.slot_at(at)
        )
        # A job that is over may have an award that is paid to its end. Nothing is started for it any more.
        wanted = alive.filter(job__spec__has_key=PROGRAM, job__state__in=(JobState.AWARDED, JobState.RUNNING))
        runs_of_it = begun.exclude(_too_late(pool, at)) if pool.is_elastic else begun
        due = wanted.exclude(Exists(runs_of_it)).exclude(Exists(goes_on)).select_related("job", "pool")
        for award in due.order_by("start", "pk"):
            if award.used_until > max(pool.slot_at(at), award.start - 1):
                yield award


def _too_late(pool: Pool, at: datetime) -> Q:
    """Return a filter of runs that were carried into the current slot but ended because its decision came too late.
    Their award gets another run."""
    return Q(state=RunState.STOPPED, ended_at__lt=pool.slot_start(pool.slot_at(at)) + decided_within(pool))


def handle_of(run: Run) -> Handle:
    """Return the handle by which the engine knows a run."""
    return Handle(run.key, home(run), run.reference)


def home(run: Run) -> str:
    """Return the name of the folder in which a job's files are kept from one of its runs to the next."""
    return f"job-{run.job_id}"


def _open_runs(engine: Engine) -> Iterator[Run]:
    rows = Run.objects.filter(engine=engine.name, state__in=OPEN).select_related("award__pool", "award__job")
    return iter(list(rows.order_by("pk")))


# Starting runs.


def _open(engine: Engine, award: Award, at: datetime) -> Run | None:
    """Create the row of a new gang, before anything else of it exists. Return None if another process has begun it."""
    try:
        with transaction.atomic():
            run = Run.objects.create(
                tenant_id=award.tenant_id,
                job=award.job,
                award=award,
                number=Run.objects.filter(award=award).count(),
                engine=engine.name,
                key=secrets.token_hex(16),
                program=str(award.job.spec[PROGRAM].get("name", ""))[:40],
                ends_at=ends_at(award, at),
                due_at=max(award.pool.slot_start(award.start), award.awarded_at),
                seen_at=at,
            )
            data = {"job": award.job_id, "award": award.pk, "run": run.number, "engine": run.engine, **_named(award)}
            events_append([job_event(EventKind.JOB_RUN_STARTED, award.job, at=at, data=data)])
            return run
    except IntegrityError:
        return None


def _named(award: Award) -> dict[str, Any]:
    """Return what is started, for the job's history: the version and its digest, never its words. A program that is
    built in has neither."""
    choice = award.job.spec[PROGRAM]
    name, version, owner = str(choice.get("name", "")), choice.get("version"), choice.get("owner")
    stored = None
    if version is not None:
        wanted: dict[str, Any] = {"name": name, "version": version, "owner": owner}
        stored = stored_program(tenant_id=award.tenant_id, **wanted, with_archive=False)
    digest = stored.program.digest if stored else ""
    return {"program": name, "version": version, "owner": owner or "", "digest": digest}


def _submit(engine: Engine, runs: Sequence[Run], at: datetime) -> set[int]:
    """Submit all these runs at once. Return the row ids of those that cannot be started, whose end is noted."""
    gangs: list[Gang] = []
    ends: dict[str, Status] = {}
    for run in runs:
        try:
            gang = gang_of(run, run.award, at)
        except BadScenario as error:
            ends[run.key] = Status(ENDED, end=FAILED, detail=f"{error}.")
        else:
            if isinstance(gang, Fault):
                ends[run.key] = Status(ENDED, end=LOST, detail=gang.sentence)
            else:
                gangs.append(gang)
    answers = engine.submit(gangs) if gangs else {}
    for run in runs:
        answer = answers.get(run.key)
        if isinstance(answer, Handle):
            run.reference = dict(answer.reference)
            run.save(update_fields=["reference"])
            log.info("begin", id=f"run job {run.job_id}", run=run.key, award=run.award_id, engine=run.engine)
        elif isinstance(answer, Fault):
            ends[run.key] = Status(ENDED, end=LOST, detail=answer.sentence)
        if run.key in ends:
            run_end(run=run, status=ends[run.key], at=at)
    return {run.pk for run in runs if run.key in ends}


def gang_of(run: Run, award: Award, at: datetime) -> Gang | Fault:
    """Return the gang that the engine gets; raises `BadScenario` where the program is not what it was at the
    submission. Return a fault where its files or secrets are missing, or an award that is older than the rule would
    start more than it has units for."""
    spec, own, values = award.job.spec, None, {}
    if (program := program_kept(spec, tenant_id=award.tenant_id)) is not None:
        stored, parameters = program
        if stored.program.archive and not stored.archive:
            return Fault("The files of its program are kept no more. Submit its script again, with them.")
        seconds = float(award.pool.slot_seconds)
        opened = secrets_opened(stored.program, award.tenant.slug)
        if isinstance(opened, str):
            return Fault(opened)
        facts: dict[str, Any] = {"job": award.job_id, "slot_seconds": seconds, "archive": stored.archive}
        own = own_program(stored.program, parameters, secrets=opened, **facts)
    elif (ours := program_of(spec)) is not None:
        values = ours[1]
    else:
        raise BadScenario(PROGRAM, "is missing")
    planned = generations(award, _servers(award), at, all_reduce=is_all_reduce(award))
    if fault := gang_fault(award, planned, keeps_size=own is not None and own.keeps_size):
        return fault
    return Gang(
        key=run.key,
        home=home(run),
        program=run.program,
        parameters=values,
        generations=planned,
        end_at=run.ends_at.timestamp(),
        open_ended=award.work_left is not None,
        amounts=amounts(award),
        tenant=award.tenant.slug,
        own=own,
    )


def _servers(award: Award) -> dict[int, str]:
    return dict(Server.objects.filter(pk__in={row[0] for row in award.allocation}).values_list("pk", "name"))


# Following runs.


def _reports(run: Run, before: Mapping[str, Any], over: Set[int]) -> bool:
    """Return whether a run's program has reported something new, in a pool that sizes jobs by what is left of them."""
    return run.pk not in over and run.award.work_left is not None and run.progress != before


def _begins(run: Run, status: Status) -> bool:
    """Return whether a run is seen running for the first time. A later run of the same award is left out: it continues
    after a stop of the market, and is not late."""
    return run.started_at is None and status.started_at is not None and run.number == 0


def _late(run: Run, status: Status) -> float:
    return max(0.0, (status.started_at or 0.0) - run.due_at.timestamp())


def _has_ended(engine: Engine, run: Run, status: Status, at: datetime) -> bool:
    """Follow a run, and return True if it ended. Where the engine's disk takes no order for its gang, that gang waits
    for the next call; the others must be seen all the same, or they are refunded though they run."""
    try:
        return _follow(engine, run, status, at)
    except OSError as error:
        log.warning("order", id=f"run job {run.job_id}", run=run.key, award=run.award_id, error=str(error))
        return False


def _follow(engine: Engine, run: Run, status: Status, at: datetime) -> bool:
    """Bring a run in line with its gang's status. Return True if it ended. A run whose state is unknown stays as it is;
    the clock gives it up after the engine's patience."""
    if status.state == ENDED:
        ended = run_end(run=run, status=status, at=at)
        _tell(run)
        return ended
    if run.award.work_left is not None and run.award.state not in ALIVE:
        open_before = still_open(run)  # asked first: the boundary may be decided between the two questions
        following = next_slot(run)
        if following is None and open_before:
            return False  # it waits for the decision
        if following is None or _begins_anew(run, following):
            engine.stop(handle_of(run), why=_why(run.award))
            return False
        _carry_on(engine, run, following, at)
    end = ends_at(run.award, at)
    if run.award.state not in ALIVE:
        engine.stop(handle_of(run), why=_why(run.award))
    elif end != run.ends_at:
        engine.change(handle_of(run), end.timestamp(), why=_why(run.award))
    _note(run, status, end, at)
    return False


def _why(award: Award) -> str:
    """Return why the award's gang ends early, for its log; empty where its end is that of what was bought."""
    return "its job was cancelled" if award.job.state == JobState.CANCELLED else ""


def _begins_anew(run: Run, award: Award) -> bool:
    """Return whether the gang cannot go on with the members of the next slot: its program keeps its size, and gets
    another one. Once the gang has ended, another one begins."""
    if (award.workers, award.ps) == (run.award.workers, run.award.ps):
        return False
    program = program_kept(award.job.spec, tenant_id=award.tenant_id)
    return program is not None and program[0].program.resize == NONE


def _carry_on(engine: Engine, run: Run, award: Award, at: datetime) -> None:
    """Let the gang continue with the members of the next slot. Doing it twice does no harm, as the generation keeps its
    number."""
    end = ends_at(award, at)
    planned = generations(award, _servers(award), at, all_reduce=is_all_reduce(award))
    engine.change(handle_of(run), end.timestamp(), planned, why=_why(award))
    run.award, run.ends_at = award, end
    run.number = Run.objects.filter(award=award).count()
    run.save(update_fields=["award", "number", "ends_at"])


def _note(run: Run, status: Status, end: datetime, at: datetime) -> None:
    """Write what changed, and from time to time that the engine has seen the run."""
    before = (run.state, run.progress, run.restarts, run.ends_at)
    if status.state != UNKNOWN:
        run.state = RunState.RUNNING if status.state in (RUNNING, STOPPING) else RunState.STARTING
        run.progress, run.restarts = dict(status.progress), status.restarts
    run.ends_at = end if run.award.state in ALIVE else run.ends_at
    if status.started_at is not None:
        run.started_at = datetime.fromtimestamp(status.started_at, UTC)
    changed = before != (run.state, run.progress, run.restarts, run.ends_at)
    is_seen = status.state != UNKNOWN
    if changed or (is_seen and at - run.seen_at > LOOKED):
        run.seen_at = at if is_seen else run.seen_at
        run.save(update_fields=["state", "progress", "restarts", "started_at", "ends_at", "seen_at"])
    if changed:
        _tell(run)


def _tell(run: Run) -> None:
    """Let open pages of the job read it again."""
    tenant_tell(run.tenant_id, f"job-run:{run.job_id}")

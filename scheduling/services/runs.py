"""Awards really run: what begins is started, what changes is changed, what ended is told, once each.

One engine process calls `runs_tick` each second and whenever an award moved. Every call finds out from the rows what is
to be done, so one that is late, repeated or cut short by a crash does no harm.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q

from scheduling.core.scenario import BadScenario
from scheduling.engines.base import ENDED, FAILED, LOST, RUNNING, Engine, EngineFault, Gang, Handle, Status
from scheduling.models import Award, Pool, Run, RunState, Server
from scheduling.models.runs import OPEN
from scheduling.notify import tenant_tell
from scheduling.services.programs import program_of
from scheduling.services.run_ends import run_end
from scheduling.services.run_plans import decided_within, end_slot, ends_at, phases
from scheduling.services.run_slots import listed, members_of, next_slot, still_open
from scheduling.services.settlement import ALIVE
from scheduling.snapshots.specs import PROGRAM
from tenants.scoping import scope_disabled

LEAD = timedelta(seconds=2.5)  # so long before its slot a gang's supervisor is started; it waits for the slot itself
LOOKED = timedelta(seconds=4)  # how often a run notes that its engine is there


@dataclass(frozen=True)
class Ticked:
    """How many runs began and ended in this call."""

    started: int
    ended: int


def runs_tick(*, engine: Engine, at: datetime) -> Ticked:
    """Bring the engine to what is awarded, and the rows to what the engine did."""
    engine.touch()
    with scope_disabled("an engine carries out awards of all tenants"):
        ended = sum(_follow(engine, run, at) for run in _open_runs(engine))
        started = sum(_begin(engine, award, at) for award in list(awards_due(at)))
    return Ticked(started, ended)


def runs_reconcile(*, engine: Engine, at: datetime) -> None:
    """After a restart: what lives is ours again, whatever else of ours lives is ended."""
    engine.touch()
    with scope_disabled("an engine looks for gangs of all tenants"):
        for run in _open_runs(engine):
            if not run.pid and (found := engine.find(home(run), run.key)):
                Run.objects.filter(pk=run.pk).update(pid=found.pid, began=found.began)
        engine.reconcile([handle_of(run) for run in _open_runs(engine)])


def runs_pause(*, engine: Engine, at: datetime) -> int:
    """The market stops: ask all gangs to save and end; how many are still there."""
    with scope_disabled("an engine stops for all tenants"):
        for run in (runs := list(_open_runs(engine))):
            status = engine.status(handle_of(run))
            if status.state == ENDED:
                run_end(run=run, status=status, at=at)
            else:
                engine.stop(handle_of(run), pause=True)
        return Run.objects.filter(pk__in=[run.pk for run in runs], state__in=OPEN).count()


def next_start(*, at: datetime) -> datetime | None:
    """When the next award with a program begins, if that is within a minute."""
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


def awards_due(at: datetime) -> Iterator[Award]:
    """Awards with a program that run now, or will in a moment, and have no run but paused ones."""
    begun = Run.objects.filter(award=OuterRef("pk")).exclude(state=RunState.PAUSED)
    goes_on = Run.objects.filter(job=OuterRef("job"), state__in=OPEN)
    for pool in Pool.objects.all():
        alive = Award.objects.filter(
            pool=pool, state__in=ALIVE, start__lte=pool.slot_at(at + LEAD), end__gt=pool.slot_at(at)
        )
        due = alive.filter(job__spec__has_key=PROGRAM).exclude(Exists(begun)).select_related("job", "pool")
        if pool.is_elastic:  # its gang of the slot before goes on, or has to be gone first
            due = alive.filter(job__spec__has_key=PROGRAM).exclude(Exists(begun.exclude(_too_late(pool, at))))
            due = due.exclude(Exists(goes_on)).select_related("job", "pool")
        for award in due.order_by("start", "pk"):
            if end_slot(award) > max(pool.slot_at(at), award.start - 1):
                yield award


def _too_late(pool: Pool, at: datetime) -> Q:
    """Runs that were carried into the slot that runs and ended for want of a decision just before: begun is another."""
    return Q(state=RunState.STOPPED, ended_at__lt=pool.slot_start(pool.slot_at(at)) + decided_within(pool))


def handle_of(run: Run) -> Handle:
    """How the engine knows it."""
    return Handle(run.key, home(run), run.pid, run.began)


def home(run: Run) -> str:
    """What is kept from one of a job's runs to the next lies together."""
    return f"job-{run.job_id}"


def _open_runs(engine: Engine) -> Iterator[Run]:
    rows = Run.objects.filter(engine=engine.name, state__in=OPEN).select_related("award__pool", "award__job")
    return iter(list(rows.order_by("pk")))


# Beginning.


def _begin(engine: Engine, award: Award, at: datetime) -> bool:
    due = max(award.pool.slot_start(award.start), award.awarded_at)
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
                due_at=due,
                seen_at=at,
                members=listed(phases(award, _servers(award), at)),
            )
    except IntegrityError:
        return False  # somebody else began it
    try:
        handle = engine.start(gang_of(run, award, at))
    except BadScenario as error:
        run_end(run=run, status=Status(ENDED, end=FAILED, detail=f"{error}."), at=at)
    except EngineFault as fault:
        run_end(run=run, status=Status(ENDED, end=LOST, detail=str(fault)), at=at)
    else:
        Run.objects.filter(pk=run.pk).update(pid=handle.pid, began=handle.began)
    return True


def gang_of(run: Run, award: Award, at: datetime) -> Gang:
    """What the engine is told; raises `BadScenario` where the program is not what it was at the submission."""
    found = program_of(award.job.spec)
    if found is None:
        raise BadScenario(PROGRAM, "is missing")
    program, values = found
    planned = phases(award, _servers(award), at)
    end, open_ended = run.ends_at.timestamp(), award.work_left is not None
    return Gang(run.key, home(run), program.name, values, planned, end, open_ended)


def _servers(award: Award) -> dict[int, str]:
    return dict(Server.objects.filter(pk__in={row[0] for row in award.allocation}).values_list("pk", "name"))


# Following.


def _follow(engine: Engine, run: Run, at: datetime) -> bool:
    """True: it ended."""
    status = engine.status(handle_of(run))
    if status.state == ENDED:
        ended = run_end(run=run, status=status, at=at)
        _tell(run)
        return ended
    if run.award.work_left is not None and run.award.state not in ALIVE:
        if (following := next_slot(run)) is None:
            if not still_open(run):
                engine.stop(handle_of(run))
            return False
        _carry_on(engine, run, following, at)
    end = ends_at(run.award, at)
    if run.award.state not in ALIVE:
        engine.stop(handle_of(run))
    elif end != run.ends_at:
        engine.change(handle_of(run), end.timestamp())
    _note(run, status, end, at)
    return False


def _carry_on(engine: Engine, run: Run, award: Award, at: datetime) -> None:
    """The gang goes on with the numbers of the next slot. Done twice it is the same: members follow from the row."""
    planned = phases(award, _servers(award), at, members_of(run))
    end = ends_at(award, at)
    engine.change(handle_of(run), end.timestamp(), planned)
    run.award, run.ends_at, run.members = award, end, listed(planned)
    run.number = Run.objects.filter(award=award).count()
    run.save(update_fields=["award", "number", "ends_at", "members"])


def _note(run: Run, status: Status, end: datetime, at: datetime) -> None:
    """Write what changed, and now and then that somebody looked."""
    before = (run.state, run.progress, run.restarts, run.ends_at)
    run.state = RunState.RUNNING if status.state == RUNNING else RunState.STARTING
    run.progress, run.restarts = dict(status.progress), status.restarts
    run.ends_at = end if run.award.state in ALIVE else run.ends_at
    if status.started_at is not None:
        run.started_at = datetime.fromtimestamp(status.started_at, UTC)
    changed = before != (run.state, run.progress, run.restarts, run.ends_at)
    if changed or at - run.seen_at > LOOKED:
        run.seen_at = at
        run.save(update_fields=["state", "progress", "restarts", "started_at", "ends_at", "seen_at"])
    if changed:
        _tell(run)


def _tell(run: Run) -> None:
    """Open pages of the job look again."""
    tenant_tell(run.tenant_id, f"job-run:{run.job_id}")

"""A market with jobs that really run, from now on, on rented units; and an engine that is driven by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from scheduling.engines.launcher import files
from scheduling.engines.local.engine import LocalEngine
from scheduling.models import Award, JobState, Pool, Run, TrainingJob
from scheduling.runs.runs import handle_of, runs_tick
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.database import overwrite
from tests.engines.local import QUICK, until
from tests.patience import PATIENCE
from tests.scheduling.builders import make_cells, make_server, make_tenant, tell_history
from tests.scheduling.clocks import advance
from tests.scheduling.live import SPEC, again, enter, fund, make_award, make_live_pool, publish
from tests.scheduling.markets import give, make_market, make_waiting

PARAMETERS = {name: value for name, value in QUICK.items() if name not in ("chunks", "minibatches")}
UNITS = {"chunks": 2, "minibatches": 5, "max_workers": 2}


def world(
    seconds: int = 30, program: str = "trainer", epochs: int = 1000, started_ago: float = 0.0, **parameters: Any
) -> tuple[Pool, Tenant, Award]:
    """One job that runs for two slots from now on."""
    pool, tenant = place(seconds, started_ago)
    return pool, tenant, award_on(pool, tenant, "s01", program, epochs, **parameters)


def place(seconds: int = 30, started_ago: float = 0.0) -> tuple[Pool, Tenant]:
    """A pool without servers, and a tenant with a thousand credits."""
    pool = make_live_pool(slot_seconds=seconds, epoch_at=timezone.now() - timedelta(seconds=started_ago))
    fund(tenant := make_tenant("renter"))
    publish(pool, frontier=2)
    return pool, tenant


def award_on(
    pool: Pool, tenant: Tenant, name: str, program: str = "trainer", epochs: int = 1000, **parameters: Any
) -> Award:
    """The first two slots, for two workers and a parameter server on a server of the owner: 10 and 20 micro-credits."""
    owner, server = make_tenant("owner"), make_server(pool, name, worker=4, ps=2)
    make_cells(server, owner, {"worker": 4, "ps": 2})
    values = {"sin": parameters["sin"]} if "sin" in parameters else PARAMETERS | {"minibatch_ms": 20.0} | parameters
    award = make_award(
        pool, tenant, slots=2, charges=[[(owner, 10)], [(owner, 20)]], allocation=[[server.pk, 0, 2, 2, 1]],
        spec=SPEC | UNITS | {"epochs": epochs, "program": {"name": program, "parameters": values}},
        awarded_at=pool.epoch_at,
    )  # fmt: skip
    enter(award)
    return award


@transaction.atomic  # a clock that ticks meanwhile sees all of it or nothing
def sold(seconds: int, servers: int) -> tuple[Pool, Tenant, list[Award]]:
    """A market that has just decided: one job on each server of the owner for the slot that is running, and paid for.

    One job more was outbid, and waits.
    """
    pool, (owner,) = make_market(
        "owner", worker=2, ps=1, slot_seconds=seconds, epoch_at=timezone.now() - timedelta(seconds=2 * seconds)
    )
    for number in range(2, servers + 1):
        make_cells(make_server(pool, f"s{number:02}", worker=2, ps=1), owner, {"worker": 2, "ps": 1})
    give(renter := make_tenant("renter"), 1_000)
    program = {"name": "trainer", "parameters": PARAMETERS | {"minibatch_ms": 20.0}}
    work = UNITS | {"epochs": 1000, "minibatch_seconds": seconds / 5_500}  # nearly a slot of two workers
    for number in range(servers + 1):
        value = {"kind": "linear", "slope": -1.0, "base": 100.0 - 10 * number}
        make_waiting(pool, renter, 0.1 * (number + 1), value=value, program=program, **work)
    for slot in (0.9, 1, 2):
        advance(pool, slot)
    tell_history(pool)
    with scope_disabled("the test looks at what was sold"):
        awards = list(Award.objects.select_related("job", "pool").order_by("job"))
    assert [(award.start, award.end, award.paid > 0) for award in awards] == [(2, 3, True)] * servers
    return pool, renter, awards


def awarded_again(award: Award) -> Award:
    """Give the job of an award that is void another one like it, for nothing, as its next attempt."""
    with scope_disabled("the test awards a job again"):
        job = TrainingJob.objects.get(pk=award.job_id)
        job.state = JobState.AWARDED
        overwrite(job)
        same = {name: getattr(award, name) for name in ("tenant", "pool", "lane", "start", "end", "workers", "ps")}
        same |= {name: getattr(award, name) for name in ("allocation", "value", "phase", "awarded_at")}
        another = Award.objects.create(job=job, attempt=job.attempt, paid=0, charges=[], **same)
    enter(another)
    return another


def run_of(award: Award) -> Run:
    with scope_disabled("the test looks at a run"):
        return Run.objects.select_related("award").filter(award=award).latest("number")


def planned_end(engine: LocalEngine, run: Run) -> float:
    """Return the moment at which its supervisor has to end it, as Unix time."""
    handle = handle_of(run)
    plan = files.read(files.Folder(engine.root, handle.home, handle.key).plan)
    assert plan is not None
    return float(plan["end_at"])


def drive(engine: LocalEngine, award: Award, *states: str, epoch: int = 0, patience: float = PATIENCE) -> Run:
    """Let the engine's process do its work until the run is in one of the states, and as far as asked."""

    def there() -> bool:
        runs_tick(engine=engine, at=timezone.now())
        with scope_disabled("the test waits"):
            run = Run.objects.filter(award=award).order_by("number").last()
        return run is not None and run.state in states and run.progress.get("epoch", 0) >= epoch

    until(there, lambda: str(vars(run_of(award))), patience)
    return run_of(award)


def jobs_of(award: Award) -> TrainingJob:
    return again(award.job)

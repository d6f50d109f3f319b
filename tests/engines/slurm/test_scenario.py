"""One market on a real Slurm and on this machine at once: the same awards, the same payments, and the same losses.

Two pools that are alike, one for each engine. What people do happens in both at the same moment of the pools' time.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.audit.bundle import check
from scheduling.jobs.submission import Submitted, job_submit
from scheduling.models import Award, JobState, Pool, Run, RunState, Server, TrainingJob
from scheduling.runs.failures import server_lose
from scheduling.runs.read_ran import charged_against_ran
from scheduling.runs.runs import handle_of, runs_tick
from tenants.access import access_of_system
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.catalogue.builders import allow, register
from tests.engines.local import ALL, SMALL, engine_in, kill, people_of
from tests.engines.market import PARAMETERS
from tests.engines.own import HERE, RING, archive
from tests.engines.slurm.cluster import Cluster, cluster
from tests.engines.slurm.gangs import engine_on, nobody_is_left
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import SPEC, book_is_sound, fund, make_live_pool, member, money

SECONDS = 40  # of a slot
PAUSE = 0.5  # seconds; the product's own processes look once a second, and each look takes time from who trains
NODES = ("n1", "n2", "n3")
RESOURCES = {"worker": "gres:gpu", "ps": "cpus"}
WORKERS_ALONE = {name: value for name, value in SPEC.items() if name != "ps_mbps"} | {"ps_demand": []}
BY: dict[str, Any] = {"by": access_of_system("an operator"), "reason": "its slurmd is dead"}


@dataclass
class Side:
    """One of the two: `word` is its engine's name, and begins the names of its tenants."""

    word: str
    engine: Any
    pool: Pool
    alpha: Tenant
    beta: Tenant
    renter: Tenant
    jobs: dict[str, TrainingJob] = field(default_factory=dict)

    def at(self, slot: float) -> datetime:
        return self.pool.epoch_at + timedelta(seconds=slot * SECONDS)

    def submit(self, slot: float, name: str, tenant: Tenant, spec: dict[str, Any], lane: str = "batch") -> None:
        order: dict[str, Any] = {"by": member(tenant), "at": self.at(slot), "client_key": f"{self.word}-{name}"}
        answer = job_submit(pool=self.pool, name=name, spec=spec, lane=lane, **order)
        assert isinstance(answer, Submitted), answer
        self.jobs[name] = answer.job

    def look(self) -> None:
        runs_tick(engine=self.engine, at=timezone.now())

    def advance(self, slot: int) -> None:
        pool_advance(pool_id=self.pool.pk, at=self.at(slot))

    def runs(self, name: str) -> list[Run]:
        with scope_disabled("the test looks at runs"):
            return list(Run.objects.filter(job=self.jobs[name]).order_by("pk"))


@pytest.fixture
def own() -> Iterator[Cluster]:
    with cluster(NODES, gpus=3, SlurmdTimeout=5) as own_cluster:
        own_cluster.reserve()
        yield own_cluster


def side(word: str, engine: Any, epoch: datetime) -> Side:
    """Two owners of three servers, and a tenant without cells; each may bring programs, and has the ring."""
    guarantee = {"name": "astraea", "mode": "guarantee"}
    pool = make_live_pool(slug=f"on-{word}", slot_seconds=SECONDS, epoch_at=epoch, batch_policy=guarantee, engine=word)
    alpha, beta, renter = (make_tenant(f"{word}-{name}") for name in ("alpha", "beta", "renter"))
    for name, owner in zip(NODES, (alpha, alpha, beta), strict=True):
        make_cells(make_server(pool, name, worker=3, ps=2), owner, {"worker": 3, "ps": 2})
    packed = archive(ring_train__py=(HERE / "ring_train.py").read_bytes())
    for tenant in (alpha, beta, renter):
        fund(tenant)
        allow(tenant)
        register(member(tenant), packed, **RING | {"environment": {"PAUSE": "0.3"}})
    return Side(word, engine, pool, alpha, beta, renter)


def trains(chunks: int, slots: float, base: float = 200.0) -> dict[str, Any]:
    """Parameter servers, for nearly so many slots of so many workers; it would train for longer. Sold whole: what rents
    in pieces is another scenario (`tests/engines/test_pieces_live.py`)."""
    work = {"divisible": False, "chunks": chunks, "max_workers": chunks, "minibatches": 5, "epochs": 1000}
    work |= {
        "minibatch_seconds": 0.9 * slots * SECONDS / 5000,
        "value": {"kind": "linear", "slope": -1.0, "base": base},
    }
    return SPEC | work | {"program": {"name": "trainer", "parameters": PARAMETERS | {"minibatch_ms": 20.0}}}


def sums(chunks: int, slots: float, base: float = 200.0) -> dict[str, Any]:
    """The same for the ring."""
    program = {"name": "ring", "version": 1, "parameters": {"steps": 100_000}}
    return {name: value for name, value in trains(chunks, slots, base).items() if name in WORKERS_ALONE} | {
        "minibatches": 5, "ps_demand": [], "program": program,
    }  # fmt: skip


def sold(one: Side) -> list[Any]:
    """Every award with its terms, without what only one of the two can have: numbers of rows."""
    with scope_disabled("the test compares two markets"):
        servers = dict(Server.objects.filter(pool=one.pool).values_list("pk", "name"))
        owners = {0: "operator"} | {row.pk: row.slug.partition("-")[2] for row in (one.alpha, one.beta, one.renter)}
        return [
            (
                award.job.name, award.lane, award.start, award.end,
                award.state, award.cut_at, award.paid, award.returned,
                [[[owners[owner], amount] for owner, amount in slot] for slot in award.charges],
                [[servers[row[0]], *row[1:]] for row in award.allocation],
            )
            for award in Award.objects.filter(pool=one.pool).select_related("job").order_by("pk")
        ]  # fmt: skip


def batch_jobs(one: Side) -> None:
    """Two gangs for two slots, and an array as the client submits it: a key for each index."""
    one.submit(0.9, "uneven", one.renter, trains(4, 2))
    one.submit(0.91, "ring", one.alpha, sums(2, 2))
    for index in (1, 2):
        one.submit(0.92, f"sweep-{index}", one.beta, trains(1, 1, base=50.0))


def instant_job(one: Side) -> None:
    """Five workers' slots, in what is left of two slots or more: so many at first and so many later."""
    one.submit(5.2, "resized", one.renter, sums(4, 1.2), lane="instant")


def wait(slot: float, sides: list[Side]) -> None:
    """Until that moment of the pools' time; both engines look meanwhile."""
    while timezone.now() < sides[0].at(slot):
        for one in sides:
            one.look()
        time.sleep(PAUSE)


def until_all(condition: Callable[[Side], bool], sides: list[Side], before: float) -> None:
    """It comes true for both, before that moment."""
    while not all(condition(one) for one in sides):
        states = {
            one.word: {name: [(run.state, run.detail) for run in one.runs(name)] for name in one.jobs} for one in sides
        }
        assert timezone.now() < sides[0].at(before), states
        for one in sides:
            one.look()
        time.sleep(PAUSE)


def began(one: Side, *names: str) -> bool:
    """Each has a gang that runs."""
    return all(any(run.started_at for run in one.runs(name)) for name in names)


def same(read: Callable[[Side], Any], sides: list[Side]) -> Any:
    """What both of them say."""
    ours, theirs = (read(one) for one in sides)
    assert ours == theirs
    return ours


def on_server(one: Side, name: str, slot: int) -> set[str]:
    """Jobs with units there in that slot."""
    return {
        row[0]
        for row in sold(one)
        for place in row[9]
        if place[0] == name and place[1] <= slot < place[2] and row[4] != "void"
    }


@pytest.mark.wide
@pytest.mark.django_db
def test_both_engines_carry_out_the_same_market(
    own: Cluster, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduling.market.decide.programs.PROGRAMS", ALL)
    described = {
        "kind": "slurm", "partition": "main", "reservation": "bourse", "shared": str(own.shared), "lead": 15.0,
        "python": sys.executable, "conf": str(own.conf), "resources": RESOURCES, "least_slot": float(SECONDS),
    }  # fmt: skip
    settings.ENGINES_FILE = str(tmp_path / "engines.json")
    Path(settings.ENGINES_FILE).write_text(json.dumps({"slurm": described}))
    changed = {name: described[name] for name in ("lead", "resources", "least_slot")}
    with engine_in(limits=replace(SMALL, memory_mb=1_000)) as local, engine_on(own, **changed) as slurm:
        epoch = timezone.now() + timedelta(seconds=8 - 2 * SECONDS)
        sides = [side("local", local, epoch), side("slurm", slurm, epoch)]
        for one in sides:
            one.advance(0)
            batch_jobs(one)
            one.advance(1)
        wait(2, sides)
        for one in sides:
            one.advance(2)
        assert {row[0] for row in same(sold, sides)} == {"ring", "sweep-1", "sweep-2"}
        until_all(lambda one: began(one, "ring", "sweep-1", "sweep-2"), sides, 2.9)
        wait(3, sides)
        for one in sides:
            one.advance(3)
        uneven = next(row for row in same(sold, sides) if row[0] == "uneven")
        assert len({place[3] for place in uneven[9]}) > 1, f"its workers are split unevenly: {uneven}"
        until_all(lambda one: began(one, "uneven"), sides, 3.5)

        # A slurmd dies, and on the other side whoever watches over the same gang.
        assert same(lambda one: on_server(one, "n2", 3), sides) == {"uneven"}
        lost = [handle_of(one.runs("uneven")[-1]) for one in sides]
        own.kill("slurmd n2")
        for process in people_of(lost[0].key):
            if process.pid == lost[0].reference["pid"]:
                kill(process)
        until_all(lambda one: one.runs("uneven")[-1].state == RunState.LOST, sides, 3.95)
        for one in sides:
            server_lose(server=Server.objects.get(pool=one.pool, name="n2"), at=one.at(3.95), **BY)
        for handle in lost:
            nobody_is_left(handle)

        for slot in range(4, 12):
            wait(slot, sides)
            for one in sides:
                one.advance(slot)
            same(sold, sides)
            if slot == 5:
                wait(5.2, sides)
                for one in sides:
                    instant_job(one)
                same(sold, sides)
            with scope_disabled("the test waits for the last award"):
                alive = Award.objects.filter(state__in=("booked", "running")).exists()
                if slot > 5 and not alive and not TrainingJob.objects.filter(state=JobState.QUEUED).exists():
                    break
        until_all(lambda one: all(run.ended_at for name in one.jobs for run in one.runs(name)), sides, slot + 0.5)

        # What both of them sold, paid, refunded and carried out.
        awards = same(sold, sides)
        (void,) = [row for row in awards if row[4] == "void"]
        assert void[0] == "uneven"
        assert void[7] == void[6] > 0
        assert same(lambda one: [money(tenant) for tenant in (one.alpha, one.beta, one.renter)], sides)
        assert same(lambda one: [(name, [run.state for run in one.runs(name)]) for name in one.jobs], sides)
        sizes = {(row[1], row[2]): row[3] for row in next(row for row in awards if row[0] == "resized")[9]}
        assert len(set(sizes.values())) > 1, "it changes its size"
        for one in sides:
            with scope_disabled("the test compares what was charged with what ran"):
                compared = list(charged_against_ran(one.pool, 1, slot - 1))
            assert all(row.ran_seconds > 0 for row in compared if row.charged_seconds), compared
            assert {row.job for row in compared if not row.charged_seconds} == {one.jobs["uneven"].pk}
            path = tmp_path / f"{one.word}.zip"
            call_command(
                "audit_bundle", pool=one.pool.slug, start=one.at(0), end=one.at(50), out=path, stdout=io.StringIO()
            )
            assert check.check(path) == []
        assert book_is_sound()

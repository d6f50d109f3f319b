"""A market on a real Slurm: imported, sold, run, refunded and compared, with rows in the database."""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.engines.base import Accounted
from scheduling.engines.slurm.commands import LIMIT_SECONDS
from scheduling.management.commands.engine import Lease
from scheduling.models import Award, Cell, JobState, LaneClock, Pool, Run, RunState, Server
from scheduling.operator.cluster_import import ServerChange, cluster_import, cluster_of
from scheduling.runs.engines import engine_flaw, timings_of
from scheduling.runs.read_ran import charged_against_ran
from scheduling.runs.runs import handle_of, runs_tick
from scheduling.runs.watch import runs_watch
from tenants.access import Refused, access_of_system
from tenants.roles import AUDITOR, OPERATOR, VIEWER
from tenants.scoping import scope_disabled
from tests.database import as_superuser
from tests.engines.local import ALL
from tests.engines.market import PARAMETERS, UNITS, awarded_again, jobs_of, run_of
from tests.engines.slurm.cluster import Cluster, cluster
from tests.engines.slurm.gangs import engine_on, launchers, nobody_is_left, story
from tests.patience import PATIENCE
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import SPEC, again, book_is_sound, enter, fund, make_award, make_live_pool, money, publish
from tests.scheduling.pages import text_of
from tests.tenants.builders import client_of, make_member, make_staff

pytestmark = pytest.mark.django_db


@pytest.fixture
def described(slurm: Cluster, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The engines' file of this installation."""
    monkeypatch.setattr("scheduling.market.decide.programs.PROGRAMS", ALL)
    path = tmp_path / "engines.json"
    values = {
        "kind": "slurm", "partition": "main", "reservation": "bourse", "shared": str(slurm.shared),
        "python": sys.executable, "conf": str(slurm.conf), "resources": {"worker": "gres:gpu", "ps": "cpus"},
    }  # fmt: skip
    path.write_text(json.dumps({"slurm": values}))
    settings.ENGINES_FILE = str(path)
    return path


def on_slurm(pool: Pool) -> Pool:
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(engine="slurm")
    pool.refresh_from_db()
    return pool


def award_on_two(pool: Pool, **parameters: Any) -> Award:
    """The first two slots: a worker and a parameter server on n1, a worker on n2, for 10 and 20 micro-credits."""
    owner, servers = make_tenant("owner"), [make_server(pool, name, worker=2, ps=4) for name in ("n1", "n2")]
    for server in servers:
        make_cells(server, owner, {"worker": 2, "ps": 4})
    fund(renter := make_tenant("renter"))
    publish(pool, frontier=2)
    allocation = [[servers[0].pk, 0, 2, 1, 1], [servers[1].pk, 0, 2, 1, 0]]
    values = PARAMETERS | {"minibatch_ms": 20.0} | parameters
    award = make_award(
        pool, renter, slots=2, charges=[[(owner, 10)], [(owner, 20)]], allocation=allocation, awarded_at=pool.epoch_at,
        spec=SPEC | UNITS | {"epochs": 1000, "program": {"name": "trainer", "parameters": values}},
    )  # fmt: skip
    enter(award)
    return award


def drive(engine: Any, award: Award, *states: str, epoch: int = 0, patience: float = PATIENCE) -> Run:
    deadline = time.monotonic() + patience
    while True:
        runs_tick(engine=engine, at=timezone.now())
        run = run_of(award)
        if run.state in states and run.progress.get("epoch", 0) >= epoch:
            return run
        assert time.monotonic() < deadline, f"{vars(run)}\n{story(engine, handle_of(run))}"
        time.sleep(0.1)


@pytest.mark.meanwhile
def test_award_runs_on_the_cluster_and_what_an_operator_cancels_is_refunded_once_and_its_log_stays(
    slurm: Cluster, described: Path, settings: Any
) -> None:
    pool = on_slurm(make_live_pool(slot_seconds=600, epoch_at=timezone.now() - timedelta(seconds=1)))
    award = award_on_two(pool)
    with engine_on(slurm, resources={"worker": "gres:gpu", "ps": "cpus"}) as engine:
        run = drive(engine, award, RunState.RUNNING, epoch=2)
        assert (run.engine, run.reference) == ("slurm", {"engine": "slurm"})
        visible = {launchers(handle_of(run), name)[1].environ()["CUDA_VISIBLE_DEVICES"] for name in ("n1", "n2")}
        assert all(visible)
        slurm.call("scancel", f"--name={engine.settings.prefix}-{run.key}-0")
        run = drive(engine, award, RunState.LOST)
        assert "operator" in run.detail
        assert {server for server, _, _ in run.delivered} == {"n1", "n2"}
        assert (again(award).returned, jobs_of(award).state) == (30, JobState.QUEUED)
        with scope_disabled("the test looks at money"):
            assert money(award.tenant) == (1_000_000_000, 0, 0)
        nobody_is_left(handle_of(run))
        assert book_is_sound()
        later = drive(engine, awarded_again(award), RunState.RUNNING, epoch=1)
        settings.RUNS_DIR = engine.root
        client = client_of(make_member(award.tenant, VIEWER).user)
        for number, each, who in ((1, run, "coordinator 0"), (2, later, "engine")):
            log = client.get(f"/api/v1/tenants/renter/jobs/{award.job_id}/logs/?run_number={number}").json()
            assert (log["run"], log["runs"]) == (each.pk, 2)
            assert who in {line["who"] for line in log["lines"]}


def test_what_slurm_refuses_is_refunded_with_its_sentence(slurm: Cluster, described: Path) -> None:
    award = award_on_two(on_slurm(make_live_pool(slot_seconds=60, epoch_at=timezone.now() - timedelta(seconds=1))))
    with engine_on(slurm, reservation="nothing") as engine:
        assert runs_tick(engine=engine, at=timezone.now()).started == 0
        run = run_of(award)
        sentence = "Slurm refused it: Batch job submission failed: Requested reservation is invalid."
        assert (run.state, run.detail) == (RunState.LOST, sentence)
        assert (again(award).returned, jobs_of(award).state) == (30, JobState.QUEUED)
        with scope_disabled("the test looks at money"):
            assert money(award.tenant) == (1_000_000_000, 0, 0)
        nobody_is_left(handle_of(run))


@pytest.mark.wide
def test_gang_that_nobody_can_submit_is_refunded_after_its_first_slot_the_lease_holds_and_other_pools_tick_on(
    described: Path,
) -> None:
    pool = on_slurm(make_live_pool(slot_seconds=60, epoch_at=timezone.now() - timedelta(seconds=1)))
    award, other = award_on_two(pool), make_live_pool(slug="other")
    with cluster(("n1", "n2")) as own, engine_on(own) as engine:
        own.reserve()
        own.kill("slurmctld")
        (lease := Lease(engine)).start()
        at = timezone.now()
        runs_tick(engine=engine, at=at)  # it waits for commands that nobody answers
        assert time.time() - (engine.shared / "alive").stat().st_mtime < engine.timings.lease / 2
        lease.end()
        run = run_of(award)
        assert (run.state, run.reference) == (RunState.STARTING, {"engine": "slurm"})
        begin = time.monotonic()
        assert pool_advance(pool_id=other.pk, at=other.slot_start(0)).behind == 0
        assert time.monotonic() - begin < LIMIT_SECONDS  # it did not wait for them
        assert runs_watch(pool=pool, at=at + timedelta(seconds=50)) == 0  # its first slot is not over
        assert runs_watch(pool=pool, at=timezone.now() + timedelta(seconds=61)) == 1
        assert (again(award).returned, jobs_of(award).reason_code) == (30, "engine_error")
        nobody_is_left(handle_of(run))


def test_pools_of_other_engines_are_left_alone(slurm: Cluster, described: Path) -> None:
    award = award_on_two(make_live_pool(slot_seconds=60, epoch_at=timezone.now() - timedelta(seconds=1)))
    with engine_on(slurm) as engine:
        assert runs_tick(engine=engine, at=timezone.now()).started == 0
    with scope_disabled("the test looks at runs"):
        assert not Run.objects.filter(award=award).exists()


@pytest.mark.wide
@pytest.mark.meanwhile
def test_cluster_is_shown_before_it_is_made_and_differences_after(slurm: Cluster, described: Path) -> None:
    pool = on_slurm(make_live_pool(slot_seconds=60))
    make_tenant("physics")
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(slug="cluster")

    def output(*words: str) -> str:
        out = StringIO()
        call_command("engine", *words, "--name", "slurm", "--pool", "cluster", stdout=out)
        return out.getvalue()

    text = output("import", "--owner", "physics")
    assert "n2: new, with 2 worker, 16 ps, of physics" in text
    assert "Nothing was made." in text
    assert not Server.objects.filter(pool=pool).exists()
    assert "3 servers are as the cluster says." in output("import", "--owner", "physics", "--confirm")
    with scope_disabled("the test looks at cells"):
        cells = {(cell.server.name, cell.resource.name, cell.units) for cell in Cell.objects.filter(server__pool=pool)}
    assert cells == {(name, *units) for name in ("n1", "n2", "n3") for units in (("worker", 2), ("ps", 16))}
    assert output("import") == "The pool has what the cluster has.\n"
    assert "can keep what the market promises" in output("--check")
    make_server(pool, "n7", worker=1, ps=1)
    assert "n7: the cluster has no such server" in output("import")
    with pytest.raises(CommandError, match="cannot keep what the market promises"):
        output("--check")


def test_owners_of_new_servers_are_named_by_the_account_to_which_a_partition_is_kept(
    slurm: Cluster, described: Path, tmp_path: Path
) -> None:
    pool = on_slurm(make_live_pool(slot_seconds=60))
    make_tenant("physics"), make_tenant("chemistry")
    table, wanted = tmp_path / "owners.csv", ["engine", "import", "--name", "slurm", "--pool", pool.slug, "--owners"]

    def output(*rows: str) -> str:
        table.write_text("\n".join(rows))
        call_command(*wanted, table, stdout=(out := StringIO()))
        return out.getvalue()

    with pytest.raises(CommandError, match="No server of the cluster is kept to an account phys"):
        output("account:phys,physics")
    partitions = {"kept": ("n1,n2", "phys"), "shared": ("n2,n3", "chem,other")}
    try:
        for name, (nodes, accounts) in partitions.items():
            words = (f"PartitionName={name}", f"Nodes={nodes}", f"AllowAccounts={accounts}")
            assert slurm.call("scontrol", "create", *words).returncode == 0
        text = output("account:phys,physics")
        assert "n1: new, with 2 worker, 16 ps, of physics" in text
        assert "n3: new, with 2 worker, 16 ps, of the operator" in text
        with pytest.raises(CommandError, match="n2 is kept to accounts of chemistry and physics: say whose it is"):
            output("account:phys,physics", "account:chem,chemistry")
        text = output("account:phys,physics", "account:chem,chemistry", "n2,chemistry")
        assert [line.rpartition(" ")[2] for line in text.splitlines()[:3]] == ["physics", "chemistry", "chemistry"]
    finally:
        for name in partitions:
            slurm.call("scontrol", "delete", f"PartitionName={name}")


def test_operators_page_brings_in_a_cluster_and_another_pool_does_not_get_the_same_servers(
    slurm: Cluster, described: Path
) -> None:
    pool, physics = on_slurm(make_live_pool(slot_seconds=60)), make_tenant("physics")
    client = client_of(make_staff(OPERATOR).user)
    there = f"/operator/pools/{pool.slug}/import/"
    page = text_of(client.get(f"/operator/pools/{pool.slug}/").content.decode())
    assert "files unless they run in containers." in page
    page = text_of(client.get(there).content.decode())
    assert "Server n1 not there 2 worker, 16 ps, of the operator" in page
    form = {"owner": "physics", "owners": "n3: nobody", "reason": "It is ours now.", "shown": "another one"}
    page = text_of(client.post(there, form).content.decode())
    assert "There is no tenant nobody." in page
    assert "The cluster has changed since it was shown." in page
    form |= {"owners": "partition:main: physics", "owner": "", "shown": cluster_of("slurm", pool=pool).digest}
    page = text_of(client.post(f"{there}?part=effect", form).content.decode())
    assert "Server n1 not there 2 worker, 16 ps, of physics" in page
    assert not Server.objects.filter(pool=pool).exists()
    assert client.post(there, form).status_code == 302
    with scope_disabled("the test looks at cells"):
        assert Cell.objects.filter(server__pool=pool, tenant=physics).count() == 6
    assert "Nothing would change yet." in text_of(client.get(there).content.decode())
    other = on_slurm(make_live_pool(slug="other", slot_seconds=60))
    assert "has 3 servers" in (page := text_of(client.get(f"/operator/pools/{other.slug}/import/").content.decode()))
    assert "Nothing would change yet." in page
    stale = [ServerChange("n1", None, {"worker": 2, "ps": 16})]  # from before the first pool had it
    refusal = cluster_import(
        pool=other, changes=stale, by=access_of_system("a test"), reason="It is", at=timezone.now()
    )
    assert refusal == Refused("invalid_server", f"n1: the pool {pool.slug} sells it already.")
    described.unlink()
    assert "ENGINES_FILE cannot be read" in text_of(client.get(there).content.decode())


def test_what_was_charged_is_compared_with_what_ran(slurm: Cluster, described: Path) -> None:
    start = timezone.now() - timedelta(seconds=150)
    began = start.timestamp()
    pool = on_slurm(make_live_pool(slot_seconds=60, epoch_at=start))
    award = award_on_two(pool)
    with scope_disabled("the test says what ran"), as_superuser():
        Pool.objects.filter(pk=pool.pk).update(slug="cluster")
        Run.objects.create(
            tenant_id=award.tenant_id, job=award.job, award=award, engine="slurm", key="key", program="trainer",
            state=RunState.LOST, ends_at=start, due_at=start, seen_at=start,
            delivered=[["n1", began, began + 119.0], ["n2", began + 1.0, began + 70.0]],
        )  # fmt: skip
    out, errors = StringIO(), StringIO()
    call_command("engine", "ran", "--pool", "cluster", "--from-slot", "0", stdout=out, stderr=errors)
    assert errors.getvalue().startswith("Slurm's accounting cannot be asked (Slurm accounting storage is disabled")
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert [
        (row["slot"], row["server"], row["charged_seconds"], row["ran_seconds"], row["difference"]) for row in rows
    ] == [
        ("0", "n1", "60.0", "60.0", ""),
        ("0", "n2", "60.0", "59.0", ""),
        ("1", "n1", "60.0", "59.0", ""),
        ("1", "n2", "60.0", "10.0", "the platform lost it"),
    ]
    assert {row["accounted_seconds"] for row in rows} == {""}
    run = run_of(award)
    parts = [Accounted("key", 0, "n1", began - 20.0, None), Accounted("key", 0, "n2", began, began + 20.0)]
    with scope_disabled("the test compares"):
        figures = [(row.accounted_seconds, row.difference) for row in charged_against_ran(pool, 0, 1, parts)]
    less = "its cluster's accounting knows of less"
    assert figures == [(60.0, ""), (20.0, less), (60.0, ""), (0.0, "the platform lost it")]
    with as_superuser():
        LaneClock.objects.filter(pool=pool).update(settled_slot=1)
    client = client_of(make_staff(AUDITOR).user)
    page = text_of(client.get("/operator/pools/cluster/ran/").content.decode())
    assert "Slurm accounting storage is disabled" in page
    assert f"{run.job_id} renter 1 n2 60.0 s 10.0 s – The platform lost it" in page
    reply = client.get("/operator/pools/cluster/ran/", {"format": "csv", "only": "differences"})
    assert b"".join(reply).count(b"\r\n") == 2


def test_pool_is_refused_an_engine_that_is_not_there_or_cannot_keep_its_slots(described: Path, settings: Any) -> None:
    assert engine_flaw("slurm", 60) == ""
    assert engine_flaw("slurm", 59) == "Slots of the engine slurm last 60 seconds at least, not 59."
    assert engine_flaw("other", 60) == f"There is no engine 'other' in {described}."
    assert timings_of("slurm").patience == 60.0
    described.write_text(json.dumps({"slurm": {"kind": "slurm", "partition": "main", "shared": "here"}}))
    assert engine_flaw("slurm", 60) == "The engine slurm: shared must be the whole path of a folder."
    described.write_text("{")
    assert "is not JSON" in engine_flaw("slurm", 60)
    settings.ENGINES_FILE = str(described.parent)
    assert engine_flaw("slurm", 60).startswith("ENGINES_FILE cannot be read: ")
    settings.ENGINES_FILE = ""
    assert engine_flaw("slurm", 60).startswith("There is no engine 'slurm': ENGINES_FILE names no file")

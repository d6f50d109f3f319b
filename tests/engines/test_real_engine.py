"""`manage.py engine` as a process of its own, and everybody it starts: whoever is killed, state and book are right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

import psutil
import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from scheduling.engines.launcher.files import Folder, read
from scheduling.models import Award, AwardState, JobState, Run, RunState, Server
from scheduling.runs.failures import ServerLost, server_lose
from scheduling.runs.runs import home
from tenants.access import access_of_system
from tenants.scoping import scope_disabled
from tests.database import serving_addresses
from tests.engines.local import ROOT, kill_people_of, people_of, until
from tests.engines.market import jobs_of, run_of, sold
from tests.patience import PATIENCE
from tests.scheduling.live import again, events, money

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def var() -> Iterator[Path]:
    """The data folder of the engine; whoever works in it is killed by its id in the end."""
    folder = Path(tempfile.mkdtemp(prefix="bourse-test-"))
    folder.chmod(0o711)
    yield folder
    kill_people_of(str(folder))
    until(lambda: not people_of(str(folder)))
    rmtree(folder)


@contextmanager
def engine_of(var: Path) -> Iterator[subprocess.Popen[bytes]]:
    surroundings = os.environ | serving_addresses() | {"BOURSE_VAR": str(var)}
    with (var / "engine.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "engine"], cwd=ROOT, env=surroundings, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(90)


def reaches(award: Award, *states: str, epoch: int = 0, number: int = 0) -> Run:
    """Its run, once it is there; on a busy machine that takes a while."""

    def there() -> bool:
        with scope_disabled("the test waits"):
            run = Run.objects.filter(award=award, number=number).first()
        return run is not None and run.state in states and run.progress.get("epoch", 0) >= epoch

    until(there, lambda: f"{vars(run_of(award))}", 60.0)
    return run_of(award)


def members(var: Path, run: Run) -> dict[tuple[str, int], psutil.Process]:
    """Of its gang, by role and rank."""
    state = read(Folder(var / "runs", home(run), run.key).state) or {}
    return {(role, rank): psutil.Process(pid) for role, rank, _, pid in state["members"]}


def engines_there() -> int:
    """At work, or waiting for their turn."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE query LIKE 'SELECT pg_try_advisory_lock%' AND datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def books_are_right() -> None:
    """As an operator would ask; either ends with an error where anything differs."""
    call_command("verify_ledger", verbosity=0)
    call_command("verify_intervals", verbosity=0)


@pytest.mark.wide
def test_whatever_dies_of_live_gangs_is_repaired_or_refunded_once_and_the_engine_may_die_too(var: Path) -> None:
    _pool, renter, (mended, robbed, stranded) = sold(seconds=240, servers=3)
    with engine_of(var) as engine:
        before = {award.pk: reaches(award, RunState.RUNNING, epoch=1) for award in (mended, robbed, stranded)}

        # A worker, a parameter server, and a server with everybody on it.
        members(var, before[mended.pk])["worker", 1].kill()
        members(var, before[robbed.pk])["ps", 0].kill()
        there = members(var, before[stranded.pk]).values()
        server = Server.objects.get(pk=stranded.allocation[0][0])
        lost = server_lose(server=server, by=access_of_system("a test"), reason="smoke", at=timezone.now())
        for group in {os.getpgid(process.pid) for process in there}:
            os.killpg(group, signal.SIGKILL)
        reaches(robbed, RunState.LOST)
        reaches(stranded, RunState.STOPPED)
        until(lambda: run_of(mended).restarts == 1)
        epoch = run_of(mended).progress["epoch"]
        reaches(mended, RunState.RUNNING, epoch=epoch + 2)
        assert isinstance(lost, ServerLost)
        assert (lost.awards, lost.refunded) == (1, stranded.paid)
        assert [jobs_of(award).state for award in (mended, robbed, stranded)] == [
            JobState.RUNNING,
            JobState.QUEUED,
            JobState.QUEUED,
        ]
        assert [jobs_of(award).reason_code for award in (robbed, stranded)] == ["engine_error", "server_lost"]
        assert [again(award).returned for award in (mended, robbed, stranded)] == [0, robbed.paid, stranded.paid]
        assert len(events("job_requeued")) == 2
        assert money(renter) == (1_000_000_000 - mended.paid, mended.paid, 0)
        for award in (robbed, stranded):
            assert people_of(before[award.pk].key) == []
        books_are_right()

        # The engine itself, while another one waits for its turn: the gang goes on, and is the other one's.
        with engine_of(var) as other:
            until(lambda: engines_there() == 2, patience=PATIENCE)
            engine.kill()
            engine.wait(90)
            epoch = run_of(mended).progress["epoch"]
            adopted = reaches(mended, RunState.RUNNING, epoch=epoch + 2)
            assert (adopted.reference, adopted.number) == (before[mended.pk].reference, 0)

            # Asked to stop, it leaves its gangs alone, and the next one goes on with them.
            with engine_of(var) as third:
                until(lambda: engines_there() == 2, patience=PATIENCE)
                other.send_signal(signal.SIGTERM)
                assert other.wait(90) == 0
                assert people_of(adopted.key) != []
                epoch = run_of(mended).progress["epoch"]
                assert reaches(mended, RunState.RUNNING, epoch=epoch + 2).number == 0
                third.send_signal(signal.SIGTERM)
                assert third.wait(90) == 0

    # Nobody comes after it: the gang saves and ends by itself, and the next engine finds that it can go on.
    until(lambda: people_of(str(var)) == [], patience=PATIENCE)
    assert (again(mended).returned, jobs_of(mended).state) == (0, JobState.RUNNING)
    assert again(mended).state == AwardState.RUNNING
    books_are_right()

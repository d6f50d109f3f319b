"""A worker that cannot reach a parameter server begins its step again; a job ends only where nothing comes of that."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduling.engines.trainer.changes import MOST_RECONNECTIONS
from scheduling.engines.trainer.channel import Channel
from scheduling.engines.trainer.framing import WireMessage
from scheduling.engines.trainer.job import TrainerJob
from scheduling.engines.trainer.members import TrainerMember
from scheduling.engines.trainer.peers import SERVER, WORKER, PeerPlace
from scheduling.engines.trainer.progress import ProgressFile
from scheduling.engines.trainer.server import LOST, ServerProcess
from scheduling.engines.trainer.settings import TrainerSettings

WORKERS = 8
SETTINGS = TrainerSettings(chunks=WORKERS, minibatches=4, features=4, epochs=50)


class Wire(Channel):
    """What the coordinator says to a member goes straight to whoever is behind it."""

    def __init__(self, hear: Callable[[WireMessage], Any]) -> None:
        self.tell = hear  # type: ignore[method-assign]


class Job:
    """A coordinator with one real parameter server's store, and workers that do what the test wants."""

    def __init__(self, folder: Path) -> None:
        self.progress = folder / "progress.jsonl"
        counts = {WORKER: WORKERS, SERVER: 1}
        self.job = TrainerJob(SETTINGS, counts, folder, ProgressFile(str(self.progress)), digests=False)
        self.server = ServerProcess(SETTINGS, PeerPlace(SERVER, 0, {}), b"secret")
        server = self.member(SERVER, 0, lambda order: server.answers.put(self.server._obey(order)))
        self.job.register(server)
        self.workers = [self.member(WORKER, rank, lambda _: None) for rank in range(WORKERS)]
        for worker in self.workers:
            self.job.register(worker)
        self.job.advance()

    def member(self, role: str, rank: int, hear: Callable[[WireMessage], Any]) -> TrainerMember:
        about = {"host": "127.0.0.1", "port": 1, "pid": 1}
        return TrainerMember(role, rank, Wire(hear), about, time.monotonic())

    def step(self) -> None:
        """Every chunk's gradient comes to the server, and every loss to the coordinator."""
        store = self.server.store
        version, generation, size = store.version, store.generation, len(store.values)
        for chunk, worker in enumerate(self.workers):
            fields = {"losses": [[chunk, version, 0.5]], "minibatch_seconds": 0.1, "exchange_seconds": 0.0}
            self.job.hear(worker, WireMessage("report", fields | {"pause": None, "generation": generation}))
            assert store.push(version, chunk, generation, np.zeros(size))

    def park(self, lost: str) -> None:
        for worker in self.workers:
            self.job.hear(worker, WireMessage("park", {"lost": lost}))
        self.job.advance()

    def last(self) -> dict[str, Any]:
        return json.loads(self.progress.read_text().splitlines()[-1])


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_many_workers_that_lose_a_server_at_once_count_once(job: Job) -> None:
    for _ in range(MOST_RECONNECTIONS):
        job.park("no answer in time")
    assert job.job.code is None
    job.step()
    assert job.server.store.version == 1


def test_whoever_never_comes_through_ends_the_job_which_is_saved(job: Job) -> None:
    job.step()
    for _ in range(MOST_RECONNECTIONS + 1):
        assert job.job.code is None
        job.park("no answer in time")
    assert job.job.code == LOST
    report = job.last()
    assert (report["event"], report["checkpoint"]) == ("failed", True)
    assert report["sentence"] == "Workers lose their parameter servers again and again: no answer in time."
    assert [path.suffix for path in job.progress.parent.iterdir() if path != job.progress] != []


def test_a_long_job_may_lose_its_servers_as_often_as_it_comes_further_between_times(job: Job) -> None:
    for _ in range(4 * MOST_RECONNECTIONS):
        job.step()
        job.park("the connection was closed")
    assert job.job.code is None
    assert job.server.store.version == 4 * MOST_RECONNECTIONS

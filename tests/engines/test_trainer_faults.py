"""Processes of a job that die, hang, come late or are asked to stop: told, never hung on, nothing lost but the step."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scheduling.engines.trainer.channel import NotOneOfUs
from scheduling.engines.trainer.control import Control
from scheduling.engines.trainer.framing import ConnectionLost
from tests.engines.gang import PATIENCE, Gang
from tests.engines.test_trainer_jobs import alone

LONG = {"epochs": 5000, "minibatch_ms": 2.0}


def same_as_undisturbed(gang: Gang) -> bool:
    return gang.losses() == pytest.approx(alone(epochs=len(gang.losses())), rel=1e-12)


def test_dead_worker_is_told_its_step_repeated_and_another_may_take_its_rank(tmp_path: Path) -> None:
    with Gang(tmp_path, 2, 2, **LONG) as gang:
        gang.wait("epoch")
        gang.signal("worker 1", signal.SIGKILL)
        assert gang.wait("peer_lost")["sentence"].startswith("Worker 1 is lost: ")
        gang.wait("epoch", len(gang.losses()) + 2)
        gang.start("worker", 1)
        assert gang.wait("scaled")["workers_joined"] == [1]
        assert gang.control.status()["workers"] == [0, 1]
        gang.control.stop()
        assert set(gang.end_all().values()) == {0}, gang.story()
        assert same_as_undisturbed(gang)


def test_dead_parameter_server_fails_the_job_and_everybody_leaves(tmp_path: Path) -> None:
    with Gang(tmp_path, 2, 2, checkpoint_seconds=0.2, **LONG) as gang:
        gang.wait("checkpoint")
        gang.signal("ps 1", signal.SIGKILL)
        codes = gang.end_all()
        assert codes["coordinator 0"] == 3
        assert gang.wait("peer_lost")["rank"] == 1
        assert gang.wait("failed")["checkpoint"]
    with Gang(tmp_path, 1, 1, **LONG) as gang:
        assert gang.wait("started")["resumed"]


def test_dead_coordinator_takes_everybody_with_it(tmp_path: Path) -> None:
    with Gang(tmp_path, 1, 1, **LONG) as gang:
        gang.wait("epoch")
        gang.signal("coordinator 0", signal.SIGKILL)
        assert {gang.end("worker 0"), gang.end("ps 0")} == {3}


@pytest.mark.wide
def test_frozen_worker_is_given_up_after_the_patience_and_the_others_go_on(tmp_path: Path) -> None:
    with Gang(tmp_path, 2, 1, patience_seconds=1.0, **LONG) as gang:
        gang.wait("epoch")
        gang.signal("worker 0", signal.SIGSTOP)
        assert gang.wait("peer_lost")["sentence"] == "Worker 0 is lost: it has been silent for too long."
        gang.wait("epoch", len(gang.losses()) + 2)
        gang.control.stop()
        assert gang.end() == 0
        assert same_as_undisturbed(gang)


def test_frozen_parameter_server_is_named(tmp_path: Path) -> None:
    with Gang(tmp_path, 1, 1, patience_seconds=1.0, **LONG) as gang:
        gang.wait("epoch")
        gang.signal("ps 0", signal.SIGSTOP)
        assert gang.end() == 3
        assert gang.wait("failed")["sentence"] == "Parameter server 0 is lost: it does not answer."


def test_whole_gang_asked_to_stop_saves_and_is_gone_within_a_second(tmp_path: Path) -> None:
    with Gang(tmp_path, 2, 2, epochs=5000, minibatch_ms=200.0) as gang:
        gang.wait("started")
        begin = time.monotonic()
        for name in gang.processes:
            gang.signal(name)
        assert set(gang.end_all().values()) == {0}, gang.story()
        assert time.monotonic() - begin < 20.0  # one second where nobody disturbs; else an hour
        assert gang.events("stopped")[0]["checkpoint"]
    assert (tmp_path / "checkpoint.npz").exists()


def test_member_asked_to_stop_leaves_and_the_last_worker_stops_the_job(tmp_path: Path) -> None:
    with Gang(tmp_path, 2, 2, **LONG) as gang:
        gang.wait("epoch")
        gang.signal("ps 0")
        assert gang.end("ps 0") == 0
        assert gang.wait("scaled")["servers_left"] == [0]
        gang.signal("worker 0")
        assert gang.end("worker 0") == 0
        gang.signal("worker 1")
        assert set(gang.end_all().values()) == {0}, gang.story()
        assert gang.wait("stopped")["reason"] == "the last worker was removed"
        assert same_as_undisturbed(gang)


@pytest.mark.wide
def test_gang_that_is_not_complete_fails_and_says_who_is_missing(tmp_path: Path) -> None:
    with Gang(tmp_path, 2, 1, gather_seconds=3.0, **LONG) as gang:
        gang.signal("worker 1", signal.SIGKILL)
        assert gang.end(patience=2 * PATIENCE) == 3
        sentence = "Not everybody came within 3 seconds: "
        assert gang.wait("failed")["sentence"].startswith(sentence)
        assert not gang.events("started")


def test_one_worker_too_many_and_one_twice_are_refused(tmp_path: Path) -> None:
    with Gang(tmp_path, 1, 1, chunks=1, epochs=5000, minibatch_ms=2.0) as gang:
        gang.wait("started")
        gang.start("worker", 1)
        assert gang.end("worker 1") == 2
        assert gang.wait("refused")["sentence"].endswith("and there are 1 chunks.")
        server = gang.processes["ps 0"]
        gang.start("ps", 0)
        assert gang.wait("refused", 2)["sentence"] == "There is a ps 0 already."
        assert gang.end("ps 0") == 2
        assert server.poll() is None
        refusal = gang.control.remove("worker", 9)["sentence"]
        assert refusal == "There is no worker 9 at work."


def test_stranger_cannot_ask(tmp_path: Path) -> None:
    with Gang(tmp_path, 1, 1, **LONG) as gang:
        gang.wait("started")
        with pytest.raises((ConnectionLost, NotOneOfUs)):
            Control(gang.control.address, "another secret of this length").status()


PARENT = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[2:], pass_fds=[0] if sys.argv[1] == "-" else [])
print(child.pid, flush=True)
sys.stdin.read()
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", ["parent", "lifeline"])
def test_job_stops_and_saves_nothing_half_when_whoever_started_it_is_gone(tmp_path: Path, how: str) -> None:
    command = [sys.executable, "-m", "scheduling.engines.trainer", "--folder", str(tmp_path)]
    command += ["--progress", str(tmp_path / "progress")]
    read, write = os.pipe()
    extra = ["--lifeline", str(read), "--outlive-parent"] if how == "lifeline" else []
    environment = {**os.environ, "ROLE": "coordinator", "PEERS": "coordinator=127.0.0.1:0", "JOB_SECRET": "x" * 16}
    wrapper = [sys.executable, "-c", PARENT, "+"] if how == "parent" else []
    process = subprocess.Popen(
        [*wrapper, *command, *extra], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[read]
    )
    os.close(read)
    try:
        progress = tmp_path / "progress"
        wait_for(lambda: progress.exists() and "listening" in progress.read_text())
        os.close(write)
        assert process.stdin is not None
        process.stdin.close()
        wait_for(lambda: '"event": "stopped"' in progress.read_text())
        first = json.loads(progress.read_text().splitlines()[0])
        wait_for(lambda: not Path(f"/proc/{first['pid']}").exists() or process.poll() is not None)
    finally:
        process.kill()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()


def wait_for(condition: object) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("environment", "parameters", "sentence"),
    [
        ({}, "{}", "Neither ROLE, RANK and PEERS nor TF_CONFIG is set."),
        ({"ROLE": "ps", "PEERS": "coordinator=h:1"}, "{}", "JOB_SECRET must have at least 16 characters."),
        ({}, "{", "The parameters are not JSON."),
        ({}, '{"epochs": 0}', "epochs must be at least 1."),
    ],
)
def test_wrong_start_is_one_sentence_and_code_2(environment: dict[str, str], parameters: str, sentence: str) -> None:
    command = [sys.executable, "-m", "scheduling.engines.trainer", "--parameters", parameters]
    done = subprocess.run(
        command, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr.decode().strip()) == (2, sentence)

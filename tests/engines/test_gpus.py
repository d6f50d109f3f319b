"""What programs with GPUs do, under all that they give up: first without a GPU, then with one where there is one."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from scheduling.engines.base import ENDED, FINISHED, LOST, ClusterFinding, Gang, WrongEngine
from scheduling.engines.launcher import gpus as taking
from scheduling.engines.launcher.confine import landlock_version
from scheduling.engines.launcher.gpus import Gpu, TakenGpus, machine_devices
from scheduling.engines.launcher.launch import words
from scheduling.engines.launcher.limits import ProcessLimits
from scheduling.engines.local import gpus
from scheduling.engines.local.gpus import gpus_of
from scheduling.engines.local.surroundings import code_for, copied
from tests.conftest import FOLDER
from tests.engines.local import (
    ROOT,
    SHARED,
    SMALL,
    ended,
    engine_in,
    look,
    possible,
    start,
    story,
    text_of,
    until,
)
from tests.engines.own import HERE, archive, own, script, workers
from tests.patience import PATIENCE

walled = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="another account is given to a process by root alone")
GUEST = 61_990
# What the library of CUDA does first (it ends with error 304 otherwise), here in a process that a program starts: it
# names its threads by files of its own process.
TRIES = """
import errno, json, os, subprocess, sys, threading
def tried(attempt):
    try:
        return attempt()
    except FileNotFoundError:
        return "no name"
    except OSError as error:
        return "refused" if error.errno in (errno.EACCES, errno.EROFS) else error.strerror
def named():
    name = f"/proc/self/task/{threading.get_native_id()}/comm"
    with open(name, "w") as file:
        file.write("cuda")
    return open(name).read().strip()
def appended(path):
    with open(path, "a"):
        return "worked"
if sys.argv[1:]:
    tries = {"its thread": named, "itself": lambda: open("/proc/self/status").read(5)}
    tries["its parent's score"] = lambda: appended(f"/proc/{sys.argv[1]}/oom_score_adj")
    tries["the machine's"] = lambda: appended("/proc/sys/kernel/core_pattern")
    tries["score"] = lambda: open(f"/proc/{os.getppid()}/oom_score_adj").read().strip()
    tries["others"] = lambda: os.path.exists("/proc/1/stat")
    print(json.dumps({name: tried(attempt) for name, attempt in tries.items()}))
else:
    code = open("tries.py").read()
    sys.exit(subprocess.run([sys.executable, "-c", code, str(os.getppid())], check=False).returncode)
"""


@pytest.fixture
def room() -> Iterator[Path]:
    """A folder that others may enter."""
    folder = Path(tempfile.mkdtemp(prefix="bourse-test-"))
    folder.chmod(0o755)
    (folder / "tries.py").write_text(TRIES)
    yield folder
    shutil.rmtree(folder)


# What systemd does to /proc for a service of an installation, and containers do: a part of it cannot be opened again.
CLOSED = "mount --make-rprivate / && mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys"


def attempts(room: Path, who: str, *, devices: bool, closed: bool = False) -> dict[str, object]:
    """What a program's process can do. It is `root`'s without rights, has an `account` of its own, or is a `user`'s
    whose launcher is not root either, as on a cluster, `walled` or not. `closed`: in such a service."""
    is_user = who.startswith("user") and os.geteuid() == 0
    rights = possible()
    if is_user:  # it cannot read our Python
        copy = copied(code_for([], ROOT, FOLDER / "gangs" / "code"), [], SHARED)
        rights = replace(rights, python=copy.python, environment=copy.environment, readable=copy.readable)
    if who != "root" and os.geteuid() == 0:
        os.chown(room, GUEST, GUEST)
    readable = rights.readable if who != "user" else ()
    place = words(
        str(room), GUEST if who == "account" else None, 60, asdict(SMALL), bare=who == "root", readable=readable,
        alone=bool(readable) and rights.alone, devices=["nvidia0"] if devices else [],
    )  # fmt: skip
    command = [rights.python, *place, rights.python, "-c", (room / "tries.py").read_text()]
    environment = {"PATH": os.environ["PATH"], **rights.environment}
    if is_user:
        command = ["setpriv", f"--reuid={GUEST}", f"--regid={GUEST}", "--clear-groups", *command]
    if closed:
        command = ["unshare", "--mount", "sh", "-c", f'{CLOSED} && exec "$@"', "sh", *command]
    done = subprocess.run(
        command, cwd="/", env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


@walled
@only_root
@pytest.mark.parametrize("devices", [False, True])
def test_a_program_with_an_account_sees_its_own_processes_and_names_its_threads(room: Path, *, devices: bool) -> None:
    if not possible().alone:
        pytest.skip("this machine gives no spaces of names")
    assert attempts(room, "account", devices=devices) == {
        "its thread": "cuda" if devices else "refused",
        "itself": "Name:",
        "its parent's score": "no name",
        "the machine's": "refused",
        "score": "1000",
        "others": False,
    }


@walled
@only_root
@pytest.mark.parametrize("devices", [False, True])
def test_by_the_name_of_root_nothing_in_proc_is_written(room: Path, *, devices: bool) -> None:
    answer = attempts(room, "root", devices=devices)
    assert (answer["its thread"], answer["the machine's"]) == ("refused", "refused")
    assert answer["its parent's score"] in ("refused", "no name")


@walled
@pytest.mark.parametrize("who", ["user", "user walled"])
@pytest.mark.parametrize("devices", [False, True])
def test_on_a_cluster_a_program_names_its_threads(room: Path, who: str, *, devices: bool) -> None:
    answer = attempts(room, who, devices=devices)
    assert answer["its thread"] == ("cuda" if devices else "refused")
    assert answer["the machine's"] == "refused"
    if devices or who == "user":
        assert (answer["itself"], answer["score"]) == ("Name:", "1000")


@walled
@only_root
@pytest.mark.parametrize("who", ["user walled", "account"])
def test_a_program_of_a_service_names_its_threads_where_a_part_of_proc_is_closed(room: Path, who: str) -> None:
    answer = attempts(room, who, devices=True, closed=True)
    assert (answer["its thread"], answer["itself"], answer["the machine's"]) == ("cuda", "Name:", "refused")


# GPUs of a machine that has no cluster. No test but the last one needs any: what a gang is given are names.
TWO = (Gpu("GPU-a", "nvidia0"), Gpu("GPU-b", "nvidia1"))
SAYS = 'echo "has $CUDA_VISIBLE_DEVICES."; while [ ! -e stop ]; do sleep 0.05; done'


def wants(number: int, text: str = SAYS, each: float = 1.0, **fields: Any) -> Gang:
    """A gang whose workers take GPUs."""
    gang = own(script(text), (time.time(), workers(number)), **fields)
    return replace(gang, amounts={"worker": {"gpu": each}, "ps": {"gpu": 0.0}})


def test_a_gang_may_open_the_devices_of_its_own_gpus_and_those_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ("dri", "infiniband", "nvidia-uvm", "nvidia0", "nvidia1", "nvidia10", "nvidiactl")
    for name in (*there, "sda", "mem"):
        (tmp_path / name).touch()
    monkeypatch.setattr(taking, "DEVICES_FOLDER", str(tmp_path))
    assert tuple(machine_devices()) == there
    own_locks = TakenGpus(tmp_path / "locks", TWO)
    others_locks = TakenGpus(tmp_path / "locks", TWO)
    assert others_locks.take(1)
    assert not own_locks.take(2)
    assert own_locks.take(1)
    assert (others_locks.names, others_locks.files) == (["GPU-a"], ["nvidia-uvm", "nvidia0", "nvidiactl"])
    assert (own_locks.names, own_locks.files) == (["GPU-b"], ["nvidia-uvm", "nvidia1", "nvidiactl"])


@pytest.mark.wide
def test_two_gangs_have_different_gpus_and_a_third_one_is_lost_that_finds_none() -> None:
    with engine_in(gpus=TWO) as engine:
        first, second = (start(engine, wants(1, home=f"job-{number}")) for number in (1, 2))
        until(lambda: all("has" in text_of(engine, each) for each in (first, second)), engine=engine)
        assert {text_of(engine, each).split()[-1] for each in (first, second)} == {"GPU-a.", "GPU-b."}
        third = start(engine, wants(1, home="job-3"))
        last = ended(engine, third)
        assert last.end == LOST
        assert last.detail == "it needs 1 GPU, and of the 2 of this machine too few are free"
        assert last.delivered == ()


def test_a_gpu_is_free_again_when_a_gang_ends_or_its_supervisor_is_killed() -> None:
    with engine_in(gpus=TWO[:1]) as engine:
        killed = start(engine, wants(1, home="job-1"))
        until(lambda: "has GPU-a" in text_of(engine, killed), engine=engine)
        os.kill(killed.reference["pid"], signal.SIGKILL)
        until(lambda: look(engine, killed).state == ENDED, engine=engine)
        for number in (2, 3):
            handle = start(engine, wants(1, 'echo "has $CUDA_VISIBLE_DEVICES."', home=f"job-{number}"))
            assert ended(engine, handle).end == FINISHED, story(engine, handle)
            assert "has GPU-a." in text_of(engine, handle)


def test_a_gang_waits_for_the_one_before_and_deals_its_gpus_to_its_members() -> None:
    with engine_in(gpus=TWO) as engine:
        before = TakenGpus(engine.root / "gpus", TWO)
        engine.touch()
        assert before.take(2)
        handle = start(engine, wants(2, 'echo "has $CUDA_VISIBLE_DEVICES."'))
        until(lambda: (engine.root / "job-7" / handle.key / "state.json").exists(), engine=engine)
        before.give_back()
        assert ended(engine, handle).end == FINISHED, story(engine, handle)
        assert {line for line in text_of(engine, handle).splitlines() if "has" in line} == {"has GPU-a.", "has GPU-b."}


def test_a_worker_of_two_gpus_has_both() -> None:
    with engine_in(gpus=TWO) as engine:
        handle = start(engine, wants(1, 'echo "has $CUDA_VISIBLE_DEVICES."', each=2.0))
        assert ended(engine, handle).end == FINISHED, story(engine, handle)
        assert "has GPU-a,GPU-b." in text_of(engine, handle)


def test_gangs_of_a_machine_whose_gpus_are_not_for_jobs_run_without() -> None:
    with engine_in() as engine:
        handle = start(engine, wants(1, 'echo "has ${CUDA_VISIBLE_DEVICES-}."'))
        assert ended(engine, handle).end == FINISHED, story(engine, handle)
        assert "has ." in text_of(engine, handle)


def test_pools_that_sell_more_gpus_than_there_are_break_a_promise() -> None:
    sold = {"s1": {"gpu": 2, "cpu": 8}, "s2": {"worker": 1}}
    with engine_in(gpus=TWO) as engine:
        assert ClusterFinding("LOCAL_GPUS has 2 GPUs, and pools here sell 3.") in engine.check(sold)
        assert not any(finding.breaks for finding in engine.check({"s1": {"gpu": 2, "cpu": 8}}))


# What the operator says.
LIST = "00000000:3B:00.0, GPU-a\n00000000:D8:00.0, GPU-b\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of two GPUs, as its driver describes it; the first on the bus is the second device."""
    for place, minor in (("0000:3b:00.0", 1), ("0000:d8:00.0", 0)):
        (tmp_path / "gpus" / place).mkdir(parents=True)
        (tmp_path / "gpus" / place / "information").write_text(f"Model: \t NVIDIA\nDevice Minor: \t {minor}\n")
    command = tmp_path / "nvidia-smi"
    command.write_text(f"#!/bin/sh\nprintf '{LIST}'\n")
    command.chmod(0o755)
    monkeypatch.setattr(gpus, "INFORMATION", tmp_path / "gpus")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("words", "files"),
    [("all", ["nvidia1", "nvidia0"]), ("0", ["nvidia0"]), ("GPU-a, 0,1", ["nvidia1", "nvidia0"]), ("", [])],
)
def test_an_operator_names_gpus_by_their_devices_or_uuids(words: str, files: list[str]) -> None:
    assert [each.file for each in gpus_of(words)] == files


@pytest.mark.parametrize(
    ("words", "answer", "sentence"),
    [
        ("2", "", "LOCAL_GPUS names '2', and this machine has 1 (GPU-a), 0 (GPU-b)."),
        ("all", "echo broken; exit 9", "returned non-zero exit status 9"),
        ("all", "echo 0000:99:00.0, GPU-c", "No such file"),
    ],
)
def test_a_machine_that_has_other_gpus_says_so(machine: Path, words: str, answer: str, sentence: str) -> None:
    if answer:
        (machine / "nvidia-smi").write_text(f"#!/bin/sh\n{answer}\n")
    with pytest.raises(WrongEngine) as error:
        gpus_of(words)
    assert sentence in str(error.value)


def test_a_machine_without_gpus_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(WrongEngine, match="there is no nvidia-smi"):
        gpus_of("all")


# With a GPU.
@pytest.mark.skipif(
    not Path("/dev/nvidia0").exists() or importlib.util.find_spec("torch") is None,
    reason="this machine has no GPU with a driver of NVIDIA's, or no PyTorch",
)
@pytest.mark.parametrize("where", ["here", "cluster"])
def test_pytorch_trains_on_the_gpu_that_the_gang_was_given(where: str) -> None:
    rights = possible()
    if where == "cluster":  # which gives a program no walls but those around what it may write
        rights = replace(rights, readable=(), alone=False)
        if os.geteuid() == 0 and not rights.own:
            pytest.skip("no program of a cluster has the name of root")
    (gpu, *_) = there = gpus_of("all")
    files = archive(cuda_train__py=(HERE / "cuda_train.py").read_bytes())
    with engine_in(limits=ProcessLimits(), rights=rights, gpus=there) as engine:
        handle = start(engine, wants(1, "python3 cuda_train.py", packed=files, seconds=PATIENCE))
        assert ended(engine, handle, patience=PATIENCE).end == FINISHED, story(engine, handle)
        (line,) = (line for line in text_of(engine, handle).splitlines() if line.startswith("on "))
    assert line.startswith(f"on 1 of {gpu.name}:")
    first, last = (float(word) for word in line.split(": ")[1].split(" to "))
    assert last < first / 100

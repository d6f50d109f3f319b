"""The launcher by itself: one file, begun on one machine as several parts, and whoever is killed, nobody is left."""

from __future__ import annotations

import ast
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from scheduling.engines.base import Generation
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.logbook import several
from scheduling.engines.launcher.one_file import PURE, launcher_file, sources
from scheduling.engines.launcher.parts import HAS_ENDED, NO_PLAN, RUNS_ALREADY, GangPart, dealt, free_ports, part_name
from scheduling.engines.launcher.trainer_supervisor import TrainerSupervisor
from scheduling.engines.plans import continued
from scheduling.engines.ranks import members
from tests.engines.local import ALL, QUICK, ROOT, SMALL, kill_people_of, people_of, until
from tests.patience import PATIENCE

CARRIED = {"scheduling.engines.base", "scheduling.engines.launcher", "scheduling.programs"} | {
    *(f"scheduling.programs.{each}" for each in PURE)
}
SHORT = QUICK | {"epochs": 4, "minibatch_ms": 20.0, "chunks": 4}


def test_one_file_needs_the_standard_library_of_python_3_9_alone(tmp_path: Path) -> None:
    for path in sources():
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                ours = name in CARRIED
                assert ours or name.startswith("scheduling.engines.launcher.") or _is_standard(name), (path, name)
    file = launcher_file(tmp_path)
    assert launcher_file(tmp_path) == file
    done = subprocess.run(
        [sys.executable, "-I", "-S", file, "part", str(tmp_path), "job-1", "key", "1", "n1"],
        capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (NO_PLAN, f"There is no plan {tmp_path}/job-1/key/plan.json.\n")


def test_one_file_has_what_this_python_compiled_and_another_one_reads_the_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(file: Path) -> str:
        module = "scheduling.engines.launcher.watch"
        code = f"import sys; sys.path[0] = {str(file)!r}; import {module} as watch; print(watch.__file__)"
        return subprocess.run(
            [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd="/"
        ).stdout.strip()

    ours = launcher_file(tmp_path)
    assert loaded(ours) == f"{ours}/scheduling/engines/launcher/watch.pyc"
    monkeypatch.setattr("importlib.util.MAGIC_NUMBER", b"\x00\x00\r\n")
    theirs = launcher_file(tmp_path)
    assert theirs != ours
    assert loaded(theirs) == f"{theirs}/scheduling/engines/launcher/watch.py"


def _is_standard(name: str) -> bool:
    return name.split(".")[0] in sys.stdlib_module_names


class Parts:
    """A gang whose parts are processes of this test."""

    def __init__(
        self, root: Path, servers: dict[str, dict[str, int]], *, after: float, seconds: float, gather: float = PATIENCE
    ) -> None:
        self.root, self.key = root, secrets.token_hex(8)  # `people_of` looks for it on the whole machine
        at = time.time() + after
        values = ALL["trainer"].validate(SHORT)
        assert isinstance(values, dict)
        self.launcher = launcher_file(root)
        plan: dict[str, Any] = {
            "python": sys.executable, "launch": ["-S", str(self.launcher), "launch"],
            "environment": {"PYTHONPATH": str(ROOT)}, "readable": [], "beside": [], "uid": None, "bare": False,
            "arguments": list(ALL["trainer"].arguments(values)), "secret": "0" * 32, "hosts": {},
            "phases": continued([], [Generation(1, at, at + seconds, servers)], time.time()),
            "end_at": at + seconds, "stop": "", "limits": asdict(SMALL), "cpu_seconds": 60,
            "lease_seconds": 30.0, "gather_seconds": gather,
        }  # fmt: skip
        self.folder = Folder(root, "job-1", self.key)
        self.folder.make()
        files.write(self.folder.plan, plan)
        self.folder.alive.touch()
        self.processes: list[subprocess.Popen[bytes]] = []

    def begin(self, server: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, str(self.launcher), "part", str(self.root), "job-1", self.key, "1", server]
        with (self.root / f"{server}.out").open("ab") as out:
            process = subprocess.Popen(words, env={"PATH": os.environ["PATH"]}, stdout=out, stderr=out, cwd="/")
        self.processes.append(process)
        return process

    def record(self, server: str) -> dict[str, Any]:
        return files.read(Folder(self.root, "job-1", self.key, part_name(1, server)).state) or {}

    def story(self) -> str:
        outputs = [f"{path.name}: {path.read_text()}" for path in self.root.glob("*.out")]
        logs = [f"{path.parent.name}: {path.read_text()}" for path in self.folder.ours.glob("*/log")]
        return "\n".join([*outputs, *logs])


@contextmanager
def parts(
    root: Path,
    servers: dict[str, dict[str, int]],
    *,
    after: float = 1.0,
    seconds: float = 30.0,
    gather: float = PATIENCE,
) -> Iterator[Parts]:
    own_parts = Parts(root, servers, after=after, seconds=seconds, gather=gather)
    try:
        yield own_parts
    finally:
        for process in own_parts.processes:
            process.kill()
            process.wait(60)
        kill_people_of(own_parts.key)
        until(lambda: not people_of(own_parts.key))


UNEVEN = {"n1": {"worker": 1, "ps": 1}, "n2": {"worker": 2, "ps": 0}}


def test_parts_find_each_other_work_together_and_end_together(tmp_path: Path) -> None:
    with parts(tmp_path, UNEVEN) as gang:
        first, second = gang.begin("n2"), gang.begin("n1")
        until(lambda: second.poll() is not None and first.poll() is not None, gang.story)
        assert (first.returncode, second.returncode) == (0, 0)
        for server in ("n1", "n2"):
            assert (gang.record(server)["end"], gang.record(server)["detail"]) == (
                "finished", "the program did all of its work",
            )  # fmt: skip
        assert gang.record("n1")["progress"]["epoch"] == 4
        assert gang.begin("n1").wait(60) == HAS_ENDED


def test_part_is_claimed_once(tmp_path: Path) -> None:
    with parts(tmp_path, {"n1": {"worker": 1, "ps": 1}}, after=20.0) as gang:
        gang.begin("n1")
        until(lambda: gang.record("n1").get("state") == "waiting", gang.story)
        assert gang.begin("n1").wait(60) == RUNS_ALREADY


def test_where_not_all_parts_come_nobody_begins(tmp_path: Path) -> None:
    with parts(tmp_path, UNEVEN, gather=1.0) as gang:
        gang.begin("n1").wait(60)
        record = gang.record("n1")
        assert (record["end"], record["detail"], record["started_at"]) == ("lost", "not all parts came: n2", None)


@pytest.mark.parametrize("which", [0, 1])
def test_nobody_outlives_either_of_the_two_that_watch(tmp_path: Path, which: int) -> None:
    with parts(tmp_path, {"n1": {"worker": 1, "ps": 1}}) as gang:
        gang.begin("n1")
        until(lambda: gang.record("n1").get("state") == "running", gang.story)
        ours = (each for each in people_of(str(tmp_path)) if "part" in each.cmdline())  # others have an n1, too
        watching = sorted(ours, key=lambda each: each.pid)
        assert len(watching) == 2
        watching[which].kill()
        until(lambda: gang.record("n1").get("state") == "ended", gang.story)
        assert (gang.record("n1")["end"], gang.record("n1")["detail"]) == ("lost", "whoever watched over it was killed")
        until(lambda: not [each for each in people_of(gang.key) if each.pid != gang.processes[0].pid])


def test_part_whose_watcher_ends_before_its_first_word_is_lost_with_all_that_the_others_read(tmp_path: Path) -> None:
    with (
        parts(tmp_path, {"n1": {"worker": 1, "ps": 1}}, after=20.0) as gang,
        parts(tmp_path / "whole", UNEVEN) as whole,
    ):
        plan = files.read(gang.folder.plan) or {}
        files.write(gang.folder.plan, {name: plan[name] for name in plan if name != "limits"})  # it cannot begin
        gang.begin("n1").wait(60)
        whole.begin("n1")
        until(lambda: whole.record("n1").get("state") == "waiting", whole.story)
        assert (gang.record("n1")["end"], gang.record("n1")["detail"]) == ("lost", "whoever watched over it was killed")
        assert whole.record("n1").keys() <= gang.record("n1").keys()


def test_part_goes_on_while_the_shared_folder_takes_nothing_and_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gang = Parts(tmp_path, {"n1": {"worker": 1, "ps": 1}}, after=0.0, seconds=30.0)
    folder = Folder(tmp_path, "job-1", gang.key, part_name(1, "n1"))
    folder.make()
    watching = TrainerSupervisor(folder, GangPart(1, "n1"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    for _ in range(2):  # what nobody could read is said again
        with pytest.raises(OSError, match="No space"):
            watching.tell()
    now, end = time.time(), watching.plan["end_at"]
    watching.endure(now)
    assert watching.stopping is None
    watching.spoke_at = time.monotonic() - 31.0
    watching.endure(now)
    assert watching.stopping is not None
    assert watching.stopping[:2] == ("paused", "the shared folder does not answer")
    watching.stopping = None
    watching.endure(end - 1.0)
    assert watching.stopping == ("stopped", "its reservation ends", end - 0.6)


def test_order_to_stop_at_the_last_moment_does_not_outlive_the_slot(tmp_path: Path) -> None:
    gang = Parts(tmp_path, {"n1": {"worker": 1, "ps": 1}}, after=0.0, seconds=30.0)
    folder = Folder(tmp_path, "job-1", gang.key, part_name(1, "n1"))
    folder.make()
    watching = TrainerSupervisor(folder, GangPart(1, "n1"))
    end = watching.plan["end_at"]
    files.write(folder.plan, {**(files.read(folder.plan) or {}), "stop": "stopped"})
    watching.look(end - 1.6)
    assert watching.stopping == ("stopped", "the engine asked for it", end - 0.6)


@pytest.mark.parametrize("changes", [{"stop": "stopped"}, {"end_at": 0.0}])
def test_end_of_a_gang_is_told_with_the_reason_of_its_plan(tmp_path: Path, changes: dict[str, Any]) -> None:
    gang = Parts(tmp_path, {"n1": {"worker": 1, "ps": 1}}, after=0.0, seconds=30.0)
    folder = Folder(tmp_path, "job-1", gang.key, part_name(1, "n1"))
    folder.make()
    watching = TrainerSupervisor(folder, GangPart(1, "n1"))
    files.write(folder.plan, {**(files.read(folder.plan) or {}), **changes, "why": "its job was cancelled"})
    watching.look(time.time())
    assert watching.stopping is not None
    assert watching.stopping[:2] == ("stopped", "its job was cancelled")


def test_gpus_of_a_part_are_dealt_to_its_members_in_order() -> None:
    there = {"CUDA_VISIBLE_DEVICES": "2,3,5"}
    own = [("worker", 0), ("worker", 1), ("ps", 0)]
    assert dealt(own, {"worker": 1}, there) == {
        "worker 0": {"CUDA_VISIBLE_DEVICES": "2"},
        "worker 1": {"CUDA_VISIBLE_DEVICES": "3"},
        "ps 0": {"CUDA_VISIBLE_DEVICES": ""},
    }
    assert dealt(own, {"worker": 1}, {}) == {}


def test_ports_are_free_and_different() -> None:
    ports = free_ports("about", 8)
    assert len(set(ports)) == 8


def test_plan_that_goes_on_keeps_ranks_and_is_the_same_when_told_again() -> None:
    small, large = {"n1": {"worker": 1, "ps": 1}}, {"n1": {"worker": 1, "ps": 1}, "n2": {"worker": 1, "ps": 0}}
    plan = continued([], [Generation(1, 10.0, 20.0, small)], 0.0)
    more = continued(plan, [Generation(2, 20.0, 30.0, large)], 0.0)
    assert [phase["number"] for phase in more] == [1, 2]
    assert more[1]["members"] == [["ps", 0, "n1"], ["worker", 0, "n1"], ["worker", 1, "n2"]]
    assert continued(more, [Generation(2, 20.0, 30.0, large)], 25.0)[-1] == more[1]
    same = continued(more, [Generation(3, 30.0, 40.0, large)], 0.0)
    assert [(phase["number"], phase["end"]) for phase in same] == [(1, 20.0), (2, 40.0)]
    assert continued(same, [Generation(3, 30.0, 40.0, large)], 35.0) == same[-1:]
    less = continued(same, [Generation(4, 40.0, 50.0, small)], 35.0)
    assert [(phase["number"], phase["end"]) for phase in less] == [(2, 40.0), (4, 50.0)]


def test_gang_without_parameter_servers_keeps_ranks_too() -> None:
    before = members({"n1": {"worker": 2}})
    after = members({"n1": {"worker": 1}, "n2": {"worker": 1}}, before)
    assert [(one.rank, one.server) for one in after] == [(0, "n1"), (2, "n2")]


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 processes"), (1, "1 process"), (2, "2 processes"), (1_200, "1,200 processes")]
)
def test_log_counts_as_people_do(count: int, words: str) -> None:
    assert several(count, "process", "processes") == words
    assert several(count, "start") == words.replace("processes", "starts").replace("process", "start")

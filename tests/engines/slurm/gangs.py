"""Gangs on a cluster that the test started, and an engine that is driven by hand."""

from __future__ import annotations

import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from scheduling.engines.base import ENDED, Fault, Gang, Generation, Handle, Status
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.parts import part_name
from scheduling.engines.slurm.commands import queue
from scheduling.engines.slurm.engine import SlurmEngine
from scheduling.engines.slurm.settings import SlurmSettings
from tests.engines.local import ALL, QUICK, ROOT, SMALL, people_of
from tests.engines.logs import log_lines
from tests.engines.slurm.cluster import Cluster
from tests.patience import PATIENCE

LONG = QUICK | {"epochs": 1000, "minibatch_ms": 20.0, "chunks": 4}
SHORT = LONG | {"epochs": 4}
Counts = Mapping[str, Mapping[str, int]]


def settings(slurm: Cluster, **changed: Any) -> SlurmSettings:
    values = {
        "kind": "slurm",
        "partition": "main",
        "reservation": "bourse",
        "shared": str(slurm.shared),
        "python": sys.executable,
        "conf": str(slurm.conf),
        "resources": {"worker": "cpus", "ps": "cpus"},
    }
    return SlurmSettings.read("slurm", values | changed)


@contextmanager
def engine_on(
    slurm: Cluster,
    own: Path | None = None,
    knows: Sequence[Handle] = (),
    tools: Path | None = None,
    clock: Callable[[], float] = time.time,
    **changed: Any,
) -> Iterator[SlurmEngine]:
    """An engine with a folder and a prefix of its own, or another's; whatever of it is left in the end is cancelled.
    `tools`: programs that it calls in place of those of the same name."""
    root = own or slurm.folder / f"own-{secrets.token_hex(4)}"
    whole = settings(slurm, **{"prefix": root.name.replace("-", "")} | changed)
    engine = SlurmEngine("slurm", whole, root, ROOT, ALL, limits=SMALL, clock=clock)
    if tools:
        engine.commands.environment["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    engine.touch()
    engine.reconcile(knows)
    try:
        yield engine
    finally:
        if jobs := [job.id for job in queue(engine.commands)[1] if not job.is_over]:
            slurm.call("scancel", *jobs)
        for process in members_of(slurm, root):
            with suppress(psutil.Error):  # it has ended meanwhile
                process.kill()


def tool(slurm: Cluster, name: str, script: str) -> Path:
    """A folder with that program."""
    folder = slurm.folder / f"tools-{secrets.token_hex(4)}"
    folder.mkdir()
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)
    return folder


def members_of(slurm: Cluster, root: Path) -> list[psutil.Process]:
    """Processes of the gangs whose plans are in that folder: they name the cluster's own folder and the gang's key. A
    shorter word would be that of others on this machine."""
    keys = [folder.name for folder in root.glob("job-*/*") if re.fullmatch("[0-9a-f]{32}", folder.name)]
    members = []
    for process in people_of(str(slurm.folder)):
        with suppress(psutil.Error):  # it has ended meanwhile
            text = " ".join([*process.cmdline(), *process.environ().values()])
            members += [process] if any(key in text for key in keys) else []
    return members


def gang(servers: Counts, parameters: Mapping[str, Any] = LONG, *, after: float = 1.0, seconds: float = 300.0,
         program: str = "trainer", home: str = "") -> Gang:  # fmt: skip
    """That begins in a moment, all of it one generation."""
    at = time.time() + after
    values = ALL[program].validate(parameters)
    assert isinstance(values, dict), values
    generation = Generation(1, at, at + seconds, servers)
    amounts = {role: {role: 1.0} for role in ("worker", "ps")}
    key = secrets.token_hex(16)
    return Gang(key, home or f"job-{key[:6]}", program, values, (generation,), at + seconds, amounts=amounts)


def start(engine: SlurmEngine, order: Gang) -> Handle:
    answer = engine.submit([order])[order.key]
    assert not isinstance(answer, Fault), answer
    return answer


def look(engine: SlurmEngine, handle: Handle) -> Status:
    engine.touch()
    return engine.observe([handle])[handle.key]


def until(
    engine: SlurmEngine, handle: Handle, condition: Callable[[Status], object], patience: float = PATIENCE
) -> Status:
    """Look again and again until its status is so."""
    deadline = time.monotonic() + patience
    while not condition(status := look(engine, handle)):
        assert time.monotonic() < deadline, f"it did not come true in {patience:g} s\n{status}\n{story(engine, handle)}"
        time.sleep(0.1)
    return status


def runs(engine: SlurmEngine, handle: Handle, epoch: int = 1) -> Status:
    """It trains, and has come so far."""
    return until(engine, handle, lambda status: status.progress.get("epoch", 0) >= epoch)


def ended(engine: SlurmEngine, handle: Handle, patience: float = PATIENCE) -> Status:
    return until(engine, handle, lambda status: status.state == ENDED, patience)


def record(engine: SlurmEngine, handle: Handle, server: str, generation: int = 1) -> dict[str, Any]:
    """What the launcher on that server wrote last."""
    return files.read(Folder(engine.shared, handle.home, handle.key, part_name(generation, server)).state) or {}


def came_at(engine: SlurmEngine, handle: Handle, server: str, generation: int = 1) -> float:
    """When its part was claimed there, which is the first that a launcher does."""
    return Folder(engine.shared, handle.home, handle.key, part_name(generation, server)).lock.stat().st_mtime


def pid_of(engine: SlurmEngine, handle: Handle, server: str, role: str, rank: int = 0) -> int:
    members = record(engine, handle, server)["members"]
    return int(next(pid for one, number, _, pid in members if (one, number) == (role, rank)))


def launchers(handle: Handle, server: str) -> list[Any]:
    """The two processes that watch over a part, the outer one first."""
    parts = [each for each in people_of(handle.key) if each.cmdline()[-1:] == [server] and "part" in each.cmdline()]
    return sorted(parts, key=lambda each: each.pid)


def nobody_is_left(handle: Handle, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while people := people_of(handle.key):
        assert time.monotonic() < deadline, str(people)
        time.sleep(0.05)


def log_of(engine: SlurmEngine, handle: Handle) -> str:
    lines = log_lines(engine.root, handle.home, handle.key)
    return "\n".join(f"{line.role} {line.rank} {line.text}" for line in lines)


def story(engine: SlurmEngine, handle: Handle) -> str:
    folder = engine.shared / handle.home / handle.key
    outputs = [f"{path.name}: {path.read_text(errors='replace')[-800:]}" for path in sorted(folder.glob("*.out"))]
    jobs = [str(job) for job in engine.jobs.listing.jobs.values() if job.key == handle.key]
    return "\n".join([log_of(engine, handle), *outputs, *jobs])

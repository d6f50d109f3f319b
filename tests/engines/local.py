"""A local engine in a folder of its own; whatever of it is left at the end is killed by its id."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from marketplace.embedded.programs import SHARED
from scheduling.engines.base import ENDED, Fault, Gang, Generation, Handle, LogLine, Status
from scheduling.engines.launcher.files import GangRecords
from scheduling.engines.launcher.limits import ProcessLimits
from scheduling.engines.local.accounts import Rights, rights
from scheduling.engines.local.engine import LocalEngine
from scheduling.engines.programs import PROGRAMS, WHOLE, RegisteredProgram, TrainerParameter
from tests.conftest import FOLDER
from tests.engines.logs import log_lines
from tests.patience import PATIENCE

ROOT = Path(__file__).parent.parent.parent
SINS = ("fork", "eat", "swell", "flood", "deaf", "outside", "spin", "fill", "suicide", "peek", "die")
NAUGHTY = RegisteredProgram(
    name="naughty",
    title="Naughty",
    description="",
    module="tests.engines.naughty",
    parameters=(
        TrainerParameter(
            "sin",
            "Sin",
            "",
            "choice",
            "deaf",
            choices=tuple((sin, sin) for sin in SINS),
        ),
        *(TrainerParameter(name, name, "", WHOLE, 1, 1, 1000) for name in ("epochs", "chunks", "minibatches")),
    ),
)
MISSING = RegisteredProgram("missing", "Missing", "", "tests.engines.nowhere", ())
ALL = {**PROGRAMS, "naughty": NAUGHTY, "missing": MISSING}
SMALL = ProcessLimits(processes=30, processes_of_member=1, memory_mb=100, address_space_mb=1024, log_mb=1, disk_mb=20)
QUICK = {
    "model": "logistic",
    "features": 4,
    "chunks": 2,
    "minibatches": 5,
    "batch_size": 4,
    "stragglers": "ignore",
}


@cache
def possible() -> Rights:
    """What works here, tried once in a run of the tests."""
    return rights(FOLDER / "gangs", ROOT, ALL.values(), SMALL, shared=SHARED)


@contextmanager
def engine_in(folder: Path | None = None, **settings: Any) -> Iterator[LocalEngine]:
    """Its root is taken away at the end, with everybody who lives for it."""
    root = folder or Path(tempfile.mkdtemp(prefix="bourse-test-"))
    root.chmod(0o711)
    try:
        yield LocalEngine(root / "runs", ROOT, ALL, **({"limits": SMALL, "rights": possible()} | settings))
    finally:
        kill_people_of(str(root))
        until(lambda: not people_of(str(root)))
        if folder is None:
            shutil.rmtree(root)


def people_of(word: str) -> list[psutil.Process]:
    """Everybody whose command line or environment has the word; not those that have ended."""
    people = []
    for process in psutil.process_iter():
        try:
            text = " ".join(process.cmdline()) + " ".join(process.environ().values())
            if word in text and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                people.append(process)
        except psutil.Error:
            continue
    return people


def kill_people_of(word: str) -> None:
    """Each of them that has not ended meanwhile."""
    for process in people_of(word):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def nobody_is_left(key: str) -> None:
    """Of this gang. Its supervisor has said so; it needs a moment to end itself."""
    until(lambda: not people_of(key), lambda: str(people_of(key)))


def on(workers: int, ps: int = 1, server: str = "s1") -> dict[str, dict[str, int]]:
    """So many on one server."""
    return {server: {"worker": workers, "ps": ps}}


def generations(*parts: tuple[float, dict[str, dict[str, int]]], end: float) -> tuple[Generation, ...]:
    """One after the other, each from its moment to the next one's."""
    ends = [*(at for at, _ in parts[1:]), end]
    return tuple(
        Generation(number, at, until, servers)
        for number, ((at, servers), until) in enumerate(zip(parts, ends, strict=True))
    )


def start(engine: LocalEngine, order: Gang) -> Handle:
    """It is started, and found again by this."""
    answer = engine.submit([order])[order.key]
    assert not isinstance(answer, Fault), answer
    return answer


def look(engine: LocalEngine, handle: Handle) -> Status:
    return engine.observe([handle])[handle.key]


def gang(program: str, parameters: dict[str, Any], *, seconds: float = 20.0, workers: int = 1, **fields: Any) -> Gang:
    now = time.time()
    values = ALL[program].validate(parameters)
    assert isinstance(values, dict), values
    parts = fields.pop("parts", ((now, on(workers)),))
    planned = generations(*parts, end=now + seconds)
    return Gang(secrets.token_hex(16), "job-1", program, values, planned, now + seconds, **fields)


def ended(engine: LocalEngine, handle: Handle, patience: float = PATIENCE) -> Status:
    """Its last word."""
    until(lambda: look(engine, handle).state == ENDED, lambda: story(engine, handle), patience, engine)
    return look(engine, handle)


BUSY_SECONDS = 10.0  # for so long a busy machine may keep a supervisor from the processor


def gone_by(end_at: float, status: Status) -> bool:
    """Return whether its reservation's end ended it, and nothing later. How many milliseconds before or after it that
    was is measured by the bench, on a machine with nothing else to do."""
    return status.ended_at is not None and status.ended_at <= end_at + BUSY_SECONDS


def await_event(engine: LocalEngine, handle: Handle, event: str, patience: float = PATIENCE) -> None:
    """Wait until its program has told of this."""

    def came() -> bool:
        return any(row["event"] == event for row in GangRecords(engine.root).progress(handle.home, handle.key))

    until(came, lambda: story(engine, handle), patience, engine)


def lines(engine: LocalEngine, handle: Handle) -> list[LogLine]:
    return log_lines(engine.root, handle.home, handle.key)


def text_of(engine: LocalEngine, handle: Handle) -> str:
    return "\n".join(line.text for line in lines(engine, handle))


def process_of(engine: LocalEngine, handle: Handle, role: str, rank: int = 0) -> psutil.Process:
    """One of its members, as its supervisor lists it."""
    from scheduling.engines.launcher.files import Folder, read

    state = read(Folder(engine.root, handle.home, handle.key).state) or {}
    return psutil.Process(next(pid for one, number, _, pid in state["members"] if (one, number) == (role, rank)))


def kill(process: psutil.Process) -> None:
    process.send_signal(signal.SIGKILL)


def story(engine: LocalEngine, handle: Handle) -> str:
    text = "\n".join(f"{line.role} {line.rank} {line.text}" for line in lines(engine, handle))
    log = (engine.root / handle.home / handle.key / "supervisor.log").read_text()
    return f"{look(engine, handle)}\n{text}\n{log}"


def until(
    condition: Callable[[], object],
    say: Callable[[], str] = lambda: "",
    patience: float = PATIENCE,
    engine: LocalEngine | None = None,
) -> None:
    """Ask again and again until it is true. Whoever is waited for needs the processor too: a question that takes long
    is asked more seldom."""
    deadline, begin = time.monotonic() + patience, time.monotonic()
    while not condition():
        took = time.monotonic() - begin
        assert time.monotonic() < deadline, f"it did not come true in {patience:g} s\n{say()}"
        if engine:
            engine.touch()
        time.sleep(min(max(0.02, 3 * took), 0.2))
        begin = time.monotonic()

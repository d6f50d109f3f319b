"""What the market asks of an engine. An engine carries out and tells; what follows from that, services decide.

A gang is the processes of one award. Who runs where and when is known when it starts (`Phase`), so slots are kept even
while nobody looks. Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

WAITING, RUNNING, ENDED = "waiting", "running", "ended"

# How a gang ends.
FINISHED = "finished"  # the program did all of its work
STOPPED = "stopped"  # we asked it to, or its time was over
FAILED = "failed"  # the program's own fault, or it went beyond its limits
LOST = "lost"  # the platform's fault
PAUSED = "paused"  # the market was stopped; what was saved can go on


class EngineFault(Exception):
    """A gang could not be started. The message is a sentence."""


@dataclass(frozen=True)
class Member:
    """One worker or parameter server, and the server it is on."""

    role: str  # worker | ps
    rank: int
    server: str


@dataclass(frozen=True)
class Phase:
    """From `at` on, these members and no others; none: the gang pauses."""

    at: float
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Gang:
    """What is to run. `key` is ours, and never used twice; `home` names what is kept from one gang to the next."""

    key: str
    home: str
    program: str
    parameters: Mapping[str, Any]
    phases: tuple[Phase, ...]
    end_at: float  # by then it is gone
    open_ended: bool = False  # its end will be moved on and on


@dataclass(frozen=True)
class Handle:
    """Whom to look for: a process is the same one only if it also began at the same moment."""

    key: str
    home: str
    pid: int
    began: int  # clock ticks since the machine started


@dataclass(frozen=True)
class Status:
    """`state`: waiting, running or ended. The rest as far as it is known."""

    state: str
    started_at: float | None = None
    ended_at: float | None = None
    end: str = ""  # how it ended, one of the five words above
    detail: str = ""
    exit_code: int | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)  # the newest of what the program told
    restarts: int = 0  # of workers that were lost


@dataclass(frozen=True)
class LogLine:
    at: float
    role: str
    rank: int
    text: str


@dataclass(frozen=True)
class LogPage:
    """`after`: where the next page begins. `more`: there is one already."""

    lines: tuple[LogLine, ...]
    after: int
    more: bool


class Engine(Protocol):
    """One way of running gangs."""

    name: str

    def start(self, gang: Gang) -> Handle:
        """Whole or not at all, at its first phase; raises `EngineFault`. Started again, it is the same gang."""

    def status(self, handle: Handle) -> Status:
        """How it is now. One that is gone without a word is lost."""

    def change(self, handle: Handle, end_at: float, phases: Sequence[Phase] | None = None) -> None:
        """Move its end; with phases, resize it too: from now on they say who runs."""

    def stop(self, handle: Handle, *, pause: bool = False) -> None:
        """Save and end, soon. `pause`: it will go on."""

    def find(self, home: str, key: str) -> Handle | None:
        """A gang that lives and whose handle was not kept: we died between starting it and writing that down."""

    def reconcile(self, handles: Sequence[Handle]) -> None:
        """After a restart: those that live are ours again; whatever else of ours lives is ended."""

    def pause_all(self) -> int:
        """Whoever is there saves and ends, to go on later; how many there still are. For when rows cannot be asked."""

    def touch(self) -> None:
        """We are there. Gangs of an engine that is silent for too long save and end by themselves."""


class Records(Protocol):
    """What is kept of gangs, for readers in other processes."""

    def log(self, home: str, key: str, after: int, most: int) -> LogPage: ...

    def log_tail(self, home: str, key: str, lines: int) -> LogPage: ...

    def progress(self, home: str, key: str) -> Sequence[Mapping[str, Any]]: ...


def folder_of(root: Path, home: str) -> Path:
    """Where everything about one home lies."""
    return root / home

"""What the market asks of an engine. An engine carries out and tells; what follows from that, services decide.

A gang is the processes of one award. How many run where and when is known when it is submitted (`Generation`), so slots
are kept even while nobody looks. Times are seconds since 1970. Nothing here is about one kind of cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from scheduling.programs.starting import Command

# States of a gang. `unknown`: it cannot be asked about, which is not the same as being lost.
ACCEPTED, WAITING, RUNNING, STOPPING, ENDED = "accepted", "waiting", "running", "stopping", "ended"
UNKNOWN = "unknown"

# How a gang ends.
FINISHED = "finished"  # the program did all of its work
STOPPED = "stopped"  # we asked it to, or its time was over
FAILED = "failed"  # the program's own fault, or it went beyond its limits
LOST = "lost"  # the platform's fault
PAUSED = "paused"  # the market was stopped; what was saved can go on

# States of a server.
UP, DRAINING, DOWN = "up", "draining", "down"

# What sentences about losses hold, by what was the matter: one text for those who write them and those who count them.
NOT_ALL_CAME = "not all parts came"
NOT_HEARD = "nothing is heard of its part"
GUARD_KILLED = "whoever watched over it was killed"
BY_OPERATOR = "or an operator"
CLOCK = "the clock of"


class WrongEngine(Exception):
    """An engine's settings cannot be used, or there is no engine of this name. The message is a sentence."""


@dataclass(frozen=True)
class Fault:
    """Why a gang could not be started, as a sentence."""

    sentence: str


@dataclass(frozen=True)
class Timings:
    """What an engine can keep, in seconds. The market refunds a gang of which it has heard nothing for `patience`; the
    gang is gone by then, since without its engine it saves and ends after `lease`, within `stop`."""

    lead: float  # so long before its slot a gang is submitted
    least_slot: float  # pools with shorter slots are not for this engine
    patience: float
    lease: float
    stop: float
    server_grace: float = 60.0  # a server that is down for longer is lost, and back once it was up for as long

    def __post_init__(self) -> None:
        if self.patience <= self.lease + self.stop:
            raise ValueError("a gang must be gone before its slots are refunded: patience > lease + stop")

    @property
    def spare(self) -> float:
        """For how long an engine that is busy may keep the lease without looking at its gangs."""
        return self.patience - self.lease - self.stop


@dataclass(frozen=True)
class Member:
    """One worker or parameter server, and the server it is on."""

    role: str  # worker | ps
    rank: int
    server: str


Counts = Mapping[str, Mapping[str, int]]  # by server, then by role or resource


@dataclass(frozen=True)
class Generation:
    """From `at` to `end`, so many of each role on each server and no others; nobody: the gang pauses.

    `number` names it within its gang for good and grows with time: it is the slot with which it begins.
    """

    number: int
    at: float
    end: float
    servers: Counts


def merged(generations: Sequence[Generation]) -> tuple[Generation, ...]:
    """Neighbours that are the same gang are one generation."""
    gangs: list[Generation] = []
    for each in generations:
        if gangs and gangs[-1].servers == each.servers and gangs[-1].end == each.at:
            gangs[-1] = replace(gangs[-1], end=each.end)
        else:
            gangs.append(each)
    return tuple(gangs)


@dataclass(frozen=True)
class OwnProgram:
    """A version of a program that people brought, with a job's values: what an engine starts as it is.

    `script`: the text of the file that the command names, if it names one. `archive`: a tar.gz, unpacked into the job's
    folder. `limits`: of a unit, by the catalogue's names; what is not there is as the engine has it.
    """

    name: str
    command: Command
    job: int
    slot_seconds: float
    script: str = ""
    archive: bytes | None = None
    keeps_size: bool = False  # one size from start to end; else it is saved, ended and started again at another size
    grace_seconds: float = 30.0  # between "save and end" and the end
    limits: Mapping[str, int] = field(default_factory=dict)
    image: str = ""
    modules: tuple[str, ...] = ()
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # variable, value: for the processes alone


@dataclass(frozen=True)
class Gang:
    """What is to run. `key` is ours, and never used twice; `home` names what is kept from one gang to the next.

    `amounts`: what one member of a role takes of each resource, for engines that reserve it.
    """

    key: str
    home: str
    program: str
    parameters: Mapping[str, Any]
    generations: tuple[Generation, ...]
    end_at: float  # by then it is gone
    open_ended: bool = False  # its end will be moved on and on
    amounts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    tenant: str = ""  # whose it is, for engines that keep accounts
    own: OwnProgram | None = None  # in place of `program` and `parameters`, which then only name it


@dataclass(frozen=True)
class Handle:
    """Whom to look for. `reference` is the engine's own: plain JSON that nobody else reads."""

    key: str
    home: str
    reference: Mapping[str, Any]


@dataclass(frozen=True)
class Delivered:
    """All members of a gang that belong on this server were there from one moment to the other."""

    server: str
    began: float
    ended: float


@dataclass(frozen=True)
class Status:
    """One of the states above. The rest as far as it is known."""

    state: str
    started_at: float | None = None
    ended_at: float | None = None
    end: str = ""  # how it ended, one of the five words above
    detail: str = ""
    exit_code: int | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)  # the newest of what the program told
    restarts: int = 0  # of workers that were lost
    delivered: tuple[Delivered, ...] = ()


@dataclass(frozen=True)
class ServerHealth:
    """Up, draining, down or unknown, since when, and why. Down: since nothing is heard of it, neither by its cluster
    nor from a gang on it."""

    state: str
    since: float
    reason: str = ""


@dataclass(frozen=True)
class Accounted:
    """One part of a gang, as the accounting of the engine's cluster has it. `end` None: it has not ended."""

    key: str
    generation: int
    server: str
    begin: float
    end: float | None


@dataclass(frozen=True)
class ClusterFinding:
    """One thing about a cluster that breaks a promise of ours, or (`breaks` is false) weakens it."""

    sentence: str
    breaks: bool = True


@dataclass(frozen=True)
class Report:
    """For monitors. `alerts`: sentences about what is wrong with its cluster now. `commands`: those that it gave since
    its last report, with the seconds that each took."""

    alerts: tuple[str, ...] = ()
    commands: tuple[tuple[str, float], ...] = ()


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

    @property
    def timings(self) -> Timings:
        """What it can keep."""

    def submit(self, gangs: Sequence[Gang]) -> Mapping[str, Handle | Fault]:
        """By key. Each whole or not at all, from its first generation on; submitted again, it is the same gang."""

    def observe(self, handles: Sequence[Handle]) -> Mapping[str, Status]:
        """By key, how each is now. Never raises: what cannot be asked about is unknown."""

    def change(self, handle: Handle, end_at: float, generations: Sequence[Generation] = ()) -> None:
        """Move its end; with generations, these replace all that it was told from the first of them on."""

    def stop(self, handle: Handle, *, pause: bool = False) -> None:
        """Save and end, soon. `pause`: it will go on."""

    def find(self, home: str, key: str) -> Handle | None:
        """A gang that lives and whose handle was not kept: we died between submitting it and writing that down."""

    def reconcile(self, handles: Sequence[Handle]) -> None:
        """After a restart: those that live are ours again; whatever else of ours lives is ended."""

    def pause_all(self) -> int:
        """The market stops: whoever is there saves and ends, to go on later; how many there still are."""

    def touch(self) -> None:
        """We are there. Gangs of an engine that is silent for too long save and end by themselves."""

    def servers(self) -> Mapping[str, ServerHealth]:
        """Those of which the engine knows, by name."""

    def report(self) -> Report:
        """How it does, asked every few seconds."""

    def check(self, sold: Counts) -> Sequence[ClusterFinding]:
        """What in its configuration breaks our promises. `sold`: by server and resource, what its pools have."""


class Records(Protocol):
    """What is kept of gangs, for readers in other processes."""

    def log(self, home: str, key: str, after: int, most: int) -> LogPage: ...

    def log_tail(self, home: str, key: str, lines: int) -> LogPage: ...

    def progress(self, home: str, key: str) -> Sequence[Mapping[str, Any]]: ...

"""What the market asks of an engine. An engine runs programs and reports on them; services decide what follows.

A gang is the processes of one award. How many run where and when is known when it is submitted (`Generation`), so an
engine keeps to the slots even while the market is not running. Times are seconds since 1970. Nothing here depends on
the kind of cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from scheduling.programs.starting import Command

# States of a gang. `unknown` means that its state cannot be read now; that is not the same as being lost.
ACCEPTED, WAITING, RUNNING, STOPPING, ENDED = "accepted", "waiting", "running", "stopping", "ended"
UNKNOWN = "unknown"

# The ways in which a gang ends.
FINISHED = "finished"  # the program did all of its work
STOPPED = "stopped"  # we asked it to stop, or its time was over
FAILED = "failed"  # the program failed by its own fault, or went beyond its limits
LOST = "lost"  # the platform failed
PAUSED = "paused"  # the market was stopped, or a cluster ends it soon; the job can continue from what was saved

# States of a server.
UP, DRAINING, DOWN = "up", "draining", "down"

# Parts of the sentences about losses, one for each cause. The code that writes the sentences and the code that counts
# losses by cause share them.
NOT_ALL_CAME = "not all parts came"
NOT_HEARD = "nothing is heard of its part"
GUARD_KILLED = "whoever watched over it was killed"
BY_OPERATOR = "or an operator"
CLOCK = "the clock of"


class WrongEngine(Exception):
    """Raised where an engine's settings cannot be used, or no engine has this name. The message is a sentence."""


@dataclass(frozen=True)
class Fault:
    """The reason why a gang could not be started, as a sentence."""

    sentence: str


@dataclass(frozen=True)
class Timings:
    """The times that an engine can keep, in seconds. The market refunds a gang of which it has heard nothing for
    `patience`; the gang is gone by then, since without its engine it saves and ends after `lease`, within `stop`."""

    lead: float  # a gang is submitted this long before its slot
    least_slot: float  # the engine cannot serve pools with shorter slots
    patience: float
    lease: float
    stop: float
    server_grace: float = 60.0  # a server that is down for longer is lost; it is back once it was up for as long

    def __post_init__(self) -> None:
        if self.patience <= self.lease + self.stop:
            raise ValueError("a gang must be gone before its slots are refunded: patience > lease + stop")

    @property
    def spare(self) -> float:
        """Return for how long a busy engine may renew the lease without reading the states of its gangs."""
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
    """The size of a gang from `at` to `end`: `servers` has the count of each role on each server. Without any member
    the gang pauses.

    `number` identifies it within its gang for good and grows with time: it is the slot with which it begins.
    """

    number: int
    at: float
    end: float
    servers: Counts


def merged(generations: Sequence[Generation]) -> tuple[Generation, ...]:
    """Return the generations with neighbours joined where the second has the same members and follows at once."""
    gangs: list[Generation] = []
    for each in generations:
        if gangs and gangs[-1].servers == each.servers and gangs[-1].end == each.at:
            gangs[-1] = replace(gangs[-1], end=each.end)
        else:
            gangs.append(each)
    return tuple(gangs)


@dataclass(frozen=True)
class OwnProgram:
    """A version of a program of the catalogue, with the values of a job. An engine starts it unchanged.

    `script` is the text of the file that the command names, if it names one. `archive` is a tar.gz that is unpacked
    into the job's folder. `limits` are those of one unit, by the catalogue's names; for those that are missing, the
    engine's own limits hold.
    """

    name: str
    command: Command
    job: int
    slot_seconds: float
    script: str = ""
    archive: bytes | None = None
    keeps_size: bool = False  # it has one size from start to end; else it is saved, ended and started at the new size
    grace_seconds: float = 30.0  # how long it has between the order to save and its end
    limits: Mapping[str, int] = field(default_factory=dict)
    image: str = ""
    modules: tuple[str, ...] = ()
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # (variable, value), only for the processes


@dataclass(frozen=True)
class Gang:
    """The processes that are to run. `key` is chosen by the market and never used twice; `home` names the folder that
    is kept from one gang of a job to the next.

    `amounts` says what one member of a role takes of each resource, for engines that reserve it.
    """

    key: str
    home: str
    program: str
    parameters: Mapping[str, Any]
    generations: tuple[Generation, ...]
    end_at: float  # the gang is gone by then
    open_ended: bool = False  # its end will be moved later again and again
    amounts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    tenant: str = ""  # the tenant whose job it is, for engines that keep accounts
    own: OwnProgram | None = None  # runs in place of `program` and `parameters`, which then only name it


@dataclass(frozen=True)
class Handle:
    """What an engine needs to find a gang again. `reference` is plain JSON that only the engine itself reads."""

    key: str
    home: str
    reference: Mapping[str, Any]


@dataclass(frozen=True)
class Delivered:
    """The time, from `began` to `ended`, in which all members that belong on this server were running there."""

    server: str
    began: float
    ended: float


@dataclass(frozen=True)
class Status:
    """The status of a gang. `state` is one of the states above; the rest is filled in as far as it is known."""

    state: str
    started_at: float | None = None
    ended_at: float | None = None
    end: str = ""  # how it ended, one of the five words above
    detail: str = ""
    exit_code: int | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)  # the newest progress that the program reported
    restarts: int = 0  # how often a lost worker was started again
    delivered: tuple[Delivered, ...] = ()


@dataclass(frozen=True)
class ServerHealth:
    """Whether a server is up, draining, down or unknown, since when, and why. If it is down, `since` is when it was
    last heard of, by its cluster or from a gang on it."""

    state: str
    since: float
    reason: str = ""


@dataclass(frozen=True)
class Accounted:
    """One part of a gang as the accounting of the engine's cluster records it. `end` is None until it has ended."""

    key: str
    generation: int
    server: str
    begin: float
    end: float | None


@dataclass(frozen=True)
class ClusterFinding:
    """Something about a cluster that breaks a promise of the market, or (where `breaks` is false) weakens it."""

    sentence: str
    breaks: bool = True


@dataclass(frozen=True)
class Report:
    """What an engine reports to monitors. `alerts` are sentences about what is wrong with its cluster now. `commands`
    are those that it ran since its last report, each with the seconds that it took."""

    alerts: tuple[str, ...] = ()
    commands: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class LogLine:
    at: float
    role: str
    rank: int
    text: str


class Engine(Protocol):
    """An engine: one way of running gangs."""

    name: str

    @property
    def timings(self) -> Timings:
        """The times that it can keep."""

    def submit(self, gangs: Sequence[Gang]) -> Mapping[str, Handle | Fault]:
        """Start gangs from their first generation on, each whole or not at all, and return the results by key. A gang
        that is submitted again stays the same gang."""

    def observe(self, handles: Sequence[Handle]) -> Mapping[str, Status]:
        """Return by key how each gang is now. Never raises: a gang whose state cannot be read is `unknown`."""

    def change(self, handle: Handle, end_at: float, generations: Sequence[Generation] = (), *, why: str = "") -> None:
        """Move a gang's end. Where `generations` are given, they replace its plan from the first of them on. `why` says
        why it ends earlier, for its log and its status; empty where it only ends in time."""

    def stop(self, handle: Handle, *, pause: bool = False, why: str = "") -> None:
        """Let a gang save and end soon, for the reason `why`. `pause` says that it will continue later."""

    def find(self, home: str, key: str) -> Handle | None:
        """Return a running gang whose handle was not stored, because we died between submitting it and storing it."""

    def reconcile(self, handles: Sequence[Handle]) -> None:
        """After a restart, take these gangs over where they still run, and end all other gangs of this engine."""

    def pause_all(self) -> int:
        """Let every running gang save and end, to continue later, because the market stops. Return how many still
        run."""

    def touch(self) -> None:
        """Renew the lease of all gangs. Where an engine does not do so for too long, its gangs save and end by
        themselves."""

    def servers(self) -> Mapping[str, ServerHealth]:
        """Return the servers that the engine knows of, by name."""

    def report(self) -> Report:
        """Report on itself; this is called every few seconds."""

    def check(self, sold: Counts) -> Sequence[ClusterFinding]:
        """Return what in its configuration breaks the market's promises. `sold` has the units of its pools, by server
        and resource."""

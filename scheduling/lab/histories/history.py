"""The contents of a log as values: who asked for how many units and when, when the jobs ran, and on whose machines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

HOUR, DAY = 3600, 86_400  # seconds
OTHERS = "others"  # one name for the owners beyond the largest ones
OPERATOR = "operator"  # whoever owns the units that no owner has


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """One job that ran. Times are seconds since 1970 in UTC; `seconds` is how long it really ran."""

    name: str
    owner: str
    submitted: int  # the job could have run from here on
    started: int | None  # None where the log does not say
    ended: int | None
    seconds: int
    units: int


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be read, by its number (the first line is 1), and why."""

    number: int
    why: str


@dataclass(frozen=True)
class Log:
    """Everything that a reader read from a log."""

    jobs: tuple[LoggedJob, ...]
    rows: int  # lines that should contain a job
    left_out: Mapping[str, int]  # jobs that are no work of the cluster, by reason
    bad: tuple[BadLine, ...]
    facts: Mapping[str, str]  # what the log's heading says


def log_later(log: Log, seconds: int) -> Log:
    """Return the log with all of its times later by `seconds`."""

    def later(moment: int | None) -> int | None:
        return None if moment is None else moment + seconds

    jobs = tuple(
        replace(job, submitted=job.submitted + seconds, started=later(job.started), ended=later(job.ended))
        for job in log.jobs
    )
    return replace(log, jobs=jobs)


@dataclass(frozen=True, slots=True)
class Machine:
    """A server of the cluster and how many units it has."""

    name: str
    units: int
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class History:
    """The past of a cluster, ready to be decided again.

    `cells` (machines, owners) are the units of each machine that belong to each owner; what is left is the operator's.
    Owners are in the order in which they first submitted a job, so nothing depends on their names. `midnights` are
    the beginnings of the days in the log's zone, as seconds since 1970, one more than there are days.
    """

    jobs: tuple[LoggedJob, ...]
    machines: tuple[Machine, ...]
    owners: tuple[str, ...]
    cells: tuple[tuple[int, ...], ...]
    slot_seconds: int
    midnights: tuple[int, ...]
    dates: tuple[str, ...]  # the name of each day
    zone: str
    unit: str  # the unit that is counted: gpu, cpu, node, processor
    notes: tuple[str, ...]
    rows: int = 0
    left_out: Mapping[str, int] | None = None
    bad: tuple[BadLine, ...] = ()
    has_starts: bool = True  # whether the log says when any job started

    @property
    def days(self) -> int:
        """Return the number of days whose submissions are in the history."""
        return len(self.dates)

    @property
    def operator(self) -> str:
        """Return the name of whoever owns the units that no owner has; no owner has it."""
        return name_beside(OPERATOR, self.owners)

    @property
    def units(self) -> int:
        """Return the units of the whole cluster."""
        return sum(machine.units for machine in self.machines)

    def slot_of(self, moment: int) -> float:
        """Return a moment in slots since the first midnight."""
        return round((moment - self.midnights[0]) / self.slot_seconds, 6)

    def run_slots(self, job: LoggedJob) -> int:
        """Return the whole slots that a job's run takes."""
        return -(-job.seconds // self.slot_seconds)

    def hours_of_day(self, slots: int) -> npt.NDArray[np.int64]:
        """Return (slots,) the hour that a clock in the log's zone shows at the beginning of each slot."""
        zone, first = zone_of(self.zone), self.midnights[0]
        begins = (first + slot * self.slot_seconds for slot in range(slots))
        return np.fromiter((datetime.fromtimestamp(begin, zone).hour for begin in begins), np.int64, slots)

    def day_of(self, moments: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Return the day of each moment. A moment after the last day counts as in it."""
        places = np.searchsorted(np.array(self.midnights[1:-1]), np.asarray(moments), side="right")
        return places.astype(np.intp)


def name_beside(name: str, owners: Collection[str]) -> str:
    """Return a name for what is no owner: this one, or a longer one where an owner is called so."""
    while name in owners:
        name = f"the {name}"
    return name


def zone_of(name: str) -> tzinfo:
    """Return the zone of that name. Raises `KeyError` or `ValueError` where there is none."""
    return UTC if name == "UTC" else ZoneInfo(name)


def day_bounds(zone: tzinfo, first: date, days: int) -> tuple[int, ...]:
    """Return the midnights of `days` days in a zone, one more than there are days; a day of a clock change has 23 or 25
    hours."""
    midnights = [datetime.combine(first + timedelta(days=k), time(), zone) for k in range(days + 1)]
    return tuple(int(midnight.timestamp()) for midnight in midnights)


def peak_units(jobs: Sequence[LoggedJob]) -> int:
    """Return the most units that were in use at one moment, by the log. A job of no known start counts as started at
    once."""
    changes: dict[int, int] = {}
    for job in jobs:
        start = job.submitted if job.started is None else job.started
        changes[start] = changes.get(start, 0) + job.units
        changes[start + job.seconds] = changes.get(start + job.seconds, 0) - job.units
    most = now = 0
    for moment in sorted(changes):
        now += changes[moment]
        most = max(most, now)
    return most


def hours_by_day(history: History) -> npt.NDArray[np.float64]:
    """Return (days,) unit-hours that the log's own runs used on each day."""
    begins = np.array([job.submitted if job.started is None else job.started for job in history.jobs], dtype=np.int64)
    ends = begins + np.array([job.seconds for job in history.jobs], dtype=np.int64)
    units = np.array([job.units for job in history.jobs], dtype=np.float64)
    used = [
        float((np.clip(np.minimum(ends, high) - np.maximum(begins, low), 0, None) * units).sum())
        for low, high in pairwise(history.midnights)
    ]
    return np.array(used) / HOUR

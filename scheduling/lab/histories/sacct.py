"""Reading Slurm's accounting, as `sacct -a -P -X --format=...` prints it: a heading, then a line with bars for a job.

The rules, which the guide repeats for readers:

- A job waits from the moment when it was eligible, or was submitted where that is not known.
- It runs as long as Slurm counted (elapsed time, without suspensions).
- A job that ended before it ran, or never started, is no work: it is left out and counted. One that failed, timed out,
  was cancelled or cut while it ran is work for as long as it ran, and one that still runs for as long as so far.
- If a job was requeued, each try that ran is a job of its own (`123`, `123 again 1`).
- Steps (`123.batch`) are parts of their job and are skipped.
- A run that is there twice, since two logs overlap, counts once: as the log that was taken later has it.
- Of a time that a clock change repeats, the first one is taken that is not before what must come earlier.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from sys import intern

from scheduling.core.scenario import BadScenario
from scheduling.lab.histories.history import Log, LoggedJob
from scheduling.lab.histories.lines import LONGEST, Tally, Unreadable, digits, heading_of, whole

OWNERS = {"account": "Account", "partition": "Partition", "user": "User", "qos": "QOS"}
UNITS = ("gpu", "cpu", "node")
AGAIN = "runs that the log tells again"
NO_TIME = frozenset({"", "Unknown", "None", "N/A", "NONE"})
RAN = frozenset(
    {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE", "BOOT_FAIL"}
    | {
        "REQUEUED",
        "REVOKED",
        "SUSPENDED",
        "RUNNING",
        "RESIZING",
        "COMPLETING",
        "SPECIAL_EXIT",
        "STAGE_OUT",
        "SIGNALING",
    }
)
NEVER_RAN = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "CONFIGURING"})
GOES_ON = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "RESIZING", "STAGE_OUT", "SIGNALING"})
STEP = re.compile(r"[0-9_+\[\],%-]+\.[A-Za-z0-9_]+(\+[0-9]+)?")  # of a heterogeneous step: 123.0+1
JOB = re.compile(r"[0-9]+(_[0-9]+|_\[[0-9,%:.-]+\]|\+[0-9]+)?")  # Slurm cuts a long list of an array: 123_[1,3,...]
ELAPSED = re.compile(r"(?:([0-9]+)-)?([0-9]{1,4}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?")


def sacct(
    lines: Iterable[str], *, zone: tzinfo, owner: str = "account", unit: str = "gpu", strict: bool = False, place: str
) -> Log:
    """Read the jobs of the text. `zone` is that of its times, `owner` a key of `OWNERS`, `unit` one of `UNITS`."""
    numbered = enumerate(lines, 1)
    at, heading = heading_of(numbered)
    names = [name.strip() for name in heading.rstrip("|").split("|")]
    reader = _Reader(_columns(names, f"{place}, line {at}", owner), len(names), Times(zone), OWNERS[owner], unit)
    tally = Tally(place, strict)
    runs: dict[tuple[str, int | None], LoggedJob] = {}
    for number, line in numbered:
        if not (line := line.rstrip("\r\n")) or line == heading:  # two logs in one file have two headings
            continue
        tally.rows += 1
        try:
            record = reader.read(line)
        except Unreadable as error:
            tally.unreadable(number, str(error))
            continue
        if not isinstance(record, LoggedJob):
            tally.left_out[record] += 1
            continue
        earlier = runs.setdefault((record.name, record.started), record)
        if earlier is not record:
            tally.left_out[AGAIN] += 1
            runs[record.name, record.started] = max(earlier, record, key=lambda run: run.seconds)
    tally.check()
    return Log(_tries_named(runs.values()), tally.rows, dict(sorted(tally.left_out.items())), tuple(tally.bad), {})


def _tries_named(runs: Iterable[LoggedJob]) -> tuple[LoggedJob, ...]:
    """Return the runs, each with a name of its own: a job that was requeued has several."""
    tries: Counter[str] = Counter()
    named = []
    for run in runs:
        number = tries[run.name]
        tries[run.name] += 1
        named.append(replace(run, name=f"{run.name} again {number}") if number else run)
    return tuple(named)


def _columns(names: list[str], place: str, owner: str) -> dict[str, int]:
    """Return the position of each column, from the heading."""
    if names == [""]:
        raise BadScenario(place, "the file is empty")
    columns = {name: position for position, name in enumerate(names)}
    for alternatives in (
        *(("JobIDRaw", "JobID"), ("Submit",), ("Start",), ("End",), ("ElapsedRaw", "Elapsed"), ("State",)),
        *(("AllocTRES", "ReqTRES"), (OWNERS[owner],)),
    ):
        if not columns.keys() & set(alternatives):
            hint = f"it must be the heading that `sacct -P` prints, not {'|'.join(names)[:60]!a}"
            raise BadScenario(place, f"has no column {' or '.join(alternatives)}; {hint}")
    return columns


class Times:
    """Converts times as Slurm prints them, in the log's own zone, to seconds since 1970. Each minute is converted
    once."""

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone
        self._minutes: dict[str, tuple[int, ...]] = {}

    def moments(self, text: str, what: str) -> tuple[int, ...]:
        """Return the moments that the text may mean, the earlier first: two in the hour that a clock change repeats."""
        minute, second = text[:16], text[17:]
        try:
            if minute not in self._minutes:
                self._minutes[minute] = self._converted(minute)
            if text[16:17] != ":" or len(second) != 2 or not second.isdigit() or int(second) > 60:
                raise ValueError
            return tuple(moment + int(second) for moment in self._minutes[minute])
        except ValueError:
            raise Unreadable(f"{what} must be a time like 2026-10-01T08:00:00, not {text[:40]!a}") from None
        except LookupError:
            raise Unreadable(f"{what} is {text}, a time that the clock of the zone never showed") from None

    def _converted(self, minute: str) -> tuple[int, ...]:
        if len(minute) != 16 or minute[10] != "T":
            raise ValueError
        local = datetime.fromisoformat(minute)
        if not 1970 < local.year < 2106:
            raise ValueError
        moments = sorted({int(local.replace(tzinfo=self.zone, fold=fold).timestamp()) for fold in (0, 1)})
        if len(moments) > 1:
            moments = [m for m in moments if datetime.fromtimestamp(m, self.zone).replace(tzinfo=None) == local]
            if not moments:
                raise LookupError(minute)
        return tuple(moments)


@dataclass
class _Reader:
    """Reads one line after the other."""

    columns: dict[str, int]
    width: int  # the number of columns in a line, as a heading may name one twice
    times: Times
    owner: str
    unit: str

    def read(self, line: str) -> LoggedJob | str:
        """Return the job of a line, or why there is none. Raises `Unreadable`."""
        cells = line.split("|")
        if len(cells) == self.width + 1 and not cells[-1]:  # `sacct -p` ends its lines with a bar
            cells.pop()
        if len(cells) != self.width:
            raise Unreadable(f"has {len(cells)} columns, not {self.width}")
        if "\ufffd" in line:
            raise Unreadable("is not UTF-8")
        name = self._cell(cells, "JobIDRaw") or self._cell(cells, "JobID")
        if STEP.fullmatch(name):
            return "steps of jobs, which their jobs include"
        if not JOB.fullmatch(name):
            raise Unreadable(f"has no job number but {name[:40]!a}")
        state = self._cell(cells, "State").split(" ", 1)[0].rstrip("+")  # "CANCELLED by 1001"
        if state not in RAN and state not in NEVER_RAN:
            raise Unreadable(f"has the unknown state {state[:40]!a}")
        return self._job(name, state, cells)

    def _job(self, name: str, state: str, cells: list[str]) -> LoggedJob | str:
        submit = self.times.moments(self._cell(cells, "Submit"), "Submit")[0]
        start = self._moment(cells, "Start", submit)
        if state in NEVER_RAN or start is None:
            return "cancelled or failed before they ran" if state in RAN else "never started"
        seconds = self._elapsed(cells)
        if seconds == 0 and state != "COMPLETED":
            return "cancelled or failed before they ran"
        if (units := self._units(cells)) == 0:
            return f"without any {self.unit}"
        owner = self._cell(cells, self.owner)
        if not owner or not owner.isprintable():
            raise Unreadable(f"has no {self.owner}")
        eligible = self._moment(cells, "Eligible", submit) if "Eligible" in self.columns else None
        seconds = max(1, seconds)
        return LoggedJob(
            name=name,
            owner=intern(owner),
            submitted=submit if eligible is None else min(eligible, start),
            started=start,
            ended=self._end(cells, start, start + seconds, state),
            seconds=seconds,
            units=units,
        )

    def _cell(self, cells: list[str], column: str) -> str:
        return cells[self.columns[column]].strip() if column in self.columns else ""

    def _moment(self, cells: list[str], column: str, after: int) -> int | None:
        """Return a moment that cannot be before `after`, or None where the log has none."""
        text = self._cell(cells, column)
        if text in NO_TIME:
            return None
        later = [moment for moment in self.times.moments(text, column) if moment >= after]
        if not later:
            raise Unreadable(f"{column} {text} is before Submit")
        return later[0]

    def _end(self, cells: list[str], start: int, run_end: int, state: str) -> int:
        """Return the end. A suspended job ends later than its running time says, and a clock change moves no end."""
        text = self._cell(cells, "End")
        if text in NO_TIME or state in GOES_ON:
            return run_end
        end = min(self.times.moments(text, "End"), key=lambda moment: abs(moment - run_end))
        if end < start:
            raise Unreadable(f"End {text} is before Start")
        return max(end, run_end)

    def _elapsed(self, cells: list[str]) -> int:
        if "ElapsedRaw" in self.columns:
            return whole(self._cell(cells, "ElapsedRaw"), "ElapsedRaw", most=LONGEST)
        text = self._cell(cells, "Elapsed")
        if (match := ELAPSED.fullmatch(text)) is None:
            raise Unreadable(f"Elapsed must be a time like 2-03:04:05, not {text[:40]!a}")
        days = digits(match[1] or "0", LONGEST)
        hours, minutes, seconds = (int(part) for part in match.groups()[1:])
        if days is None or (elapsed := ((days * 24 + hours) * 60 + minutes) * 60 + seconds) > LONGEST:
            raise Unreadable(f"Elapsed is of years: {text[:40]!a}")
        return elapsed

    def _units(self, cells: list[str]) -> int:
        """Return the units that the job had, or asked for where Slurm does not say what it had."""
        for column in ("AllocTRES", "ReqTRES"):
            if text := self._cell(cells, column):
                return tres_units(text, self.unit)
        return 0


def tres_units(text: str, unit: str) -> int:
    """Return the units in `billing=8,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=64G,node=1`. Types are added up where the
    text has no sum."""
    amounts: Counter[str] = Counter()
    for part in text.split(","):
        name, equals, amount = part.partition("=")
        if not equals:
            raise Unreadable(f"has resources of no sense: {text[:40]!a}")
        key = "gres/gpu" if unit == "gpu" else unit
        if name == key:
            return whole(amount, name, most=10**6)
        if unit == "gpu" and name.startswith("gres/gpu:"):
            amounts["gpu"] += whole(amount, name, most=10**6)
    return amounts["gpu"]

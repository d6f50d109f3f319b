"""Reading jobs from a table with the columns of the published logs: job_id, tenant, submit_s, gpus, duration_s, and
queue_s where the log says how long jobs waited. The heading shows whether commas, semicolons or tabs separate the
columns; within a name these must be in quotes. No cell holds the end of a line."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from sys import intern

from scheduling.core.scenario import BadScenario
from scheduling.lab.histories.history import Log, LoggedJob
from scheduling.lab.histories.lines import LATEST, LONGEST, Tally, Unreadable, heading_of

COLUMNS = ("job_id", "tenant", "submit_s", "gpus", "duration_s")
QUEUE = "queue_s"
SEPARATORS = (",", ";", "\t")
MOST_GPUS = 10**6


def jobs_table(lines: Iterable[str], *, strict: bool = False, place: str) -> Log:
    """Read the jobs of the table, whose seconds count from 1970. A run of less than a second becomes one second."""
    numbered = enumerate(lines, 1)
    before, text = heading_of(numbered)
    heading, separator = _heading(text, f"{place}, line {before}")
    tally = Tally(place, strict)
    jobs = []
    for number, line in numbered:
        if not line.strip():
            continue
        tally.rows += 1
        try:
            # Each line is read by itself: a quote that is not closed would take all lines behind it into its cell.
            [cells] = csv.reader((line,), delimiter=separator, skipinitialspace=True)
            if len(cells) != len(heading):
                raise Unreadable(f"has {len(cells)} columns, not {len(heading)}")
            job = _job({name: cell.strip() for name, cell in zip(heading, cells, strict=True)})
        except csv.Error as error:
            tally.unreadable(number, f"is not CSV ({error})")
        except Unreadable as error:
            tally.unreadable(number, str(error))
        else:
            if job is None:
                tally.left_out["without a GPU"] += 1
            else:
                jobs.append(job)
    tally.check()
    return Log(tuple(jobs), tally.rows, dict(tally.left_out), tuple(tally.bad), {})


def _heading(text: str, place: str) -> tuple[list[str], str]:
    """Return the names of the columns, and the sign that separates them."""
    if not text:
        raise BadScenario(place, "the file is empty")
    missing: Sequence[str] = COLUMNS
    for separator in SEPARATORS:
        try:
            names = [name.strip() for name in next(csv.reader([text], delimiter=separator, skipinitialspace=True))]
        except csv.Error as error:
            raise BadScenario(place, f"is not CSV ({error})") from None
        lacks = [column for column in COLUMNS if column not in names]
        if not lacks:
            return names, separator
        missing = min(missing, lacks, key=len)
    raise BadScenario(place, f"has no column {missing[0]}; it must name {', '.join(COLUMNS)}, not {text[:60]!a}")


def _job(row: dict[str, str]) -> LoggedJob | None:
    if not row["job_id"] or not row["tenant"] or not row["tenant"].isprintable():
        raise Unreadable("has no job_id or no tenant")
    submitted = _number(row["submit_s"], "submit_s", LATEST)
    gpus, run = _number(row["gpus"], "gpus", MOST_GPUS), _number(row["duration_s"], "duration_s", LONGEST)
    if gpus == 0:
        return None
    started = round(submitted + _number(row[QUEUE], QUEUE, LATEST)) if row.get(QUEUE) else None
    seconds = max(1, round(run))
    return LoggedJob(
        name=row["job_id"],
        owner=intern(row["tenant"]),
        submitted=round(submitted),
        started=started,
        ended=None if started is None else started + seconds,
        seconds=seconds,
        units=math.ceil(gpus),
    )


def _number(text: str, column: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Unreadable(f"{column} must be a number, not {text[:40]!a}") from None
    if not 0 <= value <= most:
        raise Unreadable(f"{column} must be from 0 to {most:,}, not {text[:40]!a}")
    return value

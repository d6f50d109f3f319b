"""Reading the Standard Workload Format: eighteen numbers a line, -1 for an unknown one, and a heading behind
semicolons.

The rules: a job waits from its submission. Its processors are those it had, or else those it asked for. A job that was
cancelled before it ran, or of which neither is known, is left out and counted. A failed job is work for as long as it
ran. Lines that repeat a part of a job (status 2, 3 and 4) are skipped, since the job's own line has all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from sys import intern

from scheduling.lab.histories.history import Log, LoggedJob
from scheduling.lab.histories.lines import LATEST, LONGEST, Tally, Unreadable

OWNERS = {"group": 12, "user": 11, "queue": 14, "partition": 15}
COLUMNS = 18
PARTS = (2, 3, 4)  # the status of a line about a part of a job
CANCELLED = 5
LARGEST = 10**12
MOST_PROCESSORS = 10**7  # most processors of a job
FACT = re.compile(r";\s*([A-Za-z][A-Za-z0-9_]*)\s*:\s*(.*)")


def swf(lines: Iterable[str], *, owner: str = "group", strict: bool = False, place: str) -> Log:
    """Read the jobs of the text; `owner` is a key of `OWNERS`. Times begin at the heading's UnixStartTime, or at
    1970."""
    tally = Tally(place, strict)
    facts: dict[str, str] = {}
    jobs, names = [], set()
    begin = 0
    for number, line in enumerate(lines, 1):
        if not (line := line.strip()):
            continue
        if line.startswith(";"):
            if match := FACT.fullmatch(line):
                facts.setdefault(match[1], match[2].strip())
                text = facts.get("UnixStartTime", "")
                begin = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
            continue
        tally.rows += 1
        try:
            job = _job(line, owner, begin)
            if isinstance(job, LoggedJob) and job.name in names:
                raise Unreadable(f"has the job number {job.name} again")
        except Unreadable as error:
            tally.unreadable(number, str(error))
            continue
        if isinstance(job, LoggedJob):
            jobs.append(job)
            names.add(job.name)
        else:
            tally.left_out[job] += 1
    tally.check()
    return Log(tuple(jobs), tally.rows, dict(sorted(tally.left_out.items())), tuple(tally.bad), facts)


def _job(line: str, owner: str, begin: int) -> LoggedJob | str:
    """Return the job of a line, or why there is none."""
    cells = line.split()
    if len(cells) != COLUMNS:
        raise Unreadable(f"has {len(cells)} columns, not {COLUMNS}")
    number, submit, wait, run, had, processors_wanted, status = (
        _number(cells[k], k + 1) for k in (0, 1, 2, 3, 4, 7, 10)
    )
    if status in PARTS:
        return "parts of jobs, which their jobs include"
    if submit < 0:
        raise Unreadable("has no time of submission")
    if begin + submit + max(0, wait) > LATEST or run > LONGEST:
        raise Unreadable("is of a time to come, or of a run of years")
    units = had if had > 0 else processors_wanted
    if run < 0 or (run == 0 and status == CANCELLED):
        return "cancelled before they ran, or of unknown length"
    if units <= 0:
        return "without any processor"
    if units > MOST_PROCESSORS:
        raise Unreadable(f"is of {units:,} processors; a job has at most {MOST_PROCESSORS:,}")
    who = _number(cells[OWNERS[owner]], OWNERS[owner] + 1)
    started = None if wait < 0 else begin + submit + wait
    return LoggedJob(
        name=str(number),
        owner=intern(f"{owner} {who}" if who >= 0 else f"{owner} unknown"),
        submitted=begin + submit,
        started=started,
        ended=None if started is None else started + max(1, run),
        seconds=max(1, run),
        units=units,
    )


def _number(text: str, column: int) -> int:
    """Return the number of a column. Some archives write whole numbers with a decimal point."""
    try:
        value = float(text)
    except ValueError:
        raise Unreadable(f"column {column} must be a number, not {text[:40]!a}") from None
    if not -1 <= value <= LARGEST:  # this refuses NaN as well
        raise Unreadable(f"column {column} must be from -1 to {LARGEST:,}, not {text[:40]!a}")
    return int(value)

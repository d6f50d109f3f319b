"""Read the log of one of a job's runs: search it, follow it, or take it whole. However long it is, a question reads
little of it.

Its lines are bytes of a stranger: they were cut at a length when they were written, and are shown as text alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache

from scheduling.engines.base import LogLine
from scheduling.engines.launcher.files import LONGEST_ROW, LogPart, log_line
from scheduling.jobs.read_files import files_over
from scheduling.jobs.read_run import RunLogLine, home_of, line_of, records, speaker
from scheduling.models import Run, TrainingJob
from scheduling.models.runs import OPEN
from scheduling.programs.levels import ERROR, GRAVE, WARNING, at_least, level_of

MOST_LINES = 200  # on a page
MOST_DIGITS = 12  # of the seconds of a moment
PART_BYTES = 256 * 1024  # read at once
MOST_BYTES = 4 * 1024 * 1024  # searched for one question; then the answer says how to go on
NEVER_BEGAN = "This run did not begin, so it has no log."
NO_LOG = "The log of this run is not here any more."


@dataclass(frozen=True)
class LogQuestion:
    """The filter of a log. `text` may be anywhere in a line, in whichever case. `level` lets through this one and
    graver ones. `who` is the writer, such as "worker 1"."""

    text: str = ""
    level: str = ""
    who: str = ""

    @property
    def is_open(self) -> bool:
        return self == LogQuestion()

    @cached_property
    def marks(self) -> tuple[bytes, ...]:
        """Return texts, in small letters, that are in each line that fits, so that most others are skipped without
        being read."""
        marks = [self.text.lower(), f" {self.who.lower()} " if self.who else ""]
        return tuple(mark.encode() for mark in marks if mark and mark.isascii())

    def fits(self, line: LogLine) -> bool:
        if self.text.lower() not in line.text.lower():
            return False
        return self.who in ("", speaker(line)) and (not self.level or at_least(level_of(line.text), self.level))


@dataclass(frozen=True)
class LogView:
    """Lines in their order. Earlier ones are before byte `before` of the log, which is None where there are none."""

    lines: tuple[RunLogLine, ...]
    before: int | None
    speakers: tuple[str, ...]  # who wrote these


@dataclass(frozen=True)
class LogFound:
    """Lines in their order. The next question goes on at byte `after`; `more` says that there is something there
    already."""

    lines: tuple[RunLogLine, ...]
    after: int
    more: bool


def log_view(run: Run, question: LogQuestion, before: int | None = None) -> LogView:
    """Return the newest lines that fit, `MOST_LINES` at most, of the `MOST_BYTES` before `before`, or before the log's
    end."""
    home, files, lines = home_of(run), records(), list[RunLogLine]()
    end = files.log_size(home, run.key) if before is None else before
    least = max(end - MOST_BYTES, 0)
    while end > least and len(lines) < MOST_LINES:
        start = max(end - PART_BYTES, least)
        part = files.log_part(home, run.key, start, end)
        end = start
        for place, line in _fitting(part, question, backward=True):
            lines.append(line)
            if len(lines) == MOST_LINES:
                end = place
                break
    return LogView(tuple(lines[::-1]), end if end > 0 else None, tuple(sorted({line.who for line in lines})))


def log_found(run: Run, question: LogQuestion, after: int, most: int) -> LogFound:
    """Return lines that fit from byte `after` on, `most` of them, as far as `MOST_BYTES` go."""
    home, files, lines = home_of(run), records(), list[RunLogLine]()
    size, start = files.log_size(home, run.key), after
    last = min(size, after + MOST_BYTES)
    while start < last:
        part = files.log_part(home, run.key, start, min(start + PART_BYTES, last))
        for place, line in _fitting(part, question):
            if len(lines) == most:
                return LogFound(tuple(lines), place, more=True)
            lines.append(line)
        if part.end == start and size - start <= LONGEST_ROW:
            break  # the last line is still on its way
        start = part.end if part.end > start else start + PART_BYTES
    return LogFound(tuple(lines), start, more=last <= start < size)


def why_no_log(job: TrainingJob, run: Run, at: datetime) -> str:
    """Return why a run of the job that has ended has no log; an empty text where it has one, or may still get one."""
    if run.state in OPEN or records().has_log(home_of(run), run.key):
        return ""
    return (files_over(job, at) or NO_LOG) if run.started_at else NEVER_BEGAN


def log_name(job_id: int, number: int | None) -> str:
    """Return the name of the file with a run's log; the newest run needs no number."""
    return f"job-{job_id}.log" if number is None else f"job-{job_id}-run-{number}.log"


def log_whole(run: Run) -> Iterator[bytes]:
    """Yield the whole log, part by part: each line as it was written, with its moment as people read it."""
    home, files = home_of(run), records()
    size, start = files.log_size(home, run.key), 0
    clock = lru_cache(maxsize=64)(lambda second: f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}".encode())
    while start < size:
        part = files.log_part(home, run.key, start, min(start + PART_BYTES, size))
        lines = []
        for _, row in part.rows():
            stamp, _, rest = row.partition(b" ")
            second, _, thousandths = stamp.partition(b".")
            if second.isdigit() and len(second) < MOST_DIGITS:
                lines.append(b"%s.%sZ %s" % (clock(int(second)), thousandths or b"000", rest))
        yield b"".join(lines)
        start = part.end if part.end > start else start + PART_BYTES


def _fitting(part: LogPart, question: LogQuestion, *, backward: bool = False) -> Iterator[tuple[int, RunLogLine]]:
    marks, grave = question.marks, GRAVE if question.level in (WARNING, ERROR) else None
    if marks and not all(mark in part.data.lower() for mark in marks):
        return
    for place, row in part.rows(backward=backward):
        if marks and not all(mark in row.lower() for mark in marks):
            continue
        if grave is not None and grave.search(row) is None:
            continue
        if (line := log_line(row)) and question.fits(line):
            yield place, line_of(line, level_of(line.text))

"""`bourse jobs submit FILE --bulk`: submit a job for each line of the file, many at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bourse_client.command import exits
from bourse_client.command.screen import plain
from bourse_client.command.session import Session
from bourse_client.command.written import INPUT, text_in
from bourse_client.errors import BourseError, Refused
from bourse_client.job_file import BadFile, read_line
from bourse_client.shapes import BulkJob

MOST_JOBS = 1_000  # of one call
MOST_BYTES, MOST_VALUES = 1_000_000, 48_000  # of its body, with room for what is around the jobs
ALONE = ("count", "together", "wait", "otherwise", "after", "max_price", "until_converged", "in_a_row", "by", "worth")


@dataclass(frozen=True)
class BulkLine:
    number: int
    job: Mapping[str, Any]
    pool: str | None

    @property
    def size(self) -> tuple[int, int]:
        """Return how many bytes and values the job takes in a body, rather too many than too few."""
        text = json.dumps(self.job)
        return len(text) + 2, 1 + sum(map(text.count, ",[{"))


def submit(session: Session) -> int:
    words, screen = session.words, session.screen
    others = [name for name in (*ALONE, "later", "dry_run", "timeout", "every") if getattr(words, name, None)]
    if others or words.divisible is not None or words.lane == "instant":
        raise exits.UsageError("Beside --bulk only --pool, --name and --key may stand: each line says its job itself.")
    lines = list(_lines(session))
    named = {line.pool for line in lines if line.pool}
    if len(named) > 1 and not words.pool:
        raise exits.UsageError(f"{words.file}: the jobs of one file go to one pool, not to {', '.join(sorted(named))}.")
    pool = words.pool or next(iter(named), "") or session.pool
    parts, submitted = _parts(lines), list[BulkJob]()
    for number, part in enumerate(parts):
        key = session.key if len(parts) == 1 else session.key_of(number)
        try:
            submitted += session.client.jobs_submit([line.job for line in part], pool=pool, key=key)
        except (BourseError, KeyboardInterrupt) as error:
            if submitted:
                done = f"lines {lines[0].number} to {parts[number - 1][-1].number}"
                screen.note(f"Submitted: {done}. {_rest(session, part, is_last=number == len(parts) - 1)}")
            if isinstance(error, Refused):
                raise _by_line(error, part) from error
            raise
    if screen.as_json:
        screen.document(submitted)
    else:
        first, last = submitted[0], submitted[-1]
        jobs = f"{len(submitted):,} jobs: {first['id']} to {last['id']}" if len(submitted) > 1 else f"Job {first['id']}"
        screen.line(f"{jobs}, in {plain(pool)}")
    return exits.DONE


def _rest(session: Session, part: Sequence[BulkLine], *, is_last: bool) -> str:
    """Return a sentence about the lines from a part on that came to nothing."""
    if not session.is_unanswered:
        return "Of the rest, nothing."
    return (
        f"Of lines {part[0].number} to {part[-1].number} it is not known{'' if is_last else '; the rest was not sent'}."
    )


def _lines(session: Session) -> Iterator[BulkLine]:
    """Yield the lines of the file without the blank ones. A job without a name is named after the file and the line."""
    file = session.words.file
    base = session.words.name or ("job" if file == INPUT else Path(file).stem)
    empty = True
    for number, text in enumerate(text_in(session, file).split("\n"), start=1):
        if not text.strip():
            continue
        try:
            job, pool = read_line(text, f"{base}-{number}")
        except BadFile as error:
            raise exits.UsageError(f"{file}: line {number}: {error}") from error
        empty = False
        yield BulkLine(number, job, pool)
    if empty:
        raise exits.UsageError(f"{file}: write a job on each line, as JSON.")


def _parts(lines: Sequence[BulkLine]) -> list[list[BulkLine]]:
    """Divide the lines into as few calls as their limits allow, in order."""
    parts: list[list[BulkLine]] = []
    bytes_, values = 0, 0
    for line in lines:
        more_bytes, more_values = line.size
        bytes_, values = bytes_ + more_bytes, values + more_values
        if not parts or len(parts[-1]) == MOST_JOBS or bytes_ > MOST_BYTES or values > MOST_VALUES:
            parts.append([])
            bytes_, values = more_bytes, more_values
        parts[-1].append(line)
    return parts


def _by_line(refused: Refused, part: Sequence[BulkLine]) -> Refused:
    """Return the same refusal with line numbers of the file in place of positions in the call."""

    def line(index: str) -> str:
        return f"line {part[int(index)].number}"

    errors = []
    for error in refused.errors:
        field, detail = str(error.get("field", "")), str(error.get("detail", ""))
        if place := re.fullmatch(r"jobs\[(\d+)\](?:\.(.+))?", field):
            names_field = place[2] is None or detail.startswith(f"{place[2]}:")
            field, detail = line(place[1]), detail if names_field else f"{place[2]}: {detail}"
        errors.append({**error, "field": field, "detail": detail})
    numbers = {name: value for name, value in refused.numbers.items() if name != "figures"}
    sentence = re.sub(r"\bjobs\[(\d+)\](?:: |\.)", lambda place: f"{line(place[1])}: ", refused.detail)
    if sentence != refused.detail:
        sentence = sentence[:1].upper() + sentence[1:]
    return type(refused)(refused.status, refused.code, sentence, numbers, errors, refused.retry_after)

"""Read what processes report about their training: lines of JSON with numbers by name, written by untrusted programs.

A bad line is counted and skipped. Of a flood of lines some are kept, always with the newest one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LONGEST_LINE = 4_096  # bytes
MOST_NUMBERS, LONGEST_NAME = 100, 100
LONGEST_ADDRESS = 2_000
WHOLE = 2**53  # smaller whole numbers stay `int`

Number = float  # or `int`, for whole numbers below `WHOLE`


@dataclass(frozen=True)
class ProgressChunk:
    """The content of a piece of a file. `rest` is the beginning of a line whose end has not come yet; it belongs before
    the next piece."""

    rows: tuple[Mapping[str, Number], ...]
    bad: int  # lines that could not be read
    rest: bytes


def read(piece: bytes, rest: bytes = b"", *, most: int = 1_000) -> ProgressChunk:
    """Read the rows of a piece, at most `most`: of more, evenly spaced ones, with the first and the last."""
    *lines, rest = (rest + piece).split(b"\n")
    rows = [_row(line) for line in lines if line.strip()]
    bad = rows.count(None)
    if len(rest) > LONGEST_LINE:  # the line is bad already, and is kept too long, so that its end is no line either
        rest = b"?" * (LONGEST_LINE + 1)
    return ProgressChunk(tuple(thin([row for row in rows if row is not None], most)), bad, rest)


def thin(rows: Sequence[Mapping[str, Number]], most: int) -> list[Mapping[str, Number]]:
    """Return at most `most` of the rows in their order, evenly spaced, with the last one."""
    if len(rows) <= most:
        return list(rows)
    if most == 1:
        return [rows[-1]]
    return [rows[index * (len(rows) - 1) // (most - 1)] for index in range(most)]


def address_in(line: str) -> str:
    """Return the address that a line of the log has as {"url": ...}; "" if it has none that a browser may open."""
    if len(line) > LONGEST_LINE or '"url"' not in line:
        return ""
    document = _object(line)
    return usable_address(document.get("url")) if document else ""


def usable_address(address: object) -> str:
    """Return the address if a browser may open it, "" if not."""
    if not isinstance(address, str) or len(address) > LONGEST_ADDRESS or not address.isprintable():
        return ""
    return address if address.startswith(("http://", "https://")) and " " not in address else ""


def facts_in(document: object) -> dict[str, Any]:
    """Return the facts of a run that a launcher's record has: numbers by name, those that the program reported itself
    (`numbers`), and the address where it shows something (`url`). All else is left out, since a program whose user may
    write the record can put anything there."""
    if not isinstance(document, dict):
        return {}
    facts: dict[str, Any] = _numbers(document)
    if isinstance(document.get("numbers"), dict):
        facts["numbers"] = _numbers(document["numbers"])
    if address := usable_address(document.get("url")):
        facts["url"] = address
    return facts


def _numbers(document: Mapping[str, object]) -> dict[str, Number]:
    """Return the finite numbers with a name that can be shown, at most `MOST_NUMBERS`."""
    named = {name: number for name, value in document.items() if (number := _number(value)) is not None}
    good = [(name, number) for name, number in named.items() if 0 < len(name) <= LONGEST_NAME and name.isprintable()]
    return dict(good[:MOST_NUMBERS])


def _row(line: bytes) -> Mapping[str, Number] | None:
    """Return the numbers of a line; None if it is bad: no object, or a value in it is no finite number."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        document = _object(line.decode())
    except UnicodeDecodeError:
        return None
    if not document or len(document) > MOST_NUMBERS:
        return None
    row: dict[str, Number] = {}
    for name, value in document.items():
        number = _number(value)
        if number is None or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            return None
        row[name] = number
    return row


def _object(text: str) -> dict[str, object] | None:
    try:
        document = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _number(value: object) -> Number | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    return value if isinstance(value, int) and abs(value) < WHOLE else number

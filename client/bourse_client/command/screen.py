"""The output for people: aligned tables, figures with thousands separators, and colour where a terminal shows it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TextIO

from bourse_client.shapes import OVER

GAP = "  "
FIGURE = re.compile(r"-?[0-9,]+(\.[0-9]+)?")
CREDITS = re.compile(r"-?\d+\.\d{6,}")
GOOD, BAD, BUSY, QUIET = "32", "31", "33", "2"  # colours of a terminal
COLOURS = dict.fromkeys(OVER, BAD) | {"finished": GOOD, "running": GOOD, "awarded": BUSY, "queued": BUSY}


@dataclass
class Screen:
    """Where output goes. `out` gets answers; `err` gets reasons and progress, which no program reads by mistake."""

    out: TextIO
    err: TextIO
    as_json: bool = False
    colour: bool = False

    def document(self, value: Any) -> None:
        """Write one whole JSON document; words for people are never beside it."""
        print("\n".join(map(_in_json, self._json(value, indent=2).split("\n"))), file=self.out)

    def record(self, value: Any) -> None:
        """Write one line of JSON at once, for what has no end."""
        print(_in_json(self._json(value)), file=self.out, flush=True)

    def _json(self, value: Any, **options: Any) -> str:
        """Return the value as JSON. Letters that the output's encoding lacks become JSON's own codes."""
        lacks_letters = not (getattr(self.out, "encoding", None) or "utf-8").lower().startswith("utf")
        return json.dumps(value, ensure_ascii=lacks_letters, **options)

    def line(self, text: str = "") -> None:
        print(text, file=self.out, flush=True)

    def note(self, text: str) -> None:
        print("\n".join(map(plain, text.split("\n"))), file=self.err, flush=True)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
        for text in table_lines(heads, rows, right=right, head_style=self._style(QUIET), styles=self.state_style):
            self.line(text)

    def pairs(self, pairs: Iterable[tuple[str, str]]) -> None:
        rows = [(name, value) for name, value in pairs if value != ""]
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            self.line(f"{name:<{width}}{GAP}{self.state_style(plain(value))}")

    def state_style(self, cell: str) -> str:
        """Return a cell, coloured if it is the name of a state."""
        return self._style(COLOURS[cell.strip()])(cell) if self.colour and cell.strip() in COLOURS else cell

    def _style(self, code: str) -> Any:
        return (lambda text: f"\x1b[{code}m{text}\x1b[0m") if self.colour else (lambda text: text)


def table_lines(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    head_style: Any = str,
    styles: Any = str,
) -> list[str]:
    """Columns as wide as their widest cell; those named in `right` end flush, as figures do, with their points below
    each other."""
    cells = [[plain(cell) for cell in row] for row in rows]
    for column, head in enumerate(heads):
        if head in right:
            _points_aligned(cells, column)
    widths = [max(width(row[column]) for row in [list(heads), *cells]) for column in range(len(heads))]
    flush = [head in right for head in heads]

    def line(row: Sequence[str], style: Any) -> str:
        padded = [_padded(cell, size, end) for cell, size, end in zip(row, widths, flush, strict=True)]
        padded[-1] = padded[-1] if flush[-1] else row[-1]
        return GAP.join(style(cell) for cell in padded)

    return [line(heads, head_style).rstrip(), *(line(row, styles).rstrip() for row in cells)]


def _points_aligned(cells: list[list[str]], column: int) -> None:
    """Add blanks to figures with fewer digits after their point than others of the column, or with no point."""
    figures = [FIGURE.fullmatch(row[column]) for row in cells]
    most = max((len(figure[1] or "") for figure in figures if figure), default=0)
    for row, figure in zip(cells, figures, strict=True):
        row[column] += " " * (most - len(figure[1] or "")) if figure else ""


def plain(text: str) -> str:
    """Return the text so that names which others have given cannot control the reader's terminal. The thin space
    between thousands becomes a blank."""
    text = text.replace("\N{NARROW NO-BREAK SPACE}", " ")
    return text if text.isprintable() else "".join(sign if sign.isprintable() else "?" for sign in text)


def _in_json(line: str) -> str:
    """Return a line of JSON with its own codes in place of signs that could control the reader's terminal. JSON has
    codes for some of them anyway; a reader of JSON finds the same value."""
    return line if line.isprintable() else "".join(s if s.isprintable() else json.dumps(s)[1:-1] for s in line)


def width(text: str) -> int:
    """Return how many columns of a terminal the text takes: some characters take two, and some none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


def _padded(text: str, size: int, end: bool) -> str:
    blank = " " * (size - width(text))
    return blank + text if end else text + blank


def credits(text: str | None) -> str:
    """ "1234.500000" -> "1,234.50": two digits at least, and all that are not zero."""
    if text is None:
        return "-"
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return text
    whole, _, digits = f"{amount:,f}".partition(".")
    return f"{whole}.{digits.rstrip('0'):0<2}"


def count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def moment(text: str | None) -> str:
    """Return the moment in the zone of the reader's machine, to the second."""
    if not text:
        return "-"
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return text


def zone() -> str:
    return datetime.now().astimezone().tzname() or "local"


def numbers_line(numbers: Mapping[str, Any]) -> str:
    """Return the figures behind a refusal, in one line."""
    return ", ".join(f"{name} {number(value)}" for name, value in numbers.items() if value not in (None, {}))


def number(value: Any) -> str:
    """Return a figure as people read it. Credits are known by their digits, six or more; figures inside of another one
    are in brackets."""
    if isinstance(value, Mapping):
        return f"({numbers_line(value)})"
    if isinstance(value, str) and CREDITS.fullmatch(value):
        return credits(value)
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def several(count_of: int, word: str) -> str:
    return f"{count_of:,} {word}" + ("" if count_of == 1 else "s")

"""Write all CSV: a spreadsheet must take each text as a text and each number as a number."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile

from tenants.names import can_be_seen

ROWS_AT_ONCE = 500

# How a formula begins in a spreadsheet; some spreadsheets also accept the wide forms of these signs.
_FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
_SEPARATORS = frozenset("\t\r\n")
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def csv_text(rows: Iterable[Sequence[object]], *, ends: str = "\r\n") -> str:
    """Return lines of cells. None becomes an empty cell, a number stays a number, and no text can be a formula."""
    out = io.StringIO()
    csv.writer(out, lineterminator=ends).writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def csv_pieces(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the heads, and then the rows, many at a time."""
    yield csv_text([heads])
    following = iter(rows)
    while chunk := list(islice(following, ROWS_AT_ONCE)):
        yield csv_text(chunk)


def _cell(value: object) -> object:
    """Return the cell for a value. A text that a spreadsheet would take for a formula gets an apostrophe, which marks
    it as a text. Spreadsheets ignore blanks before a formula, so they are ignored here too."""
    if not isinstance(value, str):
        return "" if value is None else value
    blanks = "".join(takewhile(lambda sign: not can_be_seen(sign), value))
    is_formula = value[len(blanks) : len(blanks) + 1] in _FORMULA or not _SEPARATORS.isdisjoint(blanks)
    return f"'{value}" if is_formula and not _NUMBER.fullmatch(value) else value

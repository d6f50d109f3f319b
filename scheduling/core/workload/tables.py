"""Read the CSV tables of cluster logs; each error is one line with the table, the row and the column."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence

from scheduling.core.scenario import BadScenario

LARGEST = 1e12


class LogRow:
    """One row of a table. Rows are numbered like the lines of the file: the heading is row 1."""

    __slots__ = ("fields", "line", "table")

    def __init__(self, table: str, line: int, fields: dict[str, str]) -> None:
        self.table, self.line, self.fields = table, line, fields

    def text(self, column: str) -> str:
        """Return a text that is not empty."""
        value = self.fields[column]
        if not value:
            raise self.wrong(column, "is empty")
        return value

    def number(self, column: str) -> float:
        """Return a finite number from 0 to `LARGEST`."""
        text = self.fields[column]
        try:
            value = float(text)
        except ValueError:
            raise self.wrong(column, f"must be a number, not {text[:40]!a}") from None
        if not (math.isfinite(value) and 0 <= value <= LARGEST):
            raise self.wrong(column, f"must be from 0 to {LARGEST:g}, not {text[:40]!a}")
        return value

    def whole(self, column: str, least: int = 1, most: int = 10**6) -> int:
        """Return an integer from `least` to `most`."""
        value = self.number(column)
        if not (value.is_integer() and least <= value <= most):
            text = self.fields[column][:40]
            raise self.wrong(column, f"must be an integer from {least} to {most:,}, not {text!a}")
        return int(value)

    def wrong(self, column: str, message: str) -> BadScenario:
        """Return the error to raise about one field."""
        return BadScenario(f"{self.table}, row {self.line}, {column}", message)


def rows(table: str, lines: Iterable[str], columns: Sequence[str]) -> Iterator[LogRow]:
    """Yield the rows of a table, which must have at least these columns."""
    reader = csv.reader(lines)
    try:
        heading = [name.strip() for name in next(reader, [])]
        for column in columns:
            if column not in heading:
                raise BadScenario(f"{table}, row 1", f"has no column {column}")
        for cells in reader:
            if not cells:  # an empty line
                continue
            if len(cells) != len(heading):
                raise BadScenario(f"{table}, row {reader.line_num}", f"has {len(cells)} fields, not {len(heading)}")
            yield LogRow(table, reader.line_num, dict(zip(heading, cells, strict=True)))
    except csv.Error as error:
        raise BadScenario(f"{table}, row {reader.line_num}", f"is not CSV ({error})") from None
    except UnicodeDecodeError as error:
        raise BadScenario(table, f"is not {error.encoding} text") from None

"""Tables for the screen: words to the left, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence

Cell = str | float | int | None
NOTHING = "-"


def table(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The rows under their headers. A column is set right if any of its cells is a number."""
    shown = [[cell if isinstance(cell, str) else figure(cell) for cell in row] for row in rows]
    right = [any(isinstance(row[c], int | float) for row in rows) for c in range(len(headers))]
    widths = [max(len(line[c]) for line in [list(headers), *shown]) for c in range(len(headers))]
    ruled = [list(headers), ["─" * width for width in widths], *shown]
    return "\n".join(_line(cells, widths, right) for cells in ruled)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = zip(cells, widths, right, strict=True)
    return "  ".join(cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in parts).rstrip()


def figure(number: float | None, digits: int = 4) -> str:
    """A number as short as it can be read: about four digits that count, thousands set apart."""
    if number is None:
        return NOTHING
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    size = abs(number)
    if size < 1e-4:
        return f"{number:.1e}"
    whole = len(str(int(size))) if size >= 1 else 0
    return f"{number:,.{max(0, digits - whole) if size >= 1 else digits}f}"

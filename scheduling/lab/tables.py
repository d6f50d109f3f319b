"""Tables for the screen, with words at the left and numbers at the right."""

from __future__ import annotations

from collections.abc import Sequence

Cell = str | float | int | None
NOTHING = "-"
DIGITS = 4  # significant digits


def table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], *, figures_after: int | None = None) -> str:
    """Return the rows under their headers, which may have several lines.

    Columns with a number are set right, and so are those from index `figures_after` on.
    """
    texts = [[cell if isinstance(cell, str) else figure(cell) for cell in row] for row in rows]
    right = [
        any(isinstance(row[c], int | float) for row in rows) or (figures_after is not None and c >= figures_after)
        for c in range(len(headers))
    ]
    heads = _heads(headers)
    widths = [max(len(line[c]) for line in [*heads, *texts]) for c in range(len(headers))]
    ruled = [*heads, ["─" * width for width in widths], *texts]
    return "\n".join(_line(cells, widths, right) for cells in ruled)


def _heads(headers: Sequence[str]) -> list[list[str]]:
    """Return the lines of the headers; they end together, just above the rows."""
    split = [header.split("\n") for header in headers]
    lines = max(len(parts) for parts in split)
    return [list(line) for line in zip(*([""] * (lines - len(parts)) + parts for parts in split), strict=True)]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = zip(cells, widths, right, strict=True)
    return "  ".join(cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in parts).rstrip()


def figure(number: float | None) -> str:
    """Return a number as short as it can be read: about four significant digits, with separated thousands."""
    if number is None:
        return NOTHING
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:.1e}" if abs(number) < 1e-4 else f"{number:,.{decimals(number)}f}"


def with_spread(mean: float, spread: float) -> str:
    """Return `22,612 ± 340`, both with the decimals that the larger needs, or the mean alone where nothing varied."""
    if not spread:
        return figure(mean)
    places = decimals(max(abs(mean), abs(spread)))
    return f"{mean:,.{places}f} ± {spread:,.{places}f}"


def decimals(number: float) -> int:
    """Return the decimal places that leave four digits: 12.34, 0.1234, 12345."""
    return DIGITS if abs(number) < 1 else max(0, DIGITS - len(str(int(abs(number)))))

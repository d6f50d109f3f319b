"""Write deployments that are given slot by slot as rows of an allocation."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.core.types import Allocation


def merged(pieces: Iterable[Allocation]) -> tuple[Allocation, ...]:
    """Return rows made of one-slot pieces in order of time, joined on each server where the numbers stay the same."""
    rows: list[Allocation] = []
    latest: dict[int, int] = {}  # server -> index of its latest row
    for piece in pieces:
        index = latest.get(piece.server, -1)
        if index >= 0 and _continues(rows[index], piece):
            row = rows[index]
            rows[index] = Allocation(row.server, row.start, piece.end, row.workers, row.ps)
        else:
            latest[piece.server] = len(rows)
            rows.append(piece)
    return tuple(sorted(rows, key=lambda row: (row.server, row.start)))


def _continues(last: Allocation, piece: Allocation) -> bool:
    return (last.end, last.workers, last.ps) == (piece.start, piece.workers, piece.ps)

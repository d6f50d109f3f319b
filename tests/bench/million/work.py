"""Measures how long web process and database worked for an answer, which does not grow with what else runs here.

The time by the clock does grow. On a machine that others use too, judge by the work, and by the fastest answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil


class Work:
    """The work of the web processes, and of the database server of `data` with all its processes."""

    def __init__(self, web: Sequence[psutil.Process], data: Path) -> None:
        self._web = web
        first_line = (data / "postmaster.pid").read_text(encoding="ascii").split("\n", 1)[0]
        self._database = psutil.Process(int(first_line))

    def added_to(self, figures: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield each figure with the processor time for one of its answers. The figures must be measured one after the
        other."""
        before = self.seconds()
        for figure in figures:
            now = self.seconds()
            calls = figure["detail"].pop("calls", 0)
            if calls:
                for name, spent, had in zip(("web", "database"), now, before, strict=True):
                    figure["detail"][f"{name}_work_ms"] = round((spent - had) * 1000 / calls, 1)
            before = now
            yield figure

    def seconds(self) -> tuple[float, float]:
        return sum(map(_of, self._web)), sum(
            _of(each) for each in (self._database, *self._database.children(recursive=True))
        )


def _of(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):  # a connection that has just ended
        return float(sum(process.cpu_times()[:2]))
    return 0.0

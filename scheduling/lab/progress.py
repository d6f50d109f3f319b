"""A progress bar on standard error, for people only: where that is a file or a pipe, it stays silent."""

from __future__ import annotations

import sys
from time import monotonic
from types import TracebackType
from typing import TextIO

WIDTH = 30
EVERY = 0.1  # seconds between two drawings
PATIENCE = 0.5  # seconds of work before the bar first appears


class ProgressLine:
    """A progress bar. Call it with (done, total) as often as you like; it draws seldom, and leaves no trace at the
    end."""

    def __init__(self, label: str, unit: str, stream: TextIO | None = None) -> None:
        self.label, self.unit = label, unit
        self.stream = sys.stderr if stream is None else stream
        self.is_shown = self.stream.isatty()
        self.began = monotonic()
        self.due = self.began + PATIENCE
        self.is_drawn = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_drawn:
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    def __call__(self, done: int, total: int) -> None:
        if self.is_shown and (now := monotonic()) >= self.due:
            self.due, self.is_drawn = now + EVERY, True
            self.stream.write(f"\r{line(self.label, self.unit, done, total, now - self.began)}\x1b[K")
            self.stream.flush()


def line(label: str, unit: str, done: int, total: int, seconds: float) -> str:
    """Return `simulating ━━━━━╌╌╌╌╌ 50 % 40 of 80 jobs 0:12 left`."""
    part = done / total if total else 1.0
    bar = "━" * round(part * WIDTH) + "╌" * (WIDTH - round(part * WIDTH))
    rest = f"  {clock(seconds / part - seconds)} left" if part > 0 else ""
    return f"{label} {bar} {part:4.0%}  {done:,} of {total:,} {unit}{rest}"


def clock(seconds: float) -> str:
    """Return 1:05 for 65 seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

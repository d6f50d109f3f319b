"""What a training program may tell Bourse, and ask it: one file without dependencies, to be copied where it is needed.

    import bourse_progress

    bourse_progress.report(step=120, of=5000, loss=0.31)
    folder = bourse_progress.checkpoint_folder()
    if bourse_progress.seconds_left() < 60:
        save(folder)

Outside a job nothing happens: `report` writes nowhere, there is no folder, and no end is near. Nothing here raises: a
training is worth more than its curve. What goes wrong is told once, on the error output.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["checkpoint_folder", "report", "seconds_left"]

EVERY = 0.2  # seconds between two lines; of what comes faster the latest is kept
MOST_NUMBERS, LONGEST_NAME = 100, 100


class _Pending:
    """What this process has not written yet, and when it last wrote."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.line: bytes | None = None
        self.at = -math.inf
        self.torn = False  # whether the last line was cut off, by a full disk
        self.complained = False


_pending = _Pending()


def report(**numbers: Any) -> bool:
    """Tell numbers by name: `step`, `epoch`, `of` (steps or epochs in all), `loss`, and any others. Whether they were
    taken: outside a job, and for what is no finite number, they are not.

    Numbers of numpy and tensors of one element are numbers, too. Call it as often as you like.
    """
    try:
        if not os.environ.get("BOURSE_PROGRESS"):
            return False
        finite = {name: number for name, value in numbers.items() if (number := _number(value)) is not None}
        finite = {name: finite[name] for name in list(finite)[:MOST_NUMBERS] if len(name) <= LONGEST_NAME}
        if not finite:
            return False
        _forget_after_a_fork()
        _pending.line = json.dumps(finite).encode() + b"\n"
        return time.monotonic() - _pending.at < EVERY or _write()
    except Exception as error:
        _complain(error)
        return False


def checkpoint_folder() -> Path | None:
    """The folder that stays from one start of the job to the next; None outside a job."""
    try:
        named = os.environ.get("BOURSE_CHECKPOINT")
        if not named:
            return None
        folder = Path(named)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    except Exception as error:
        _complain(error)
        return None


def seconds_left() -> float:
    """Seconds to the end of the reservation, never below 0; infinite outside a job."""
    try:
        return max(0.0, float(os.environ.get("BOURSE_ENDS_AT") or "inf") - time.time())
    except Exception as error:
        _complain(error)
        return math.inf


def _number(value: Any) -> int | float | None:
    """A plain finite number; None for what is none."""
    try:
        if isinstance(value, (bool, str, bytes)):
            return None
        number = value if type(value) in (int, float) else value.item() if hasattr(value, "item") else float(value)
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
            return None
        return number
    except Exception:
        return None


def _write() -> bool:
    """Append the line that waits, in one piece: processes and threads that share a file do not mix their lines."""
    line = _pending.line
    if line is None:
        return True
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
    file = os.open(os.environ["BOURSE_PROGRESS"], flags, 0o644)
    try:
        whole = b"\n" + line if _pending.torn else line
        _pending.torn = os.write(file, whole) < len(whole)
    finally:
        os.close(file)
    _pending.line, _pending.at = None, time.monotonic()
    return not _pending.torn


def _forget_after_a_fork() -> None:
    """What the parent has not written is the parent's."""
    global _pending
    if _pending.process != os.getpid():
        _pending = _Pending()


@atexit.register
def _write_the_last() -> None:
    try:
        _forget_after_a_fork()
        if os.environ.get("BOURSE_PROGRESS"):
            _write()
    except Exception as error:
        _complain(error)


def _complain(error: Exception) -> None:
    """Once in a process: a line for each step would drown the program's own output."""
    try:
        if not _pending.complained:
            _pending.complained = True
            sys.stderr.write(f"bourse_progress: {type(error).__name__}: {error}\n")
    except Exception:  # noqa: S110 - not even the error output is there
        pass

"""Write the log of a gang: the lines of all its processes, each with time, role and rank, in a file of bounded size."""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

from scheduling.engines.launcher.files import LONGEST_LINE, READABLE

WINDOW_SECONDS, WINDOW_BYTES = 10.0, 128 * 1024  # lines that come faster are left out
LAST_LINES, LAST_BYTES = 20, 16 * 1024  # these are kept in any case: a log's end says why a program failed
SPACES = frozenset("\u00a0\u1680\u202f\u205f\u3000").union(map(chr, range(0x2000, 0x200B)))  # in many languages


def several(count: int, word: str, words: str = "") -> str:
    """Return a count with its word, such as "1 process" or "2 processes"."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"


class Logbook:
    """Appends lines to a log. Beyond the allowed rate or size it leaves lines out, and says so in the log."""

    def __init__(self, path: Path, most: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, READABLE)
        os.fchmod(self._file, READABLE)
        self._room = most - os.fstat(self._file).st_size
        self._window, self._in_window, self._left_out = time.monotonic(), 0, 0
        self._is_cut = self._is_full = False  # lines are left out in this window; from now on
        self._last: deque[bytes] = deque(maxlen=LAST_LINES)  # the last lines that were left out

    def note(self, text: str) -> None:
        """Write a line of the supervisor's own. These are few, and never left out."""
        self._write(_row("engine", 0, text))

    def line(self, role: str, rank: int, text: str) -> None:
        """Write one line of a process, or leave it out."""
        now = time.monotonic()
        if now - self._window > WINDOW_SECONDS:
            self._window, self._in_window = now, 0
            if not self._is_full:  # otherwise the log would say so again every few seconds to the end
                self._is_cut = False
                self._say_what_was_left_out()
        row = _row(role, rank, text)
        is_full = self._is_full or len(row) > self._room
        if self._is_cut or is_full or self._in_window + len(row) > WINDOW_BYTES:
            if not self._is_cut:
                why = "more than it may" if is_full else "faster than it may"
                self.note(f"{role} {rank} writes {why}: its lines are left out from here on.")
                self._is_cut, self._is_full = True, is_full
            self._left_out += 1
            self._last.append(row)
            while sum(map(len, self._last)) > LAST_BYTES:
                self._last.popleft()
            return
        self._in_window += len(row)
        self._room -= len(row)
        self._write(row)

    def close(self, last: str) -> None:
        """Write the last of the lines that were left out, then the line `last`, and close the file."""
        for row in self._last:
            self._write(row)
        self._left_out -= len(self._last)
        self._say_what_was_left_out(" before the last ones" if self._last else "")
        self.note(last)
        os.close(self._file)

    def _say_what_was_left_out(self, where: str = "") -> None:
        if self._left_out > 0:
            self.note(f"{self._left_out} lines were left out{where}.")
        self._left_out = 0
        self._last.clear()

    def _write(self, row: bytes) -> None:
        try:
            os.write(self._file, row)
        except OSError:  # the disk is full; the log says so once there is room again
            self._left_out += 1


def _row(role: str, rank: int, text: str) -> bytes:
    text = text[:LONGEST_LINE]
    if not text.isprintable():  # looked at as a whole first: a program may write a million lines that are left out
        text = "".join(sign if sign.isprintable() or sign == "\t" or sign in SPACES else "�" for sign in text)
    return f"{time.time():.3f} {role} {rank} {text}\n".encode("utf-8", "replace")

"""The log of a gang: lines of all its processes, with the moment and the speaker, in a file of bounded size."""

from __future__ import annotations

import os
import time
from pathlib import Path

from scheduling.engines.launcher.files import LONGEST_LINE, READABLE

WINDOW_SECONDS, WINDOW_BYTES = 10.0, 128 * 1024  # whoever writes faster is cut


def several(count: int, word: str, words: str = "") -> str:
    """As "1 process", or "2 processes"."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"


class Logbook:
    """Appends. Beyond the rate, or the size of the whole, lines are left out, and that is said."""

    def __init__(self, path: Path, most: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, READABLE)
        os.fchmod(self._file, READABLE)
        self._left = most - os.fstat(self._file).st_size
        self._window, self._in_window, self._left_out = time.monotonic(), 0, 0

    def note(self, text: str) -> None:
        """Of whoever watches over the gang: never left out, and few."""
        self._write("engine", 0, text)

    def line(self, role: str, rank: int, text: str) -> None:
        """One line of a process."""
        now = time.monotonic()
        if now - self._window > WINDOW_SECONDS:
            self._window, self._in_window = now, 0
            self._say_what_was_left_out()
        size = len(text) + 32
        if self._in_window + size > WINDOW_BYTES or size > self._left:
            if not self._left_out:
                why = "faster than it may" if size <= self._left else "more than it may"
                self.note(f"{role} {rank} writes {why}: its lines are left out from here on.")
            self._left_out += 1
            return
        self._in_window += size
        self._left -= size
        self._write(role, rank, text)

    def close(self) -> None:
        """The last word."""
        self._say_what_was_left_out()
        os.close(self._file)

    def _say_what_was_left_out(self) -> None:
        if self._left_out:
            self.note(f"{self._left_out} lines were left out.")
            self._left_out = 0

    def _write(self, role: str, rank: int, text: str) -> None:
        clean = "".join(sign if sign.isprintable() or sign == "\t" else "�" for sign in text[:LONGEST_LINE])
        try:
            os.write(self._file, f"{time.time():.3f} {role} {rank} {clean}\n".encode("utf-8", "replace"))
        except OSError:  # the disk is full: that is said once it is not any more
            self._left_out += 1

"""Show how a job gets on while a person waits: one line that changes on a terminal, else a line for each change."""

from __future__ import annotations

import time
from collections.abc import Callable

from bourse_client.command.screen import Screen, moment, plain
from bourse_client.shapes import Job

CLEAR = "\r\x1b[2K"


class Progress:
    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen, self._clock = screen, clock
        self._live = screen.err.isatty()
        self._began, self._text, self._open = clock(), "", False

    def show(self, job: Job) -> None:
        text = plain(f"Job {job['id']} is {job['state']}{_when(job)}.")
        if self._live:
            self._screen.err.write(f"{CLEAR}{text} {self._clock() - self._began:,.0f} s")
            self._screen.err.flush()
            self._open = True
        elif text != self._text:
            self._screen.note(text)
        self._text = text

    def end(self) -> None:
        """Clear the line, to make room for the answer."""
        if self._open:
            self._screen.err.write(CLEAR)
            self._screen.err.flush()
        self._open = False


def _when(job: Job) -> str:
    if job["state"] == "awarded" and job["starts_at"]:
        return f", starts {moment(job['starts_at'])}"
    if job["state"] == "running" and job["ends_at"]:
        return f", ends {moment(job['ends_at'])}"
    return ""

"""Start children again when they end: in what order, after which wait, and when to give up.

No child but PostgreSQL has anything that is not also in the database, and PostgreSQL recovers by itself what was
committed. So any of them may end in any way, and another process replaces it (decision 0192).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NoReturn

from marketplace.embedded.servers import RECOVERY_SECONDS
from marketplace.processes import children
from marketplace.processes.children import Child, ChildFailed

MOST_ENDS, WITHIN_SECONDS = 5, 60.0  # of one child; one more end in this time stops everything
FIRST_WAIT_SECONDS = 0.5
LOOK_SECONDS, LOGS_SECONDS = 0.2, 5.0


@dataclass
class ChildPlace:
    """The place of a child by its name, whichever process it is now. `start` starts another one.

    `is_ready` is given for a server, which those after it in the order need; they wait until it answers.
    """

    child: Child
    start: Callable[[], Child]
    is_ready: Callable[[], bool] | None = None
    ends: list[float] = field(default_factory=list)  # the moments of the last minute, by the clock of `look`
    due: float | None = None  # when it is to be started again
    missing_since: float | None = None  # of a server that does not answer yet

    @property
    def name(self) -> str:
        return self.child.name

    def stop(self) -> None:
        children.stop(self.child)


def wait_before_start(ends: int) -> float | None:
    """Return the seconds to wait after this many ends of one child within a minute, or None if those were too many.

    The first end has no wait, the second half a second, and each further one twice as much as the one before.
    """
    if ends > MOST_ENDS:
        return None
    return FIRST_WAIT_SECONDS * 2 ** (ends - 2) if ends > 1 else 0.0


class Keeper:
    """Keeps the children running. `places` are in the order of starting."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.places: list[ChildPlace] = []
        self._tell = tell
        self._logs_at = 0.0

    def first_ended(self) -> Child | None:
        return next((place.child for place in self.places if place.child.ended), None)

    def keep(self) -> NoReturn:
        """Run until a child ends too often, which raises `ChildFailed`, or until an interrupt."""
        while True:
            self.look(time.monotonic())
            time.sleep(LOOK_SECONDS)

    def look(self, now: float) -> None:
        """Shorten the logs, notice children that ended, and start those that are due."""
        if now - self._logs_at >= LOGS_SECONDS:
            self._logs_at = now
            for place in self.places:
                place.child = children.keep_log_short(place.child)
        for place in self.places:
            if place.due is None and place.child.ended:
                pid = place.child.pid
                children.stop(place.child)  # kills whatever it left in its group
                self._again(place, now, f"{place.name} (process {pid}) {children.how_it_ended(place.child)}")
            if place.due is not None and now >= place.due:
                self._start(place, now)
            if place.is_ready is not None and not self._is_back(place, now):
                return

    def _again(self, place: ChildPlace, now: float, what: str) -> None:
        """Plan to start a child again after a wait; raise `ChildFailed` if it has ended too often."""
        place.ends = [end for end in place.ends if now - end < WITHIN_SECONDS] + [now]
        if (wait := wait_before_start(len(place.ends))) is None:
            raise ChildFailed(
                f"{what}. Its last lines, from {place.child.log}:\n{children.last_lines(place.child)}\n"
                f"{place.name} has ended {len(place.ends)} times within a minute, so everything is stopped."
            )
        self._say(f"{what}. It is started again{f' in {wait:g} s' if wait else ''}.")
        place.due = now + wait
        if place.is_ready is not None and place.missing_since is None:
            place.missing_since = now

    def _start(self, place: ChildPlace, now: float) -> None:
        try:
            place.child, place.due = place.start(), None
        except OSError as error:
            self._again(place, now, f"{place.name} cannot be started ({error.strerror})")
        else:
            self._say(f"{place.name} is process {place.child.pid} now.")

    def _is_back(self, place: ChildPlace, now: float) -> bool:
        """Return whether a server answers, as far as known: after an answer it is checked again only after its end."""
        if place.missing_since is None:
            return True
        if place.due is None and place.is_ready is not None and place.is_ready():
            self._say(f"{place.name} answers again, {now - place.missing_since:.1f} s after its end was noticed.")
            place.missing_since = None
            return True
        if now - place.missing_since > RECOVERY_SECONDS:
            raise ChildFailed(
                f"{place.name} was not ready {RECOVERY_SECONDS:.0f} seconds after its end. Its last lines, "
                f"from {place.child.log}:\n{children.last_lines(place.child)}"
            )
        return False

    def _say(self, what: str) -> None:
        self._tell(f"{datetime.now(UTC):%H:%M:%S} {what}")

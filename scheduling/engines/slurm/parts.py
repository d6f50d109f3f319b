"""Follow the parts of gangs by what their launchers write into the shared folder: when each was last heard of, and
whether its server's clock is right. Logs and progress are copied into our own folder, where pages read them."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scheduling.engines.base import CLOCK, ENDED
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.others import MOST_UNHEARD
from scheduling.engines.slurm.records import record_read

# A gang on a server whose clock differs from ours by so much would begin or end in somebody else's slot. A shared
# folder may show a beat some seconds late, so several beats have to be late.
CLOCK_AHEAD, CLOCK_BEHIND, LATE_BEATS = 2.0, 3.0, 3
CLOCKS_REMEMBERED = 600.0  # how long a clock is reported, unless a later gang shows that it is right again
MOST_PROGRESS = 4 * 2**20
LAST_WORDS = 2**18  # bytes of a part's last lines beyond the size of its log, which its launcher keeps in any case


@dataclass
class PartBeat:
    """A part's newest record. `moved` is when its beat last changed and `looked` when we last read it, by our own
    clock. `silent` is for how many seconds of it the beat has not changed, without those in which we could not look.

    `lag` is the least that a beat was behind our time of slots when we saw it. `behind` is the least that a beat must
    have been behind when it was written, since it was written after our reading before.
    """

    record: dict[str, Any]
    moved: float
    looked: float
    lag: float
    behind: float = math.inf
    beats: int = 0  # how many beats were written between two readings
    silent: float = 0.0

    @property
    def clock_differs(self) -> float | None:
        """By how many seconds the clock differs, where that is sure: a beat comes from the future, or all beats are
        late. None where it is not."""
        sure = self.lag < -CLOCK_AHEAD or (self.beats >= LATE_BEATS and self.behind > CLOCK_BEHIND)
        return -self.lag if sure else None

    def sees(self, record: dict[str, Any], lag: float, now: float) -> PartBeat:
        """Return the beat of the same part after it was read again."""
        if record["beat"] == self.record["beat"]:
            if record["state"] != self.record["state"]:
                return replace(self, record=record, moved=now, looked=now, silent=0.0)
            silent = self.silent + min(now - self.looked, MOST_UNHEARD)
            return replace(self, record=record, looked=now, silent=silent)
        late = min(self.behind, lag - (now - self.looked))
        return PartBeat(record, now, now, min(self.lag, lag), late, self.beats + 1)


class PartsHeard:
    """What was heard of all parts. A part is identified by the folder in which its launcher writes."""

    def __init__(self) -> None:
        self._beats: dict[tuple[str, str], PartBeat] = {}
        self._collected: set[tuple[str, str]] = set()  # parts whose log and progress are wholly in our folder
        self._read_to: dict[str, dict[str, Any]] = {}  # by key, up to which byte each file was copied
        self._clocks: dict[str, tuple[float, float]] = {}  # servers whose clock differs: by how much, and when seen

    def record_of(self, part: Folder, clock: Callable[[], float]) -> dict[str, Any] | None:
        """Return the launcher's newest record; raises `OSError` where it cannot be read. `clock` returns the time of
        slots, and is called once the record is read."""
        beat = self._beats.get((part.key, part.part))
        if beat and beat.record["state"] == ENDED:
            return beat.record  # it writes no other record
        record = record_read(part.state) or (beat.record if beat else None)  # whose file is gone is silent
        if record is None:
            return None
        now, lag = time.monotonic(), clock() - record["beat"]
        beat = beat.sees(record, lag, now) if beat else PartBeat(record, now, now, lag)
        self._beats[part.key, part.part] = beat
        if (by := beat.clock_differs) is not None:
            self._clocks[_server_of(part.part)] = by, now
        elif beat.beats >= LATE_BEATS:
            self._clocks.pop(_server_of(part.part), None)
        return record

    def beat_of(self, part: Folder) -> PartBeat:
        """Return the beat of a part that has a record."""
        return self._beats[part.key, part.part]

    def silence_of(self, server: str) -> float:
        """Return for how many seconds no launcher on the server was heard of; infinity where there was none."""
        moments = [
            beat.moved
            for (_, name), beat in self._beats.items()
            if _server_of(name) == server and beat.record["state"] != ENDED
        ]
        return time.monotonic() - max(moments, default=-math.inf)

    def clocks_that_differ(self) -> list[tuple[str, float]]:
        """Return the servers whose clock differs from ours, and by how many seconds each."""
        since = time.monotonic() - CLOCKS_REMEMBERED
        return [(server, by) for server, (by, seen_at) in sorted(self._clocks.items()) if seen_at > since]

    def collect(self, own: Folder, parts: Sequence[Folder], most_log: int) -> bool:
        """Append what is new in the log and progress of every part, and note how far they were read. Return whether
        anything was new. `most_log` is how many bytes the launcher of each server may write."""
        servers = len({_server_of(part.part) for part in parts})
        most = {own.log: servers * (most_log + LAST_WORDS), own.progress: MOST_PROGRESS}
        notes = own.ours / "collected.json"
        # Where our disk takes no notes, we still know what we copied.
        collected = self._read_to.setdefault(own.key, files.read(notes) or {})
        before = dict(collected)
        for part in parts:
            place = part.key, part.part
            if place in self._collected:
                continue
            beat, moved = self._beats.get(place), False
            for source, target in ((part.log, own.log), (part.progress, own.progress)):
                name = f"{part.part}/{source.name}"
                after = collected.get(name, 0)
                collected[name] = _append(source, target, after, most[target])
                moved = moved or collected[name] != after
            if beat and beat.record["state"] == ENDED and not moved:
                self._collected.add(place)  # it writes nothing after it has recorded its end
        if collected != before:
            files.write(notes, collected)
        return collected != before

    def forget(self, keys: Collection[str]) -> None:
        """Forget gangs that are not observed any more."""
        self._beats = {place: beat for place, beat in self._beats.items() if place[0] not in keys}
        self._collected = {place for place in self._collected if place[0] not in keys}
        self._read_to = {key: places for key, places in self._read_to.items() if key not in keys}


def _append(source: Path, target: Path, after: int, most: int) -> int:
    """Copy the whole lines of an untrusted file from byte `after` on, and return where to continue. Where the target
    has more than `most` bytes they are left out: a gang whose size changes has new parts again and again."""
    try:
        with os.fdopen(files.theirs(source), "rb") as file:
            if os.fstat(file.fileno()).st_size == after:
                return after
            file.seek(after)
            data = file.read(256 * 1024)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):  # it does not exist yet, or is a link that leads elsewhere
            raise
        return after
    whole, size = data[: data.rfind(b"\n") + 1], 0
    with contextlib.suppress(FileNotFoundError):
        size = target.stat().st_size
    if size > most:
        return after + len(whole)
    try:
        with target.open("ab") as out:
            out.write(whole)
    except OSError:
        with contextlib.suppress(OSError):  # the same lines are copied again once there is room
            os.truncate(target, size)
        raise
    return after + len(whole)


def _server_of(part: str) -> str:
    """Return the server's name, the last word of a part's name."""
    return part.split("-", 2)[2]


def clock_sentence(server: str, by: float) -> str:
    """Return a sentence about a clock that differs. The code that counts losses recognises it by its beginning."""
    return f"{CLOCK} {server} differs by {by:+.1f} s from ours"

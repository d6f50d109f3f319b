"""Follow the other parts of a generation: each writes a record of itself into the shared folder and reads the
others'."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.engines.base import NOT_HEARD
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder

LOOK_SECONDS = 0.5
# How long a part may be without a beat, by our own clock: over a network, a file's attributes may be 3 seconds old.
SILENT_SECONDS = 10.0
# The most that counts of the time between two looks. While the shared folder does not answer, nobody can be heard.
MOST_UNHEARD = 2.0
ENDED, LOST, FAILED = "ended", "lost", "failed"


class Others:
    """The other parts, by server. `first` is the server of the coordinator, whose end counts for all parts. `before`
    are the parts of the generation before, which must be gone first."""

    def __init__(self, folders: Mapping[str, Folder], first: str, before: Sequence[Folder] = ()) -> None:
        self.folders, self.first, self.before = folders, first, before
        self.records: dict[str, dict[str, Any]] = {}
        self._silent: dict[str, float] = {}  # for how many seconds of our own clock a beat has not changed
        self._looked_at = 0.0

    def look(self) -> None:
        """Read their records, at most twice a second."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        unheard, self._looked_at = min(now - self._looked_at, MOST_UNHEARD), now
        for server, folder in self.folders.items():
            record = files.read(folder.state)
            if record and record.get("beat") != self.records.get(server, {}).get("beat"):
                self._silent[server] = 0.0
                self.records[server] = record
            elif server in self._silent:
                self._silent[server] += unheard

    def missing(self) -> list[str]:
        """Return the servers whose part was never heard of, or not any more, and has recorded no end."""
        return sorted(server for server in self.folders if self._is_silent(server) and not self._has_ended(server))

    def before_us(self) -> bool:
        """Return whether a part of the generation before still runs."""
        for folder in self.before:
            record = files.read(folder.state)
            if record and record["state"] != ENDED and abs(time.time() - record["beat"]) < SILENT_SECONDS:
                return True
        return False

    def verdict(self) -> tuple[str, str] | None:
        """Return how and why the gang ends because of one of these parts, or None if it continues."""
        first = self.records.get(self.first)
        if first and first["state"] == ENDED:
            return str(first["end"]), str(first["detail"])
        for server, record in sorted(self.records.items()):
            if record["state"] == ENDED and record["end"] in (LOST, FAILED):
                return str(record["end"]), f"{server}: {record['detail']}"
        if missing := self.missing():
            return LOST, f"{NOT_HEARD} on {', '.join(missing)} any more"
        return None

    def address(self, role: str, rank: int) -> str | None:
        """Return the address at which a member listens, or None if it is not known."""
        for record in self.records.values():
            if (port := record["ports"].get(role, {}).get(str(rank))) is not None:
                return f"{record['host']}:{port}"
        return None

    def begun(self) -> bool:
        """Return whether the coordinator, on another server, has begun the job."""
        return bool(self.records.get(self.first, {}).get("begun"))

    def _is_silent(self, server: str) -> bool:
        return self._silent.get(server, math.inf) > SILENT_SECONDS

    def _has_ended(self, server: str) -> bool:
        return bool(self.records.get(server, {}).get("state") == ENDED)

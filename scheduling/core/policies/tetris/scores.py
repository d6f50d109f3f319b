"""Scores of how well units fit servers, updated while the servers fill up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.core.types import BoolArray, FloatArray

DIGITS = 9  # decimals to which scores are compared, so that scores that are equal on paper are equal here
SCALE = 10.0**DIGITS


class Scores:
    """How well units fit the servers: a row for each different demand and set of hosts, -inf where there is no room."""

    def __init__(self, free: FloatArray, part: FloatArray) -> None:
        self.part = part  # (resources,)
        self.whole = free  # (resources, servers) before anything is packed
        self.free: list[list[float]] = free.T.tolist()  # by server, then by resource
        self.rows: dict[tuple[object, ...], int] = {}
        self.demand: list[FloatArray] = []
        self.hosts: list[BoolArray] = []

    def row(self, demand: FloatArray, hosts: BoolArray) -> int:
        """Return the index of the row for such units, and add it if it is new."""
        key = (demand.tobytes(), id(hosts))
        if key not in self.rows:
            self.rows[key] = len(self.demand)
            self.demand.append(demand)
            self.hosts.append(hosts)
        return self.rows[key]

    def fill(self, together: Sequence[int]) -> None:
        """Work out all rows. A fit is divided by the mean fit over the rows `together` and all servers."""
        self.demands, self.hosted = np.array(self.demand), np.array(self.hosts)  # (rows, resources), (rows, servers)
        self.tasks = self.demands * self.part
        self.needs: list[list[float]] = self.demands.tolist()
        self.may: list[list[bool]] = self.hosted.tolist()
        fits = self.tasks @ (self.whole * self.part[:, None])
        self.mean = float(fits[list(together)].mean()) or 1.0
        room = self.hosted & (self.whole[None] >= self.demands[:, :, None]).all(axis=1)
        self.scores = np.where(room, fits / self.mean, -np.inf)
        self.rounded = np.round(self.scores, DIGITS)
        self.at = self.scores.argmax(axis=1)  # (rows,) the best server, and how well it fits
        self.best = self.scores.max(axis=1)
        self.tasked: list[list[float]] = self.tasks.tolist()
        self.parts: list[float] = self.part.tolist()
        self.stale: list[int] = []  # servers where something changed since all rows were renewed
        self.followed: dict[int, int] = {}  # by row, how many of the stale servers its rounded scores include

    def take(self, server: int, demand: Sequence[float]) -> None:
        """Put a unit on a server. The server's scores are renewed when they are needed."""
        free = self.free[server]
        for resource, amount in enumerate(demand):
            free[resource] -= amount
        self.stale.append(server)

    def give_back(self, server: int, demand: Sequence[float]) -> None:
        """Take a unit away from a server."""
        free = self.free[server]
        for resource, amount in enumerate(demand):
            free[resource] += amount
        self.stale.append(server)

    def renew(self) -> bool:
        """Renew all scores and best fits, and return whether anything had changed."""
        if not self.stale:
            return False
        servers = list(dict.fromkeys(self.stale))
        self.stale.clear()
        self.followed.clear()
        free = np.array([self.free[server] for server in servers]).T  # (resources, stale)
        room = self.hosted[:, servers] & (free >= self.demands[:, :, None]).all(axis=1)
        scores = np.where(room, self.tasks @ (free * self.part[:, None]) / self.mean, -np.inf)
        self.scores[:, servers] = scores
        self.rounded[:, servers] = np.round(scores, DIGITS)
        for row, (best, most) in enumerate(zip(self.best.tolist(), scores.max(axis=1).tolist(), strict=True)):
            if most > best:
                self.best[row], self.at[row] = most, servers[int(scores[row].argmax())]
            elif best > -np.inf and self.scores[row, self.at[row]] < best:
                self.at[row] = self.scores[row].argmax()
                self.best[row] = self.scores[row, self.at[row]]
        return True

    def spot(self, row: int) -> int | None:
        """Return the server that fits best, ties the first; None if there is no room anywhere. Only this row is
        renewed, number by number, as few servers have changed since it was last needed."""
        rounded = self.rounded[row]
        for server in self.stale[self.followed.get(row, 0) :]:
            rounded[server] = self._rounded(row, server)
        self.followed[row] = len(self.stale)
        server = int(rounded.argmax())
        return None if rounded[server] == -np.inf else server

    def _rounded(self, row: int, server: int) -> float:
        """Return one score, rounded as numpy does."""
        if not self.fits(row, server):
            return -np.inf
        parts = zip(self.tasked[row], self.free[server], self.parts, strict=True)
        fit = sum([task * (free * part) for task, free, part in parts])
        return round(fit / self.mean * SCALE) / SCALE

    def fits(self, row: int, server: int) -> bool:
        """Return whether there is room on this server."""
        if not self.may[row][server]:
            return False
        for have, need in zip(self.free[server], self.needs[row], strict=True):  # noqa: SIM110 - `all` takes twice as long
            if have < need:
                return False
        return True

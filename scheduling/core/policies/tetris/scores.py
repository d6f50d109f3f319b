"""How well units fit servers, followed while servers fill up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.core.types import BoolArray, FloatArray

DIGITS = 9  # to which scores are compared: what is equal on paper is equal here
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
        """The number of the row for such units."""
        key = (demand.tobytes(), id(hosts))
        if key not in self.rows:
            self.rows[key] = len(self.demand)
            self.demand.append(demand)
            self.hosts.append(hosts)
        return self.rows[key]

    def fill(self, together: Sequence[int]) -> None:
        """Work all rows out. The fit counts in parts of its mean over the rows `together` and all servers."""
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
        self.followed: dict[int, int] = {}  # by row, how many of these its own scores follow

    def take(self, server: int, demand: Sequence[float]) -> None:
        """A unit is put there; its scores are looked at again when somebody asks."""
        free = self.free[server]
        for resource, amount in enumerate(demand):
            free[resource] -= amount
        self.stale.append(server)

    def give_back(self, server: int, demand: Sequence[float]) -> None:
        """A unit is taken away."""
        free = self.free[server]
        for resource, amount in enumerate(demand):
            free[resource] += amount
        self.stale.append(server)

    def renew(self) -> bool:
        """All scores and best fits as they are now; whether anything had changed."""
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
        """The server that fits best; ties the first; None without room anywhere. Of the others only this row is
        renewed, number by number: few servers changed since somebody asked for it."""
        rounded = self.rounded[row]
        for server in self.stale[self.followed.get(row, 0) :]:
            rounded[server] = self._rounded(row, server)
        self.followed[row] = len(self.stale)
        server = int(rounded.argmax())
        return None if rounded[server] == -np.inf else server

    def _rounded(self, row: int, server: int) -> float:
        """One score, rounded as numpy does."""
        if not self.fits(row, server):
            return -np.inf
        parts = zip(self.tasked[row], self.free[server], self.parts, strict=True)
        fit = sum([task * (free * part) for task, free, part in parts])
        return round(fit / self.mean * SCALE) / SCALE

    def fits(self, row: int, server: int) -> bool:
        """Whether there is room on this server."""
        if not self.may[row][server]:
            return False
        for have, need in zip(self.free[server], self.needs[row], strict=True):  # noqa: SIM110 - `all` takes twice as long
            if have < need:
                return False
        return True

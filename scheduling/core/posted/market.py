"""What is for sale from a slot on, at what price, and who is paid for it."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from scheduling.core import prices
from scheduling.core.posted.bounds import PriceBounds
from scheduling.core.types import Booking, BoolArray, Cluster, FloatArray, Job, Resale, View

IntArray = npt.NDArray[np.intp]
ALL = slice(None)
FEWEST = 64  # servers of a kind: with fewer left, sums over several resources could be taken in another order
MOST_CLUSTERS = 8  # clusters: a process asks about the same ones again and again


class PostedMarket:
    """A working copy of a view: occupied amounts grow as jobs of the same call are admitted."""

    def __init__(self, view: View) -> None:
        self.cluster: Cluster = view.cluster
        self.slot, self.horizon = view.slot, view.horizon
        ends = [window.end - view.slot for window in view.windows]
        ends += [resale.slot + 1 - view.slot for resale in view.resale]
        self._rows = max([view.occupied.shape[1], *ends]) + 1  # the last row stands for all slots after it
        self._tail = np.zeros(view.cluster.capacity.shape) if view.tail is None else view.tail
        self._use = view.occupied
        self._least = self._published(view, "prices", 0.0)
        self._shares = self._contributions(view)
        self._home = home_part(self.cluster)
        self._resale: dict[int, list[Resale]] = {}
        for resale in view.resale:
            self._resale.setdefault(resale.slot - view.slot, []).append(resale)

    @cached_property
    def _occupied(self) -> FloatArray:
        """A copy, once a price is asked for: whoever has idle cells of its own often needs none."""
        return self._padded(self._use)

    @property
    def rows(self) -> int:
        """Slots that differ from each other; all later ones are like the last of these."""
        return self._rows

    def reachable(self, hosts: BoolArray, most: int) -> IntArray:
        """Indexes of the servers that host, but for those that are never reached by so many units, wherever the
        cheapest are taken first, of equals the first: of servers that are alike, and on which nothing is held, each has
        the same price and the same room in every slot."""
        alike = server_kinds(self.cluster)
        idle = hosts & ~self._occupied.any(axis=(0, 1))
        idle[[resale.server for given_up in self._resale.values() for resale in given_up]] = False
        free = np.flatnonzero(idle)
        by_kind = free[np.argsort(alike[free], kind="stable")]
        _, begins = np.unique(alike[by_kind], return_index=True)  # where the servers of each kind begin
        place = np.arange(len(by_kind)) - np.repeat(begins, np.diff(begins, append=len(by_kind)))  # among its kind
        needed = hosts.copy()
        needed[by_kind[place >= max(most, FEWEST)]] = False
        return np.flatnonzero(needed)

    def posted(self, bounds: PriceBounds, named: IntArray, rows: int, servers: IntArray | slice = ALL) -> FloatArray:
        """(resources, rows, servers) price per unit and slot of the `named` resources; 0 for the others.

        Never below the slot's published batch price (C9).
        """
        used = self._occupied[:, :rows, servers]
        prices_of = np.zeros(used.shape)
        ceilings = bounds.ceilings(self.cluster.resources)[named, None, None]
        capacity = self.cluster.capacity[named, None, :][..., servers]
        posted_prices = prices.between(np.array(bounds.floor), ceilings, used[named], capacity)
        prices_of[named] = np.maximum(posted_prices, self._least[named, :rows, None])
        return prices_of

    def net(self, prices: FloatArray, payer: int | None, servers: IntArray | slice = ALL) -> FloatArray:
        """(resources, rows, servers) of `prices`, what does not come back to the payer: its own part is as large as its
        contribution, or as what it gave up itself (C12). The very same prices where nothing comes back, or for nobody.
        """
        if payer is None:
            return prices
        shares = self._shares_of(payer, prices.shape[1])
        resold = {
            row: self._part_of_resold(payer, row, shares[:, row, None] * self._home)
            for row in self._resale
            if row < prices.shape[1]
        }
        elsewhere = np.delete(shares, list(resold), axis=1).any(axis=1) & self._home.any(axis=1)
        if not elsewhere.any() and not any(part.any() for part in resold.values()):
            return prices
        part = shares[:, :, None] * self._home[:, None, servers]
        for row, part_of_row in resold.items():
            part[:, row] = part_of_row[:, servers]
        return prices * (1.0 - np.minimum(part, 1.0))

    def least_net(self, payer: int | None) -> float:
        """No part of a payment is smaller that does not come back to the payer, wherever and whenever it buys."""
        if payer is None:
            return 1.0
        shares = self._shares_of(payer, self.rows)
        part = shares * self._home.max(axis=1, initial=0.0)[:, None]  # the largest on any server
        for row in [row for row in self._resale if row < self.rows]:
            part[:, row] = self._part_of_resold(payer, row, shares[:, row, None] * self._home).max(axis=1, initial=0.0)
        return float((1.0 - np.minimum(part, 1.0)).min(initial=1.0))

    def _shares_of(self, payer: int, rows: int) -> FloatArray:
        """(resources, rows) the payer's contribution to what home cells earn."""
        shares: FloatArray = self._shares[:, payer, np.minimum(np.arange(rows), self._shares.shape[2] - 1)]
        return shares

    def _part_of_resold(self, payer: int, row: int, part: FloatArray) -> FloatArray:
        """(resources, servers) what comes back to the payer in a slot in which given up units are sold; `part`: where
        none are."""
        sold, own = np.zeros((2, *self._home.shape))
        for resale in self._resale[row]:
            sold[resale.resource, resale.server] += resale.share
            own[resale.resource, resale.server] += resale.share * (resale.owner == payer)
        rest: FloatArray = part * np.maximum(1.0 - sold, 0.0) + own
        return rest

    def free(self, rows: int, servers: IntArray | slice = ALL) -> FloatArray:
        """(resources, rows, servers) amounts that nobody holds."""
        return self.cluster.capacity[:, None, servers] - self._occupied[:, :rows, servers]

    def take(self, job: Job, booking: Booking) -> None:
        """Occupy what a booking takes, so that the next job of this call sees it in prices and rooms."""
        self._grow(booking.end - self.slot + 1)
        worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
        for row in booking.allocation:
            slots = slice(row.start - self.slot, row.end - self.slot)
            self._occupied[:, slots, row.server] += (row.workers * worker + row.ps * ps)[:, None]

    def owners_of(self, amounts: FloatArray, row: int) -> FloatArray:
        """(owners,) the split of one slot's `amounts` (resources, servers) of credits (C12).

        On every server the part that lies in home cells goes to the tenants by their frozen contribution in that
        slot, the rest to the operator. Without pinned cells the split is by what each owner has. Before that, who
        gave units up there is paid for its share of them.
        """
        resold, amounts = self._resold(amounts, row)
        home = (amounts * self._home).sum(axis=1)
        shares = self._shares[:, :, min(row, self._shares.shape[2] - 1)]
        split: FloatArray = np.einsum("r,ro->o", home, shares)
        nobodys = home[shares.sum(axis=1) == 0].sum()
        split[-1] += (amounts * (1.0 - self._home)).sum() + nobodys
        split += resold
        return split

    def _resold(self, amounts: FloatArray, row: int) -> tuple[FloatArray, FloatArray]:
        """((owners,) credits for units that were given up, (resources, servers) what is left for the owners)."""
        resold, rest = np.zeros(len(self.cluster.owners)), amounts.copy()
        for resale in self._resale.get(row, ()):
            credits = amounts[resale.resource, resale.server] * resale.share
            resold[resale.owner] += credits
            rest[resale.resource, resale.server] -= credits
        return resold, np.maximum(rest, 0.0)

    def _grow(self, rows: int) -> None:
        if rows > self._rows:
            self._rows = rows
            self._occupied = self._padded(self._occupied)
            self._least = np.pad(self._least, ((0, 0), (0, rows - self._least.shape[1])), mode="edge")

    def _padded(self, occupied: FloatArray) -> FloatArray:
        beyond = np.repeat(self._tail[:, None, :], self._rows - occupied.shape[1], axis=1)
        return np.concatenate([occupied, beyond], axis=1)

    def _published(self, view: View, name: str, otherwise: float) -> FloatArray:
        """(resources, rows) a number of the published windows in each slot."""
        numbers = np.full((len(self.cluster.resources), self._rows), otherwise)
        for window in view.windows:
            begin = max(window.start, view.slot)
            numbers[:, begin - view.slot : window.end - view.slot] = getattr(window, name)[:, begin - window.start :]
        return numbers

    def _contributions(self, view: View) -> FloatArray:
        """(resources, owners, rows) shares in what home cells earn: published contributions, else plain shares."""
        owned = self.cluster.shares.copy()
        if self.cluster.cells is not None:
            owned[:, -1] = 0.0  # the operator is paid for its own part of each server
        amounts = np.repeat(owned[:, :, None], self._rows, axis=2)
        for window in view.windows:
            begin = max(window.start, view.slot)
            idle = np.maximum(window.idle[:, :, begin - window.start :], 0.0)
            if self.cluster.cells is not None:
                idle[:, -1] = 0.0
            amounts[:, :, begin - view.slot : window.end - view.slot] = idle
        total = amounts.sum(axis=1, keepdims=True)
        return np.divide(amounts, total, out=np.zeros_like(amounts), where=total > 0)


@lru_cache(maxsize=MOST_CLUSTERS)
def home_part(cluster: Cluster) -> FloatArray:
    """(resources, servers) the part of each server's units whose price is split among contributors."""
    if cluster.cells is None:
        return np.ones(cluster.capacity.shape)
    capacity = cluster.capacity
    return np.divide(cluster.cells.sum(axis=1), capacity, out=np.zeros(capacity.shape), where=capacity > 0)


@lru_cache(maxsize=MOST_CLUSTERS)
def server_kinds(cluster: Cluster) -> IntArray:
    """(servers,) a number for each server: the same for those that have as much of everything, and as much of it at
    home."""
    columns = np.concatenate([cluster.capacity, home_part(cluster)])
    kinds: IntArray = np.unique(columns, axis=1, return_inverse=True)[1].reshape(-1)
    return kinds

"""The market at posted prices: what is for sale from a slot on, at what price, and which owners are paid for it."""

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
MOST_CLUSTERS = 8  # clusters that are remembered: a process uses the same ones again and again


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
        """A copy of the occupied amounts, made when a price is first needed: a job that fits on its tenant's own idle
        cells often needs none."""
        return self._padded(self._use)

    @property
    def rows(self) -> int:
        """The number of slots that differ from each other; all later slots are like the last of these."""
        return self._rows

    def reachable(self, hosts: BoolArray, most: int) -> IntArray:
        """Return the indexes of the servers that host, without those that `most` units never reach if the cheapest
        servers are taken first, and of equally cheap ones the first: servers that are alike, and on which nothing is
        held, have the same price and the same room in every slot."""
        alike = server_kinds(self.cluster)
        idle = hosts & ~self._occupied.any(axis=(0, 1))
        idle[[resale.server for given_up in self._resale.values() for resale in given_up]] = False
        free = np.flatnonzero(idle)
        by_kind = free[np.argsort(alike[free], kind="stable")]
        _, begins = np.unique(alike[by_kind], return_index=True)  # where the servers of each kind begin
        place = np.arange(len(by_kind)) - np.repeat(begins, np.diff(begins, append=len(by_kind)))  # rank among its kind
        needed = hosts.copy()
        needed[by_kind[place >= max(most, FEWEST)]] = False
        return np.flatnonzero(needed)

    def posted(self, bounds: PriceBounds, named: IntArray, rows: int, servers: IntArray | slice = ALL) -> FloatArray:
        """Return the price per unit and slot of the `named` resources, (resources, rows, servers); 0 for the others.

        It is never below the slot's published batch price (C9).
        """
        used = self._occupied[:, :rows, servers]
        prices_of = np.zeros(used.shape)
        ceilings = bounds.ceilings(self.cluster.resources)[named, None, None]
        capacity = self.cluster.capacity[named, None, :][..., servers]
        posted_prices = prices.between(np.array(bounds.floor), ceilings, used[named], capacity)
        prices_of[named] = np.maximum(posted_prices, self._least[named, :rows, None])
        return prices_of

    def net(self, prices: FloatArray, payer: int | None, servers: IntArray | slice = ALL) -> FloatArray:
        """Return the part of `prices` (resources, rows, servers) that does not come back to the payer. Its own part is
        as large as its contribution, or as what it gave up itself (C12). Return the same array if nothing comes back,
        or if there is no payer.
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
        """Return the least part of a payment that does not come back to the payer, wherever and whenever it buys."""
        if payer is None:
            return 1.0
        shares = self._shares_of(payer, self.rows)
        part = shares * self._home.max(axis=1, initial=0.0)[:, None]  # the largest on any server
        for row in [row for row in self._resale if row < self.rows]:
            part[:, row] = self._part_of_resold(payer, row, shares[:, row, None] * self._home).max(axis=1, initial=0.0)
        return float((1.0 - np.minimum(part, 1.0)).min(initial=1.0))

    def _shares_of(self, payer: int, rows: int) -> FloatArray:
        """Return the payer's contribution to what home cells earn, (resources, rows)."""
        shares: FloatArray = self._shares[:, payer, np.minimum(np.arange(rows), self._shares.shape[2] - 1)]
        return shares

    def _part_of_resold(self, payer: int, row: int, part: FloatArray) -> FloatArray:
        """Return the part that comes back to the payer, (resources, servers), in a slot in which given up units are
        sold. `part` is what would come back if there were none."""
        sold, own = np.zeros((2, *self._home.shape))
        for resale in self._resale[row]:
            sold[resale.resource, resale.server] += resale.share
            own[resale.resource, resale.server] += resale.share * (resale.owner == payer)
        rest: FloatArray = part * np.maximum(1.0 - sold, 0.0) + own
        return rest

    def free(self, rows: int, servers: IntArray | slice = ALL) -> FloatArray:
        """Return the amounts that nobody holds, (resources, rows, servers)."""
        return self.cluster.capacity[:, None, servers] - self._occupied[:, :rows, servers]

    def take(self, job: Job, booking: Booking) -> None:
        """Occupy what a booking takes, so that prices and room for the next job of this call take it into account."""
        self._grow(booking.end - self.slot + 1)
        worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
        for row in booking.allocation:
            slots = slice(row.start - self.slot, row.end - self.slot)
            self._occupied[:, slots, row.server] += (row.workers * worker + row.ps * ps)[:, None]

    def owners_of(self, amounts: FloatArray, row: int) -> FloatArray:
        """Return the split among the owners (owners,) of one slot's `amounts` (resources, servers) of credits (C12).

        First the owners that gave units up on a server are paid for their shares of them. Of the rest, the part that is
        in home cells goes to the tenants by their frozen contribution in that slot, the other part to the operator.
        Without pinned cells the split is by what each owner has.
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
        """Return the credits (owners,) for units that were given up, and the credits (resources, servers) that are left
        for the owners."""
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
        """Return the field `name` of the published windows in each slot, (resources, rows), or `otherwise` where there
        is no window."""
        numbers = np.full((len(self.cluster.resources), self._rows), otherwise)
        for window in view.windows:
            begin = max(window.start, view.slot)
            numbers[:, begin - view.slot : window.end - view.slot] = getattr(window, name)[:, begin - window.start :]
        return numbers

    def _contributions(self, view: View) -> FloatArray:
        """Return the shares in what home cells earn, (resources, owners, rows): by published contributions, or else by
        what each owner has."""
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
    """Return the part of each server's units whose price is split among contributors, (resources, servers)."""
    if cluster.cells is None:
        return np.ones(cluster.capacity.shape)
    capacity = cluster.capacity
    return np.divide(cluster.cells.sum(axis=1), capacity, out=np.zeros(capacity.shape), where=capacity > 0)


@lru_cache(maxsize=MOST_CLUSTERS)
def server_kinds(cluster: Cluster) -> IntArray:
    """Return a number for each server (servers,), which is the same for servers with the same capacity and the same
    home part of each resource."""
    columns = np.concatenate([cluster.capacity, home_part(cluster)])
    kinds: IntArray = np.unique(columns, axis=1, return_inverse=True)[1].reshape(-1)
    return kinds

"""The placement of gangs: each onto the fewest servers, as evenly as there is room (Optimus, section 4.2)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from scheduling.core.placement import Vacancies
from scheduling.core.types import UnitType

Row = Sequence[int]  # server, workers, parameter servers
Need = list[tuple[int, float]]  # resource, amount
MOST_NUMBERS = 2**9  # the most pairs of numbers whose needs are remembered, for two types
SLACK = 1e-6  # if servers lack more than this in all, their split is not tried


class Order(NamedTuple):
    """Numbers of workers and parameter servers, with their types, that are to be placed together."""

    workers: int
    ps: int
    worker: UnitType
    server: UnitType

    @property
    def needs(self) -> Needs:
        """Return what any numbers of its units take."""
        return needs_of(self.worker, self.server)


class PlacingServers:
    """The servers while gangs are placed. Those that host both kinds are in decreasing order of what is free of the key
    resource, ties by index. The order is a heap; an entry whose server has changed since is skipped."""

    def __init__(self, vacancies: Vacancies, key: int) -> None:
        self.vacancies, self.key = vacancies, key
        self.free = vacancies.free
        self.hosts_both = [all(hosts) for hosts in zip(vacancies.hosts_workers, vacancies.hosts_ps, strict=True)]
        self.apart = not all(self.hosts_both)  # some servers host one kind only
        self.queue: list[tuple[float, int]] | None = None  # None until the freest are needed
        self.top: list[int] = []  # the freest servers, in order; they are not in the queue
        self.sums: list[list[float]] = []  # by index in `top`, what is free on that server and those before it

    def evenly(self, order: Order) -> list[Row] | None:
        """Place the gang on the first k servers, for the smallest k that holds it. If no k does, return None and change
        nothing.

        Server i of k gets p // k parameter servers and w // k workers, and the first p mod k (w mod k) one more.
        """
        needs = order.needs
        needed = needs[order.workers, order.ps]
        for count in range(1, self._reach(max(order.workers, order.ps)) + 1):
            free = self.sums[count - 1]
            for resource, amount in needed:
                if amount - free[resource] > SLACK:
                    break  # so many servers hold too little in all
            else:
                if (rows := self._split(order, needs, self.top[:count])) is not None:
                    self._hold(rows, needs)
                    return rows
        return None

    def nearly(self, order: Order) -> list[Row] | None:
        """Place the gang on the first k servers, for the smallest k whose room suffices: split evenly if possible, else
        dealt out as evenly as the room allows. If no k suffices, return None and change nothing."""
        needs = order.needs
        needed, worker, ps = needs[order.workers, order.ps], needs[1, 0], needs[0, 1]
        workers_fit = ps_fit = 0  # units of each kind, if the other were not there
        for count in range(1, order.workers + order.ps + 1):
            if self._reach(count) < count:
                break
            free, server = self.sums[count - 1], self.free[self.top[count - 1]]
            workers_fit += _room(server, worker, order.workers)
            ps_fit += _room(server, ps, order.ps)
            if workers_fit < order.workers or ps_fit < order.ps:
                continue
            if any(amount - free[resource] > SLACK for resource, amount in needed):
                continue
            servers = self.top[:count]
            rows = self._split(order, needs, servers)
            if rows is None:
                rows = self._dealt(order, (worker, ps), servers)
            if rows is not None:
                self._hold(rows, needs)
                return rows
        return None

    def _dealt(self, order: Order, units: tuple[Need, Need], servers: Sequence[int]) -> list[Row] | None:
        """Deal out the units one by one, each to the server with room that has the fewest of its kind; ties go to the
        first. The kinds take turns by the part of each that is dealt out. Return None if a unit finds no room."""
        free = [list(self.free[server]) for server in servers]
        numbers, dealt = (order.workers, order.ps), [[0] * len(servers), [0] * len(servers)]
        turns = sorted((done / number, kind) for kind, number in enumerate(numbers) for done in range(number))
        for _, kind in turns:
            need, held = units[kind], dealt[kind]
            best = -1
            for place, here in enumerate(free):
                if (best < 0 or held[place] < held[best]) and all(here[r] >= amount for r, amount in need):
                    best = place
            if best < 0:
                return None
            held[best] += 1
            for resource, amount in need:
                free[best][resource] -= amount
        rows = zip(servers, *dealt, strict=True)
        return [(server, workers, ps) for server, workers, ps in rows if workers or ps]

    def _hold(self, rows: Sequence[Row], needs: Needs) -> None:
        for server, workers, ps in rows:
            self._take(server, needs[workers, ps])
        for server, _, _ in rows:
            self._renew(server)

    def again(self, needs: Needs, rows: Sequence[Row]) -> bool:
        """Take the same servers as before if the gang still fits there and they still host its kinds. Return whether it
        does."""
        parts = [(server, needs[workers, ps]) for server, workers, ps in rows]
        if self.apart and not all(self._hosted(row) for row in rows):
            return False
        for server, need in parts:
            free = self.free[server]
            for resource, amount in need:
                if free[resource] < amount:
                    return False
        for server, need in parts:
            self._take(server, need)
            self._renew(server)
        return True

    def _hosted(self, row: Row) -> bool:
        server, workers, ps = row
        hosts_workers, hosts_ps = self.vacancies.hosts_workers, self.vacancies.hosts_ps
        return (not workers or hosts_workers[server]) and (not ps or hosts_ps[server])

    def anywhere(self, order: Order) -> list[Row] | None:
        """Place each unit on the next server with room for it, from the first on. Return None if one finds no room."""
        vacancies = self.vacancies
        workers = vacancies.deal(order.worker, order.workers, 0, vacancies.hosts_workers)
        if workers is None:
            return None
        servers = vacancies.deal(order.server, order.ps, 0, vacancies.hosts_ps)
        if servers is None:
            vacancies.give_back(order.worker, workers)
            return None
        hosts = sorted({*workers, *servers})
        for server in hosts:
            self._renew(server)
        return [(server, workers.count(server), servers.count(server)) for server in hosts]

    def _reach(self, most: int) -> int:
        """Bring the freest servers, at most `most`, into `top`, and return how many there are. They stay there until
        one changes: most gangs find no room, and the next one needs the same servers."""
        if self.queue is None:
            both = [server for server, hosts in enumerate(self.hosts_both) if hosts]
            self.queue = [(-self.free[server][self.key], server) for server in both]
            heapq.heapify(self.queue)
        while self.queue and len(self.top) < most:
            free, server = heapq.heappop(self.queue)
            here = self.free[server]
            if -free == here[self.key] and server not in self.top:
                self.sums.append([a + b for a, b in zip(self.sums[-1], here, strict=True)] if self.sums else list(here))
                self.top.append(server)
        return min(most, len(self.top))

    def _renew(self, server: int) -> None:
        """Update the order after less is free on a server. If it was among the freest, it and those after it are queued
        again."""
        if self.queue is None:
            return
        if server in self.top:
            place = self.top.index(server)
            for other in self.top[place:]:
                heapq.heappush(self.queue, (-self.free[other][self.key], other))
            del self.top[place:], self.sums[place:]
        elif self.hosts_both[server]:
            heapq.heappush(self.queue, (-self.free[server][self.key], server))

    def _split(self, order: Order, needs: Needs, servers: Sequence[int]) -> list[Row] | None:
        """Return the even split over these servers if each holds its part, else None."""
        count = len(servers)
        each_worker, more_workers = divmod(order.workers, count)
        each_ps, more_ps = divmod(order.ps, count)
        rows: list[Row] = []
        for place in range(count - 1, -1, -1):  # the fullest first, as it fails first
            workers, ps = each_worker + (place < more_workers), each_ps + (place < more_ps)
            if not self._fits(servers[place], needs[workers, ps]):
                return None
            rows.append((servers[place], workers, ps))
        return rows

    def _fits(self, server: int, need: Need) -> bool:
        free = self.free[server]
        for resource, amount in need:  # noqa: SIM110 - called for every server of every try; `all` takes twice as long
            if free[resource] < amount:
                return False
        return True

    def _take(self, server: int, need: Need) -> None:
        free = self.free[server]
        for resource, amount in need:
            free[resource] -= amount


def _room(free: Sequence[float], need: Need, most: int) -> int:
    """Return how many such units a server holds, at most `most`."""
    return min((int(free[resource] // amount) for resource, amount in need), default=most)


class Needs(dict[tuple[int, int], Need]):
    """The needs of two types by (workers, parameter servers): the resources that these units take together, and how
    much of each. They are worked out on the first look-up."""

    def __init__(self, worker: Sequence[float], server: Sequence[float]) -> None:
        super().__init__()
        self.demand = list(zip(worker, server, strict=True))

    def __missing__(self, numbers: tuple[int, int]) -> Need:
        workers, ps = numbers
        amounts = [workers * worker + ps * server for worker, server in self.demand]
        need = [(resource, amount) for resource, amount in enumerate(amounts) if amount > 0]
        if len(self) < MOST_NUMBERS:
            self[numbers] = need
        return need


@lru_cache(maxsize=2**9)
def needs_of(worker: UnitType, server: UnitType) -> Needs:
    """Return the needs of two types. They are kept from slot to slot, and types that take the same share them."""
    return _needs_of(worker.amounts, server.amounts)


@lru_cache(maxsize=2**9)
def _needs_of(worker: tuple[float, ...], server: tuple[float, ...]) -> Needs:
    return Needs(worker, server)

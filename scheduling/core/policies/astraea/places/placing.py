"""The placement of a gang of workers and its parameter servers (R9-R11). All minima are over the gang's whole run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduling.core.policies.astraea.places.room import Room, Units
from scheduling.core.policies.astraea.ways.candidates import MOST_UNITS, Candidates, IntArray, Pair
from scheduling.core.types import Allocation, BoolArray, FloatArray

FAR = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Spot:
    """The server of the parameter servers, how many there are, and how many workers are beside them."""

    server: int
    ps: int
    beside: int


def centralized(workers: int, pair: Pair, free_workers: Units, free_ps: Units, used: FloatArray | None) -> Spot | None:
    """Place all workers and one parameter server, if the job has any, on one server (R11). Arrays are (servers,)."""
    fits = (free_workers >= workers) & (free_ps >= 1)
    first = int(fits.argmax()) if len(fits) else 0
    if not len(fits) or not fits[first]:
        return None
    return Spot(first if used is None else _least_used(fits, used), pair.least_ps, workers)


def distributed(
    workers: int, pair: Pair, free_workers: Units, free_ps: Units, most_ps: int, used: FloatArray | None
) -> Spot | None:
    """Place all parameter servers, at most `most_ps`, on the server that needs the fewest, and some workers elsewhere
    (R9). Arrays are (servers,)."""
    beside = np.minimum(free_workers, min(workers - 1, MOST_UNITS))
    needs = pair.needs[workers - beside]
    needs = np.where(needs <= np.minimum(free_ps, most_ps), needs, FAR)
    server = int(needs.argmin()) if len(needs) else 0
    if not len(needs) or needs[server] == FAR:
        return None
    if used is not None:
        server = _least_used(needs == needs[server], used)
    elsewhere = int(free_workers.sum(dtype=np.int64)) - int(free_workers[server])
    if elsewhere < workers - beside[server]:
        return None
    return Spot(server, int(needs[server]), int(beside[server]))


def place(ways: Candidates, candidate: int, room: Room, start: int, used: FloatArray | None) -> Spot | None:
    """Return where a candidate fits in a room from `start` on. Only the servers and the job's own limits count."""
    pair, workers = ways.pairs[ways.pair[candidate]], int(ways.workers[candidate])
    free_workers, free_ps = room.of(pair).least(start, start + int(ways.duration[candidate]))
    if ways.central[candidate]:
        return centralized(workers, pair, free_workers, free_ps, used)
    return distributed(workers, pair, free_workers, free_ps, ways.most_ps, used)


def rows(
    spot: Spot, workers: int, start: int, end: int, free_workers: Units, used: FloatArray | None
) -> tuple[Allocation, ...]:
    """Return the rows of the gang: the spot, and its other workers on other servers, those with the fewest free workers
    first (R10)."""
    filled = [Allocation(spot.server, start, end, spot.beside, spot.ps)] if spot.beside or spot.ps else []
    missing = workers - spot.beside
    for server in _scarcest_first(free_workers, used) if missing else ():
        if server != spot.server and missing:
            count = min(missing, int(free_workers[server]))
            filled.append(Allocation(int(server), start, end, count, 0))
            missing -= count
    return tuple(filled)


def _scarcest_first(free_workers: Units, used: FloatArray | None) -> Iterable[int]:
    """Return the servers with free workers, ordered by their number, then the least used first, then by index."""
    some: IntArray = np.flatnonzero(free_workers)
    if used is None:
        return some[np.argsort(free_workers[some], kind="stable")].tolist()
    return some[np.lexsort((used[some], free_workers[some]))].tolist()


def _least_used(among: BoolArray, used: FloatArray) -> int:
    return int(np.where(among, used, np.inf).argmin())

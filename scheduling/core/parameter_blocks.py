"""Which parameter server keeps which block of a model: Optimus' assignment, MXNet's, and moves when servers change.

A block is what one layer learns, so many numbers. Sizes and server numbers are integers and every comparison with
the average is made in integers, so that equal blocks are equal on every machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

MXNET_THRESHOLD = 1_000_000  # numbers; a block from here on is sliced among all servers


@dataclass(frozen=True, slots=True)
class BlockPiece:
    """The numbers [start, stop) of a block, on one server; one request of a worker fetches them."""

    block: int
    start: int
    stop: int
    server: int

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Evenness:
    """How even an assignment is: the three quantities that Optimus' section 5.3 wants small."""

    size_difference: int  # numbers, between the fullest and the emptiest server
    request_difference: int  # pieces, between the server with most and the one with fewest
    requests: int  # pieces in all, each one request of a worker in a step


class _Loads:
    """Numbers and requests of every server while an assignment grows. Servers are 0 .. count - 1."""

    def __init__(self, count: int, total: int) -> None:
        self.count, self.total = count, total
        self.sizes, self.requests = [0] * count, [0] * count
        self.pieces: list[BlockPiece] = []

    def put(self, block: int, start: int, stop: int, server: int) -> None:
        self.pieces.append(BlockPiece(block, start, stop, server))
        self.sizes[server] += stop - start
        self.requests[server] += 1

    def fewest_requests(self) -> int:
        return min(range(self.count), key=lambda server: (self.requests[server], self.sizes[server], server))

    def least_assigned(self) -> int:
        return min(range(self.count), key=lambda server: (self.sizes[server], server))

    def best_fit(self, size: int) -> int:
        """The server with the smallest room (average less assigned) that holds `size`; else the least assigned."""
        fits = [server for server in range(self.count) if self.count * (self.sizes[server] + size) <= self.total]
        return max(fits, key=lambda server: (self.sizes[server], -server)) if fits else self.least_assigned()


def assign(sizes: Sequence[int], servers: int) -> tuple[BlockPiece, ...]:
    """Optimus' parameter assignment (section 5.3), largest block first; average = total / servers.

    A block under 1 % of the average goes to the server with fewest requests; one up to the average to the best fit;
    a larger one is cut into slices of the average, rounded down, and each goes to the least assigned server.
    Ties: fewer numbers, then the smaller server. Complexity: blocks x servers.
    """
    if servers < 1:
        raise ValueError("parameters need at least one server")
    total = sum(sizes)
    loads = _Loads(servers, total)
    for block in sorted(range(len(sizes)), key=lambda block: (-sizes[block], block)):
        size = sizes[block]
        if size * servers > total:
            step = max(1, total // servers)
            for start in range(0, size, step):
                loads.put(block, start, min(start + step, size), loads.least_assigned())
        elif 100 * size * servers < total:
            loads.put(block, 0, size, loads.fewest_requests())
        else:
            loads.put(block, 0, size, loads.best_fit(size))
    return tuple(sorted(loads.pieces, key=lambda piece: (piece.block, piece.start)))


def assign_as_mxnet(
    sizes: Sequence[int], servers: int, dice: np.random.Generator, threshold: int = MXNET_THRESHOLD
) -> tuple[BlockPiece, ...]:
    """MXNet's default, for comparison: a block below the threshold to a random server, any other sliced evenly."""
    pieces: list[BlockPiece] = []
    for block, size in enumerate(sizes):
        if size < threshold:
            pieces.append(BlockPiece(block, 0, size, int(dice.integers(servers))))
            continue
        cuts = [size * server // servers for server in range(servers + 1)]
        pieces += [BlockPiece(block, cuts[server], cuts[server + 1], server) for server in range(servers)]
    return tuple(pieces)


def balance(pieces: Iterable[BlockPiece], servers: int) -> Evenness:
    """How even the pieces lie on servers 0 .. servers - 1."""
    sizes, requests = [0] * servers, [0] * servers
    for piece in pieces:
        sizes[piece.server] += piece.size
        requests[piece.server] += 1
    return Evenness(max(sizes) - min(sizes), max(requests) - min(requests), sum(requests))


def rebalance(pieces: Sequence[BlockPiece], servers: Collection[int]) -> tuple[BlockPiece, ...]:
    """The pieces after servers joined or left; `servers` are those there are from now on (DL2, section 5).

    What lay on a server that left goes to the others by best fit. Then every server above the average gives only
    its surplus away, whole pieces where one fits, a slice where none does. No server ends short of the average by more
    than 1 % of it, so less than that is not worth a move.
    """
    if not servers:
        raise ValueError("parameters need at least one server")
    shelf = _Shelf(servers, sum(piece.size for piece in pieces))
    homeless = [piece for piece in pieces if piece.server not in shelf.held]
    for piece in pieces:
        if piece.server in shelf.held:
            shelf.put(piece, piece.server)
    for piece in sorted(homeless, key=lambda piece: (-piece.size, piece.block, piece.start)):
        shelf.house(piece)
    for server in sorted(shelf.held, key=lambda server: (shelf.room(server), server)):
        shelf.relieve(server)
    return join(piece for held in shelf.held.values() for piece in held)


class _Shelf:
    """Pieces by server while they move. Room is the average, rounded up, less what is held; surplus is below zero."""

    def __init__(self, servers: Collection[int], total: int) -> None:
        self.held: dict[int, list[BlockPiece]] = {server: [] for server in sorted(servers)}
        self.sizes = dict.fromkeys(self.held, 0)
        self.average = -(-total // len(self.held))
        self.slack = self.average // (100 * len(self.held))

    def room(self, server: int) -> int:
        return self.average - self.sizes[server]

    def put(self, piece: BlockPiece, server: int) -> None:
        self.held[server].append(replace(piece, server=server))
        self.sizes[server] += piece.size

    def roomiest(self) -> int:
        return max(self.held, key=lambda server: (self.room(server), -server))

    def house(self, piece: BlockPiece) -> None:
        """Best fit; where nothing holds it, as much as fits where most room is, and the rest again."""
        while True:
            fits = [server for server in self.held if self.room(server) >= piece.size]
            if fits:
                return self.put(piece, min(fits, key=lambda server: (self.room(server), server)))
            server = self.roomiest()
            if self.room(server) <= self.slack:
                return self.put(piece, server)
            cut = piece.start + self.room(server)
            self.put(replace(piece, stop=cut), server)
            piece = replace(piece, start=cut)

    def relieve(self, server: int) -> None:
        """Give away the surplus of a server, each part to whoever has most room."""
        while True:
            receiver = self.roomiest()
            amount = min(-self.room(server), self.room(receiver))
            if amount <= self.slack:
                return
            self._give(server, receiver, amount)

    def _give(self, server: int, receiver: int, amount: int) -> None:
        """One whole piece near `amount`, or a slice of exactly `amount`."""
        held = self.held[server]
        fits = [piece for piece in held if self.slack < piece.size <= amount]
        wide = [piece for piece in held if piece.size > amount]
        choice = max(fits or held, key=lambda piece: (piece.size, -piece.block, -piece.start))
        if not fits and wide:
            choice = min(wide, key=lambda piece: (piece.size, piece.block, piece.start))
        held.remove(choice)
        self.sizes[server] -= choice.size
        if choice.size > amount:
            self.put(replace(choice, start=choice.start + amount), server)
            choice = replace(choice, stop=choice.start + amount)
        self.put(choice, receiver)


def join(pieces: Iterable[BlockPiece]) -> tuple[BlockPiece, ...]:
    """In order of block and start, neighbours on one server as one piece."""
    merged: list[BlockPiece] = []
    for piece in sorted(pieces, key=lambda piece: (piece.block, piece.start)):
        last = merged[-1] if merged else None
        if last and last.block == piece.block and last.stop == piece.start and last.server == piece.server:
            merged[-1] = replace(last, stop=piece.stop)
        else:
            merged.append(piece)
    return tuple(merged)


def ranges(pieces: Iterable[BlockPiece], sizes: Sequence[int], server: int) -> tuple[tuple[int, int], ...]:
    """What a server keeps as ranges [start, stop) of all blocks laid end to end, neighbours as one range."""
    offsets = (0, *accumulate(sizes))
    spans: list[tuple[int, int]] = []
    for piece in sorted(pieces, key=lambda piece: (piece.block, piece.start)):
        if piece.server != server or not piece.size:
            continue
        start, stop = offsets[piece.block] + piece.start, offsets[piece.block] + piece.stop
        if spans and spans[-1][1] == start:
            start = spans.pop()[0]
        spans.append((start, stop))
    return tuple(spans)

"""Assign the blocks of a model to parameter servers: as Optimus does, as MXNet does, and again when servers change.

A block is what one layer learns; its size is how many numbers these are. Sizes and server numbers are integers, and
every comparison with the average is made in integers, so that equal blocks are equal on every machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

MXNET_THRESHOLD = 1_000_000  # numbers; a block of this size or more is sliced among all servers


@dataclass(frozen=True, slots=True)
class BlockPiece:
    """The numbers [start, stop) of a block, on one server; one request of a worker fetches them."""

    block: int
    start: int
    stop: int
    server: int

    @property
    def size(self) -> int:
        """The count of numbers in the piece."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Evenness:
    """How even an assignment is: the three quantities that Optimus keeps small (section 5.3)."""

    size_difference: int  # numbers, between the fullest and the emptiest server
    request_difference: int  # pieces, between the server with most and the one with fewest
    requests: int  # pieces in all; each is one request of a worker in a step


class _Loads:
    """The numbers and requests of every server while an assignment is made. Servers are 0 .. count - 1."""

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
        """Return the server with the smallest room (average less assigned) that holds `size`, or else the least
        assigned server."""
        fits = [server for server in range(self.count) if self.count * (self.sizes[server] + size) <= self.total]
        return max(fits, key=lambda server: (self.sizes[server], -server)) if fits else self.least_assigned()


def assign(sizes: Sequence[int], servers: int) -> tuple[BlockPiece, ...]:
    """Return Optimus' parameter assignment (section 5.3), made with the largest block first; average = total / servers.

    A block under 1 % of the average goes to the server with fewest requests; one up to the average to the best fit;
    a larger one is cut into slices of the average, rounded down, and each goes to the least assigned server.
    Ties go to the server with fewer numbers, then to the one with the smaller index. Complexity: blocks x servers.
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
    """Return MXNet's default assignment, for comparison: a block below the threshold goes to a random server, any other
    is sliced evenly among all."""
    pieces: list[BlockPiece] = []
    for block, size in enumerate(sizes):
        if size < threshold:
            pieces.append(BlockPiece(block, 0, size, int(dice.integers(servers))))
            continue
        cuts = [size * server // servers for server in range(servers + 1)]
        pieces += [BlockPiece(block, cuts[server], cuts[server + 1], server) for server in range(servers)]
    return tuple(pieces)


def balance(pieces: Iterable[BlockPiece], servers: int) -> Evenness:
    """Return how evenly the pieces are spread over the servers 0 .. servers - 1."""
    sizes, requests = [0] * servers, [0] * servers
    for piece in pieces:
        sizes[piece.server] += piece.size
        requests[piece.server] += 1
    return Evenness(max(sizes) - min(sizes), max(requests) - min(requests), sum(requests))


def rebalance(pieces: Sequence[BlockPiece], servers: Collection[int]) -> tuple[BlockPiece, ...]:
    """Return the pieces after servers joined or left; `servers` are those that exist from now on (DL2, section 5).

    Pieces of a server that left go to the others by best fit. Then every server above the average gives away only
    its surplus: a whole piece where one fits, a slice where none does. Moves so small that all of them together leave
    no server short of the average by more than 1 % of it are left out.
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
    """The pieces by server while they move. The room of a server is the average, rounded up, less what it holds; it is
    negative where the server has a surplus."""

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
        """Put a piece on the server that fits it best. If no server holds it, put as much as fits on the server with
        the most room, and treat the rest as a new piece."""
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
        """Give away the surplus of a server, each part to the server that has the most room then."""
        while True:
            receiver = self.roomiest()
            amount = min(-self.room(server), self.room(receiver))
            if amount <= self.slack:
                return
            self._give(server, receiver, amount)

    def _give(self, server: int, receiver: int, amount: int) -> None:
        """Move one whole piece of about `amount`, or a slice of exactly `amount`, from one server to another."""
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
    """Return the pieces in order of block and start, with adjacent ones on the same server joined into one."""
    merged: list[BlockPiece] = []
    for piece in sorted(pieces, key=lambda piece: (piece.block, piece.start)):
        last = merged[-1] if merged else None
        if last and last.block == piece.block and last.stop == piece.start and last.server == piece.server:
            merged[-1] = replace(last, stop=piece.stop)
        else:
            merged.append(piece)
    return tuple(merged)


def ranges(pieces: Iterable[BlockPiece], sizes: Sequence[int], server: int) -> tuple[tuple[int, int], ...]:
    """Return what a server keeps as ranges [start, stop) of all blocks laid end to end; adjacent ranges are joined."""
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

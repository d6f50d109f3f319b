"""Parameter blocks on servers: Optimus' assignment against a slow version, MXNet beside it, and moves."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.parameter_blocks import BlockPiece, assign, assign_as_mxnet, balance, ranges, rebalance


def resnet_50_blocks() -> list[int]:
    """Sizes of the learned blocks of a ResNet-50 that normalises before each convolution, for 1,000 classes."""
    blocks = [3, 3, 64 * 3 * 7 * 7, 64, 64]
    inputs = 64
    for outputs, units in ((256, 3), (512, 4), (1024, 6), (2048, 3)):
        for unit in range(units):
            narrow = outputs // 4
            blocks += [inputs, inputs, inputs * narrow, narrow, narrow, narrow * narrow * 9]
            blocks += [narrow, narrow, narrow * outputs]
            blocks += [inputs * outputs] if unit == 0 else []
            inputs = outputs
    return [*blocks, 2048, 2048, 2048 * 1000, 1000]


def slow_assign(sizes: list[int], servers: int) -> list[BlockPiece]:
    """The same rules read again in fractions, every load recomputed from the pieces."""
    average = Fraction(sum(sizes), servers)
    pieces: list[BlockPiece] = []

    def load(server: int) -> int:
        return sum(piece.stop - piece.start for piece in pieces if piece.server == server)

    def requests(server: int) -> int:
        return len([piece for piece in pieces if piece.server == server])

    for size, _, block in sorted((-size, block, block) for block, size in enumerate(sizes)):
        size = -size
        everyone = list(range(servers))
        if size > average:
            start = 0
            while start < size:
                stop = min(size, start + max(1, int(average)))
                pieces.append(BlockPiece(block, start, stop, min(everyone, key=load)))
                start = stop
        elif size < average / 100:
            pieces.append(
                BlockPiece(block, 0, size, min(everyone, key=lambda server: (requests(server), load(server))))
            )
        else:
            holding = [server for server in everyone if average - load(server) >= size]
            best = min(holding, key=lambda server: average - load(server)) if holding else min(everyone, key=load)
            pieces.append(BlockPiece(block, 0, size, best))
    return sorted(pieces, key=lambda piece: (piece.block, piece.start))


def covers(pieces: tuple[BlockPiece, ...], sizes: list[int]) -> bool:
    """Every number of every block is in exactly one piece."""
    counts = [np.zeros(size, dtype=int) for size in sizes]
    for piece in pieces:
        counts[piece.block][piece.start : piece.stop] += 1
    return all((count == 1).all() for count in counts)


BLOCKS = st.lists(st.integers(0, 900), min_size=1, max_size=15)
SERVERS = st.integers(1, 8)


def test_resnet_50_on_ten_servers_is_as_even_as_the_paper_says() -> None:
    blocks = resnet_50_blocks()
    assert (len(blocks), round(sum(blocks) / 1e6, 2)) == (157, 25.55)
    even = balance(assign(blocks, 10), 10)
    assert (round(even.size_difference / 1e6, 1), even.request_difference, even.requests) == (0.1, 1, 157)


def test_mxnet_default_is_less_even_on_resnet_50_than_optimus() -> None:
    blocks = resnet_50_blocks()
    best = balance(assign(blocks, 10), 10)
    assert covers(assign_as_mxnet([7, 12], 5, np.random.default_rng(1), threshold=10), [7, 12])
    for seed in range(20):
        worse = balance(assign_as_mxnet(blocks, 10, np.random.default_rng(seed)), 10)
        assert worse.size_difference > 3 * best.size_difference
        assert worse.requests > best.requests


@given(BLOCKS, SERVERS)
def test_assignment_equals_the_slow_version(sizes: list[int], servers: int) -> None:
    assert list(assign(sizes, servers)) == slow_assign(sizes, servers)


@given(BLOCKS, SERVERS)
def test_assignment_covers_every_number_once_and_no_piece_is_above_the_average(sizes: list[int], servers: int) -> None:
    pieces = assign(sizes, servers)
    assert covers(pieces, sizes)
    assert all(piece.size <= max(1, sum(sizes) / servers) for piece in pieces)


def test_one_block_is_sliced_among_all_servers() -> None:
    assert [(piece.start, piece.stop, piece.server) for piece in assign([12], 3)] == [(0, 4, 0), (4, 8, 1), (8, 12, 2)]


def test_small_blocks_go_where_fewest_requests_are_and_not_where_least_is_stored() -> None:
    pieces = assign([1000, 600, 300, 5, 5], 2)
    servers = {piece.block: piece.server for piece in pieces if piece.size < 10}
    # 1000 is cut in two parts (955 and 45); 45, 600 and 300 then share a server, three requests against one.
    assert servers == {3: 0, 4: 0}


def test_no_server_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one server"):
        assign([1], 0)
    with pytest.raises(ValueError, match="at least one server"):
        rebalance([BlockPiece(0, 0, 1, 0)], [])


@settings(max_examples=60)
@given(BLOCKS, SERVERS, st.sets(st.integers(0, 11), min_size=1, max_size=8))
def test_after_a_change_everything_is_kept_once_on_the_servers_there_are(
    sizes: list[int], before: int, after: set[int]
) -> None:
    pieces = rebalance(assign(sizes, before), after)
    assert covers(pieces, sizes)
    assert {piece.server for piece in pieces} <= after


@settings(max_examples=60)
@given(st.lists(st.integers(1, 900), min_size=1, max_size=15), SERVERS, st.sets(st.integers(0, 11), min_size=1))
def test_after_a_change_servers_are_even_within_a_hundredth(sizes: list[int], before: int, after: set[int]) -> None:
    pieces = rebalance(assign(sizes, before), after)
    average = -(-sum(sizes) // len(after))
    for server in after:
        held = sum(piece.size for piece in pieces if piece.server == server)
        assert abs(held - sum(sizes) / len(after)) <= average / 100 + len(after)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 900), min_size=1, max_size=15), SERVERS, st.sets(st.integers(0, 11), min_size=1))
def test_a_change_moves_no_more_than_surplus_and_what_lost_its_server(
    sizes: list[int], before: int, after: set[int]
) -> None:
    old = assign(sizes, before)
    new = rebalance(old, after)
    average = -(-sum(sizes) // len(after))
    held = {server: sum(piece.size for piece in old if piece.server == server) for server in range(before)}
    homeless = sum(size for server, size in held.items() if server not in after)
    surplus = sum(max(0, size - average) for server, size in held.items() if server in after)
    assert moved(old, new, sizes) <= surplus + homeless + average / 100


def moved(old: tuple[BlockPiece, ...], new: tuple[BlockPiece, ...], sizes: list[int]) -> int:
    """Numbers whose server is another one now."""

    def owners(pieces: tuple[BlockPiece, ...]) -> np.ndarray:
        owner = np.full(sum(sizes), -1, dtype=np.int8)
        for server in {piece.server for piece in pieces}:
            for start, stop in ranges(pieces, sizes, server):
                owner[start:stop] = server
        return owner

    return int((owners(old) != owners(new)).sum())


def test_a_new_server_gets_its_share_and_nothing_else_moves() -> None:
    blocks = resnet_50_blocks()
    old = assign(blocks, 9)
    new = rebalance(old, range(10))
    share = sum(piece.size for piece in new if piece.server == 9)
    assert share == pytest.approx(sum(blocks) / 10, rel=0.011)
    assert moved(old, new, blocks) == share
    assert balance(new, 10).size_difference < 0.03 * sum(blocks) / 10


def test_ranges_lay_blocks_end_to_end_and_join_neighbours() -> None:
    pieces = [BlockPiece(0, 0, 4, 1), BlockPiece(0, 4, 6, 0), BlockPiece(1, 0, 3, 0), BlockPiece(2, 0, 2, 1)]
    assert ranges(pieces, [6, 3, 2], 0) == ((4, 9),)
    assert ranges(pieces, [6, 3, 2], 1) == ((0, 4), (9, 11))

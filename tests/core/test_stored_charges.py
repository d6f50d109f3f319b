"""What an award's slots cost, as bytes: they say what the lists say, and what was changed in them is not read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.currency import credits_of, credits_of_each
from scheduling.core.stored_charges import (
    UnreadableCharges,
    charges_listed,
    matrix_of,
    packed,
    slot_parts,
    unpacked,
)
from tests.charges import charges_read

AMOUNTS = st.integers(0, 2**63 - 1) | st.integers(0, 70_000) | st.just(0)
MATRICES = st.tuples(st.integers(1, 6), st.integers(0, 5)).flatmap(
    lambda shape: st.lists(
        st.lists(AMOUNTS, min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
    ).map(lambda rows: np.array(rows, np.int64).reshape(shape))
)


@given(MATRICES)
def test_bytes_say_what_lists_say(amounts: np.ndarray) -> None:
    owner_ids = [*range(11, 10 + amounts.shape[1]), 0][: amounts.shape[1]]
    owners, data = packed(owner_ids, amounts)
    by_slot = charges_listed(owner_ids, amounts)
    assert owners == [owner for owner, each in zip(owner_ids, amounts.T, strict=True) if each.any()]
    assert charges_listed(owners, unpacked(len(owners), data)) == by_slot
    assert charges_read(owners, data) == by_slot
    assert (data == b"") == (not amounts.any())
    for place in range(len(by_slot)):
        assert slot_parts(place, owners, data, []) == by_slot[place]
    assert matrix_of(by_slot)[0] == owners
    assert packed(*matrix_of(by_slot)) == (owners, data)


def test_what_costs_nothing_has_no_bytes_and_no_lists() -> None:
    for amounts in (np.zeros((3, 2), np.int64), np.zeros((3, 0), np.int64)):
        owners, data = packed([7, 0][: amounts.shape[1]], amounts)
        assert (owners, data) == ([], b"")
        assert unpacked(0, data).shape == (0, 0)
        assert slot_parts(2, owners, data, []) == []


def test_a_row_of_an_older_version_has_its_lists() -> None:
    assert slot_parts(3, None, None, [[7, 5]]) == [[7, 5]]  # type: ignore[arg-type]  # as its columns are read


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data + b"\x00",
        lambda data: data + data,
        lambda data: b"\x00" + data,
        lambda data: data[:7] + bytes([data[7] ^ 1]) + data[8:],
    ],
    ids=["shorter", "longer", "twice", "before", "another"],
)
def test_bytes_that_were_changed_are_not_read(change) -> None:
    amounts = np.arange(1, 13, dtype=np.int64).reshape(4, 3) * 1_000
    _, data = packed([1, 2, 0], amounts)
    with pytest.raises(UnreadableCharges):
        unpacked(3, change(data))


def test_another_number_of_owners_is_not_read() -> None:
    _, data = packed([1, 2, 0], np.ones((4, 3), np.int64))
    for owners in (0, 5):
        with pytest.raises(UnreadableCharges):
            unpacked(owners, data)


@given(st.lists(st.integers(-(10**15), 10**15) | st.integers(-70_000, 70_000), max_size=20))
def test_many_amounts_are_the_same_credits_as_one_by_one(amounts: list[int]) -> None:
    assert credits_of_each(np.array(amounts, np.int64)).tolist() == [credits_of(amount) for amount in amounts]

"""What each slot of an award costs and who earns it: as lists that people and programs read, and as bytes.

In a pool of hundreds of owners each of them earns something in each slot of each award. As lists in JSON such a matrix
takes more than ten times as long to write as in these bytes, and three times the room.

The bytes are the matrix (slots, owners) of micro-credits, row by row, in whole numbers of eight bytes with the lowest
first, and compressed. Owners are named beside them, in the order of the columns. An award that costs nothing has no
bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from scheduling.core.settlement import Amounts

SlotPairs = list[list[list[int]]]  # for each slot its pairs [owner's id, or 0 for the operator; micro-credits]

_WIDTH = 8  # bytes of an amount
_QUICKLY = 1  # more effort of the compressor takes longer and saves next to nothing


class UnreadableCharges(ValueError):
    """Stored bytes are not those of a matrix with so many owners."""


def packed(owner_ids: Sequence[int], amounts: Amounts) -> tuple[list[int], bytes]:
    """Return the owners who earn anything, and the bytes of what they earn; `amounts` is (slots, owners)."""
    if not amounts.any():
        return [], b""
    earning = np.flatnonzero(amounts.any(axis=0))
    owners = [owner_ids[column] for column in earning.tolist()]
    return owners, zlib.compress(amounts[:, earning].astype("<i8").tobytes(), _QUICKLY)


def matrix_of(charges: Sequence[Sequence[Sequence[int]]]) -> tuple[list[int], Amounts]:
    """Return what lists of pairs say as owners and amounts (slots, owners). Owners are in the order of every axis of
    owners, the operator last."""
    owners = sorted({owner for slot in charges for owner, _ in slot}, key=lambda owner: (owner == 0, owner))
    places = {owner: place for place, owner in enumerate(owners)}
    amounts = np.zeros((len(charges), len(owners)), np.int64)
    for slot, pairs in enumerate(charges):
        for owner, amount in pairs:
            amounts[slot, places[owner]] += amount
    return owners, amounts


def unpacked(owners: int, data: bytes | memoryview) -> Amounts:
    """Return the micro-credits (slots, owners) that these bytes hold. Raise `UnreadableCharges` where they hold no
    such matrix, or anything behind it."""
    if not data:
        return np.zeros((0, owners), np.int64)
    return np.frombuffer(_numbers(owners, data), "<i8").reshape(-1, owners).astype(np.int64, copy=False)


def _numbers(owners: int, data: bytes | memoryview) -> bytes:
    reader = zlib.decompressobj()
    try:
        numbers = reader.decompress(data)
    except zlib.error as error:
        raise UnreadableCharges(str(error)) from error
    if not reader.eof or reader.unused_data or not owners or len(numbers) % (_WIDTH * owners):
        raise UnreadableCharges(f"{len(numbers)} bytes are no whole numbers of {owners} owners")
    return numbers


def charges_listed(owner_ids: Sequence[int], amounts: Amounts) -> SlotPairs:
    """Return for each slot its pairs, without zeros. The list is empty for a booking that costs nothing."""
    if not amounts.any():
        return []
    return [slot_listed(owner_ids, slot) for slot in amounts]


def slot_listed(owner_ids: Sequence[int], amounts: Amounts) -> list[list[int]]:
    """Return the pairs of one slot, without zeros; `amounts` is (owners,)."""
    return [[owner, amount] for owner, amount in zip(owner_ids, amounts.tolist(), strict=True) if amount]


def slot_parts(
    place: int, owners: Sequence[int], data: bytes | memoryview | None, pairs: Sequence[Sequence[int]]
) -> Sequence[Sequence[int]]:
    """Return the pairs of the slot at `place` in a row of an award. Rows of older versions have no bytes, and pairs in
    `pairs`."""
    if data is None:
        return pairs
    if not data:
        return []
    numbers = _numbers(len(owners), data)
    return slot_listed(owners, np.frombuffer(numbers, "<i8", len(owners), place * len(owners) * _WIDTH))

"""What each slot of an award costs and who earns it: as lists that people and programs read, and as bytes.

In a pool of hundreds of owners each of them earns something in each slot of each award. As lists in JSON such a matrix
takes fifteen times as long to write as in these bytes, and three times the room.

The bytes are the matrix (slots, owners) of micro-credits, row by row, in whole numbers of eight bytes, the lowest
first. All lowest bytes lie together, then all second ones and so on, and the whole is compressed: most of the upper
bytes are zero. Owners are named beside them, in the order of the columns. An award that costs nothing has no bytes.
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
    numbers = np.ascontiguousarray(amounts[:, earning], "<i8")
    planes = numbers.view(np.uint8).reshape(-1, _WIDTH).T
    return owners, zlib.compress(planes.tobytes(), _QUICKLY)


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
    reader = zlib.decompressobj()
    try:
        planes = reader.decompress(data)
    except zlib.error as error:
        raise UnreadableCharges(str(error)) from error
    if not reader.eof or reader.unused_data or not owners or len(planes) % (_WIDTH * owners):
        raise UnreadableCharges(f"{len(planes)} bytes are no whole numbers of {owners} owners")
    numbers = np.frombuffer(planes, np.uint8).reshape(_WIDTH, -1).T
    return np.ascontiguousarray(numbers).view("<i8").reshape(-1, owners).astype(np.int64, copy=False)


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
    return slot_listed(owners, unpacked(len(owners), data)[place]) if data else []

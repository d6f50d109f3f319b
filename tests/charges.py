"""What is stored of an award's charges, read in plain loops from what its format says; it shares no code with the
product."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence


def charges_read(owners: str | Sequence[int], data: bytes) -> list[list[list[int]]]:
    """Pairs [owner, micro-credits] for each slot, without zeros. `owners` are a list, or its text in JSON."""
    names = json.loads(owners) if isinstance(owners, str) else owners
    numbers = zlib.decompress(data) if data else b""
    slots = []
    for begin in range(0, len(numbers), 8 * len(names) or 1):
        pairs = []
        for place, name in enumerate(names):
            amount = int.from_bytes(numbers[begin + 8 * place : begin + 8 * place + 8], "little")
            if amount:
                pairs.append([name, amount])
        slots.append(pairs)
    return slots

"""Spans of slots in addresses: `?from_slot=` and `?to_slot=`, bounded so that no read costs more than it should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.models import Pool
from tenants.api.listing import Filter, whole
from tenants.api.problems import FieldError, Problem, ProblemRaised

FARTHEST = 2**40


@dataclass(frozen=True)
class SlotSpan:
    """The slots [first, end)."""

    first: int
    end: int

    def parameters(self) -> dict[str, str]:
        """As an address says it, so that the next page is of the same slots also when time has gone on."""
        return {"from_slot": str(self.first), "to_slot": str(self.end)}


def span_filters(usual: str, most: int) -> tuple[Filter, Filter]:
    """Return the filters `from_slot` and `to_slot`. `usual` describes the slots that are meant where none are named."""
    until = f"The first slot after those; at most {most} further. Else: {usual}."
    return (
        whole("from_slot", f"The first slot. Else: {usual}.", "", most=FARTHEST),
        whole("to_slot", until, "", least=1, most=FARTHEST),
    )


def span_read(pool: Pool, query: Mapping[str, Any], *, usual: SlotSpan, most: int) -> SlotSpan:
    """Return the slots that the query names. A query that names one end alone gets as many slots as are usual."""
    length = max(usual.end - usual.first, 1)
    first, end = query.get("from_slot"), query.get("to_slot")
    if first is None:
        first = usual.first if end is None else end - length
    if end is None:
        end = first + length if "from_slot" in query else usual.end
    first = max(first, 0)
    if not first < end <= first + most:
        raise invalid_parameter("to_slot", f"Must be 1 to {most} slots after from_slot.")
    try:
        pool.slot_start(end)
    except OverflowError:
        raise invalid_parameter("to_slot", "The calendar ends before that slot.") from None
    return SlotSpan(first, end)


def invalid_parameter(field: str, sentence: str) -> ProblemRaised:
    """Return the exception for a wrong parameter of the address: 400 with the field and a sentence."""
    errors = [FieldError(field, "invalid_parameter", sentence)]
    return ProblemRaised(Problem(400, "invalid_request", f"{field}: {sentence}", errors=errors))

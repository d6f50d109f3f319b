"""Frozen values with a quicker beginning are what the dataclass would have been."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import numpy as np
import pytest

from scheduling.core.quick import quick
from scheduling.core.types import Allocation, Booking


@quick
@dataclass(frozen=True, slots=True)
class Pair:
    one: int
    other: str = "none"

    def __post_init__(self) -> None:
        if self.one < 0:
            raise ValueError("below zero")


def test_begins_by_place_by_name_and_with_defaults() -> None:
    assert Pair(1) == Pair(one=1) == Pair(1, "none") == replace(Pair(2), one=1)
    assert (Pair(1).one, Pair(3, other="b").other, repr(Pair(1))) == (1, "b", "Pair(one=1, other='none')")


def test_is_frozen_and_travels() -> None:
    with pytest.raises(FrozenInstanceError):
        Pair(1).one = 2  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(Pair(1, "b"))) == Pair(1, "b")  # noqa: S301 - its own bytes


def test_looks_at_what_it_was_given() -> None:
    with pytest.raises(ValueError, match="below zero"):
        Pair(-1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'one'"):
        Pair()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'third'"):
        Pair(1, third=2)  # type: ignore[call-arg]


def test_refuses_fields_that_are_not_simply_given() -> None:
    @dataclass(frozen=True, slots=True)
    class Made:
        given: int
        made: int = field(init=False, default=1)

    @dataclass(frozen=True, slots=True)
    class Grown:
        rows: list[int] = field(default_factory=list)

    for kind in (Made, Grown):
        with pytest.raises(TypeError, match="not simply given"):
            quick(kind)


def test_booking_keeps_its_payouts_from_being_changed() -> None:
    payouts = np.ones(2)
    booking = Booking(1, 0, 1, (Allocation(0, 0, 1, 1, 1),), 1.0, 1, 1, paid=2.0, payouts=payouts)
    payouts[0] = 5.0
    assert booking.payouts is not None
    assert booking.payouts.tolist() == [1.0, 1.0]
    assert not booking.payouts.flags.writeable

"""A test that holds on many worlds by chance: cases of so many each, of which `make test` tries the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

World = TypeVar("World")


def in_blocks(
    world_of: Callable[[int], World], count: int = 80, block: int = 20
) -> Callable[..., Callable[[int], None]]:
    """A decorator for a test of one world. `world_of`: the world of a number, always the same."""

    def decorated(test: Callable[[World], None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("first", range(0, count, block))
        def tried(first: int) -> None:
            for number in range(first, first + block):
                try:
                    test(world_of(number))
                except BaseException as failure:
                    failure.add_note(f"in world {number}")
                    raise

        tried.__name__, tried.__doc__ = test.__name__, test.__doc__
        return tried

    return decorated

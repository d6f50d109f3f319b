"""Names in documents: the known one that an unknown one is like, and the one that stands twice."""

from __future__ import annotations

from scheduling.core.names import MOST_LETTERS, doubled_name, nearest


def test_the_nearest_name_is_the_one_that_is_most_like_it() -> None:
    assert nearest("epoch", ["chunks", "epochs", "epsilon"]) == "epochs"
    assert nearest("colour", ["chunks", "epochs"]) == ""


def test_a_very_long_name_is_like_none() -> None:
    longest = "e" * MOST_LETTERS
    assert nearest(longest, [longest]) == longest
    assert nearest(longest + "e", [longest + "e"]) == ""


class Counted(str):
    """A name that counts how often one is compared with another."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_doubled_name_is_found_by_looking_at_each_name_once() -> None:
    """The last of 20,000 is the doubled one. Comparing each with all others would be 200 million comparisons."""
    pairs = [(Counted(number), 1) for number in (*range(20_000), 19_999)]
    Counted.compared = 0
    assert str(doubled_name(pairs)) == "19999"
    assert Counted.compared < 3 * len(pairs)

"""How times and counts are written: the time to the next interval, how long something has lasted, a few units."""

from __future__ import annotations

import pytest

from tenants.ledger.amounts import THOUSANDS
from tenants.templatetags.look import countdown, few, lasting


@pytest.mark.parametrize(
    ("seconds", "late", "text"),
    [
        (59, 0, "00:59"),
        (3599, 0, "59:59"),
        (3600, 0, "1:00:00"),
        (37_023, 0, "10:17:03"),
        (0, 0, "deciding"),
        (0, 7, "7 s late"),
    ],
)
def test_hours_are_told_from_one_on(seconds: int, late: int, text: str) -> None:
    assert countdown(seconds, late) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 minutes"),
        (7_199, "119 minutes"),
        (7_200, "2 hours"),
        (172_799, "47 hours"),
        (172_800, "2 days"),
        (23_211_420, "268 days"),
        (3_000 * 86_400, f"3{THOUSANDS}000 days"),
    ],
)
def test_what_has_lasted_is_told_in_the_largest_unit_of_which_there_are_two(seconds: int, text: str) -> None:
    assert lasting(seconds) == text


@pytest.mark.parametrize(
    ("number", "label", "text"),
    [
        (1, "worker", "1 worker"),
        (0, "worker", "0 workers"),
        (900, "worker", "900 workers"),
        (1, "parameter server", "1 ps"),
        (4_000, "parameter server", f"4{THOUSANDS}000 ps"),
    ],
)
def test_a_few_units_have_their_short_name(number: int, label: str, text: str) -> None:
    assert few(number, label) == text

"""How the time to the next interval is written."""

from __future__ import annotations

import pytest

from tenants.templatetags.look import countdown


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

"""Moments without a zone are by the clock of the machine where the command is typed, in winter as in summer."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from bourse_client.command.scripts import described

OTHERS = ("max_price", "until_converged", "in_a_row", "name", "after", "divisible")


def zone_said() -> str:
    words = Namespace(worth="5", later=None, by="2027-07-01T12:00", **dict.fromkeys(OTHERS))
    return str(described(words, "#!/bin/bash\n")["zone"])


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/St_Johns", "Asia/Kolkata"])
def test_zone_of_the_machine_is_named_so_that_it_holds_in_winter_and_summer(at, name: str) -> None:
    at.setenv("TZ", name)
    time.tzset()
    for month in (1, 7):
        noon = datetime(2027, month, 1, 12, tzinfo=ZoneInfo(name))
        assert noon.replace(tzinfo=ZoneInfo(zone_said())).astimezone(UTC) == noon.astimezone(UTC)


@pytest.mark.parametrize(("name", "offset"), [("XYZ-3", "+03:00"), ("nowhere/at/all", "+00:00"), ("UTC0", "+00:00")])
def test_zone_without_a_known_name_is_its_offset(at, name: str, offset: str) -> None:
    at.setenv("TZ", name)
    time.tzset()
    assert zone_said() == offset

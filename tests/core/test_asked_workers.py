"""How many workers a job of a cluster's log asked for: policies that would draw a number take that one."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.core.records import view_bytes
from scheduling.core.scenario import BadScenario, read, write
from scheduling.core.simulation import simulate
from scheduling.core.types import AWARDED, Plan, View
from scheduling.lab.running import policies_build
from tests.core.scenario_documents import make_document, make_row

DRAWING = ("fifo", "rrh", "srtf", "gandiva_fair", "hived")
WORKERS = (3, 1, 4, 2)


def document(policy: dict[str, Any], numbers: tuple[int, ...] = WORKERS) -> dict[str, Any]:
    room = {"worker": 8, "ps": 8}
    servers = [{"name": f"s{n}", "capacity": room, "cells": {"u1": room}} for n in range(4)]
    jobs = [make_row(f"job-{n}", chunks=4, asked_workers=number) for n, number in enumerate(numbers)]
    return make_document(servers=servers, jobs=jobs, policy=policy)


@pytest.mark.parametrize("name", DRAWING)
def test_who_draws_takes_what_was_asked_for(name: str) -> None:
    scenario = read(document({"name": name}))
    tracks = simulate(scenario, policies_build(scenario)).tracks
    assert all(track.state == AWARDED for track in tracks)
    assert [{booking.workers for booking in track.bookings} for track in tracks] == [{number} for number in WORKERS]


@pytest.mark.parametrize("name", DRAWING)
def test_a_number_that_the_policy_was_given_counts(name: str) -> None:
    scenario = read(document({"name": name, "workers": 2}))
    tracks = simulate(scenario, policies_build(scenario)).tracks
    assert [{booking.workers for booking in track.bookings} for track in tracks] == [{2}] * len(WORKERS)


def test_it_is_read_and_written_and_left_out_where_nobody_asked() -> None:
    whole = document({"name": "fifo"})
    assert [row["asked_workers"] for row in write(read(whole))["jobs"]] == list(WORKERS)
    plain = {**whole, "jobs": [{k: v for k, v in row.items() if k != "asked_workers"} for row in whole["jobs"]]}
    assert all("asked_workers" not in row for row in write(read(plain))["jobs"])
    assert b"asked_workers" not in first_view(plain)
    assert b"asked_workers" in first_view(whole)


def first_view(content: dict[str, Any]) -> bytes:
    views: list[bytes] = []

    class Looking:
        name = "looking"

        def decide(self, view: View) -> Plan:
            views.append(view_bytes(view))
            return Plan()

    simulate(read(content), {"batch": Looking()})
    return views[0]


@pytest.mark.parametrize("number", [0, 5, 2.5, "two"])
def test_more_than_it_can_use_is_refused_by_field(number: Any) -> None:
    content = document({"name": "fifo"})
    content["jobs"][1]["asked_workers"] = number
    with pytest.raises(BadScenario, match=r"jobs\[1\].asked_workers"):
        read(content)

"""A job described in hours, and what it is worth in three answers: exact examples, and what holds for all of them."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from scheduling.core.estimates.remaining import check_speeds, seconds_left
from scheduling.core.policies import build
from scheduling.core.scenario import Scenario, read
from scheduling.core.scenario.jobs import read_value
from scheduling.core.simulation import simulate
from scheduling.core.types import Job
from scheduling.programs import hours, worth
from scheduling.programs.fields import FieldRefusal
from scheduling.programs.hours import InHours

RESOURCES = ("gpu", "cpu", "memory")
STEADY = {"kind": "linear", "slope": -1, "base": 1000}
many = settings(max_examples=300, deadline=None, database=None)


def in_hours(**answers: Any) -> InHours:
    description = hours.read({"hours": 6, "most": 8, "worker": {"gpu": 1}} | answers, RESOURCES)
    assert isinstance(description, InHours), description
    return description


def job_of(specification: dict[str, Any], *, slot_seconds: float = 3600.0, gpus: int = 8) -> tuple[Job, Scenario]:
    scenario = read(
        {
            "format": "scenario/1",
            "slot_seconds": slot_seconds,
            "slots": 1000,
            "servers": [{"name": "s", "capacity": {"gpu": gpus}}],
            "tenants": [{"name": "u", "quota": {"gpu": gpus}}],
            "jobs": [specification | {"name": "a", "tenant": "u", "arrival": 0}],
            "policy": {"name": "fifo", "workers": gpus},
        }
    )
    return scenario.jobs[0], scenario


def test_eight_gpus_for_six_hours() -> None:
    assert hours.specification(in_hours(), STEADY) == {
        "epochs": 1,
        "chunks": 8,
        "minibatches": 21_600,
        "minibatch_seconds": 1,
        "worker_demand": {"gpu": 1},
        "ps_demand": [],
        "min_workers": 8,
        "max_workers": 8,
        "value": STEADY,
    }


def test_between_two_and_eight_gpus_six_hours_with_eight() -> None:
    specification = hours.specification(in_hours(least=2, scaling="good"), STEADY)
    assert (specification["min_workers"], specification["max_workers"], specification["chunks"]) == (2, 8, 8)
    assert specification["mode"] == "sync"
    job, _ = job_of(specification)
    assert seconds_left(job, job.work, 8, 0) == pytest.approx(6 * 3600)
    assert seconds_left(job, job.work, 2, 0) == pytest.approx(6 * 3600 * (4 * 0.9**2), rel=1e-6)  # two doublings
    poor, _ = job_of(hours.specification(in_hours(least=2, scaling="poor"), STEADY))
    assert seconds_left(poor, poor.work, 2, 0) == pytest.approx(6 * 3600 * (4 * 0.7**2), rel=1e-6)
    perfect = hours.specification(in_hours(least=2), STEADY)
    assert not {"mode", "speed"} & set(perfect)


def test_a_measured_curve_is_kept_as_it_was_measured() -> None:
    specification = hours.specification(
        in_hours(least=2, scaling="measured", mode="async", speed=[0.5, 0, 0.1, 0]), STEADY
    )
    assert (specification["mode"], specification["speed"]) == ("async", [0.5, 0, 0.1, 0])
    check_speeds([job_of(specification)[0]])


@many
@seed(24)
@given(
    most=st.integers(1, 64),
    share=st.floats(0, 1),
    minutes=st.integers(1, 60 * 24 * 14),
    slot_seconds=st.sampled_from([1.0, 10.0, 37.0, 60.0, 300.0, 3600.0, 86_400.0]),
    scaling=st.sampled_from(["perfect", "good", "poor"]),
)
def test_a_run_takes_what_was_said_within_a_slot_and_never_less(
    most: int, share: float, minutes: int, slot_seconds: float, scaling: str
) -> None:
    least = max(1, int(share * most))
    answers = {"hours": f"{minutes / 60:.9f}", "most": most, "least": least, "scaling": scaling}
    request = in_hours(**answers)
    job, scenario = job_of(hours.specification(request, STEADY), slot_seconds=slot_seconds, gpus=most)
    (track,) = simulate(scenario, {"batch": build(scenario.policy, scenario.cluster, scenario.jobs)}).tracks
    (booking,) = track.bookings
    took = (booking.end - booking.start) * slot_seconds
    assert booking.workers == most
    assert request.seconds <= took * (1 + 1e-9)
    assert took < request.seconds + slot_seconds
    check_speeds([job])


def test_never_less_than_what_was_said_where_hours_are_no_whole_seconds() -> None:
    assert in_hours(hours="0.0001").seconds == 1
    assert in_hours(hours=1.33333).seconds == 4800
    assert in_hours(hours="1.333334").seconds == 4801


@pytest.mark.parametrize(
    ("answers", "field"),
    [
        ({"hours": 0}, "hours"),
        ({"hours": "1e9"}, "hours"),
        ({"hours": "-1"}, "hours"),
        ({"hours": True}, "hours"),
        ({"hours": "six"}, "hours"),
        ({"hours": 9999999}, "hours"),
        ({"hours": float("inf")}, "hours"),
        ({"most": 0}, "most"),
        ({"most": 2.5}, "most"),
        ({"least": 9}, "least"),
        ({"least": "many"}, "least"),
        ({"worker": {}}, "worker"),
        ({"worker": {"gpu": 0}}, "worker"),
        ({"worker": {"gqu": 1}}, "worker.gqu"),
        ({"worker": {"gpu": -1}}, "worker.gpu"),
        ({"worker": {"gpu": float("nan")}}, "worker.gpu"),
        ({"scaling": "superb"}, "scaling"),
        ({"speed": [1, 2]}, "speed"),
        ({"scaling": "measured", "speed": [1, 2]}, "speed"),
        ({"scaling": "measured", "speed": [1, 2, 3, 4, float("inf")]}, "speed"),
        ({"epochs": 3}, "epochs"),
    ],
)
def test_a_wrong_answer_is_refused_by_its_field(answers: dict[str, Any], field: str) -> None:
    description = hours.read({"hours": 6, "most": 8, "worker": {"gpu": 1}} | answers, RESOURCES)
    assert isinstance(description, tuple)
    assert [refusal.field for refusal in description] == [field]
    assert all(isinstance(refusal, FieldRefusal) and refusal.sentence for refusal in description)


def test_all_wrong_answers_are_told_at_once() -> None:
    answers = hours.read({}, RESOURCES)
    assert isinstance(answers, tuple)
    assert {refusal.field for refusal in answers} == {"hours", "most", "worker"}


# ---- what it is worth

WORTHS = st.builds(
    worth.Worth,
    st.integers(1, 10**7),
    st.floats(0.000001, 1e9),
    st.sampled_from([worth.NOTHING, worth.HALF, worth.HARDLY]),
)


def values(terms: worth.Worth, slot_seconds: float, *times: float) -> list[float]:
    """What an end is worth after so many times the time that was said."""
    function = read_value(json.loads(json.dumps(worth.value(terms, slot_seconds))), "value")
    slots = terms.within_seconds / slot_seconds
    return [float(function(slots * each)) for each in times]


def test_a_hundred_credits_by_tonight() -> None:
    tonight = {"within_seconds": 36_000, "credits": 100}
    nothing, half, hardly = (worth.read(tonight | {"later": later}) for later in worth.LATER)
    assert isinstance(nothing, worth.Worth)
    assert isinstance(half, worth.Worth)
    assert isinstance(hardly, worth.Worth)
    assert worth.value(nothing, 3600) == {"kind": "deadline", "base": 100.0, "deadline": 10.0}
    assert worth.value(hardly, 3600) == {"kind": "linear", "slope": -0.1, "base": 101.0}
    assert values(nothing, 3600, 0, 1, 1.0001, 2) == [100, 100, 0, 0]
    assert values(half, 3600, 0, 1, 2, 3) == pytest.approx([101, 100, 50, 1], rel=0.05)
    assert values(half, 3600, 1, 2) == pytest.approx([100, 50], rel=1e-12)  # these two to the letter
    assert values(hardly, 3600, 0, 1, 2, 11) == pytest.approx([101, 100, 99, 90])


@many
@seed(25)
@given(terms=WORTHS, slot_seconds=st.sampled_from([1.0, 60.0, 3600.0, 86_400.0]))
def test_by_then_it_is_worth_what_was_said_and_it_never_rises(terms: worth.Worth, slot_seconds: float) -> None:
    (by_then,) = values(terms, slot_seconds, 1)
    assert math.isclose(by_then, terms.credits, rel_tol=1e-9)
    course = values(terms, slot_seconds, *np.linspace(0, 5, 41).tolist())
    assert all(before >= after for before, after in pairwise(course))
    assert max(course) <= terms.credits * 1.0101
    (later,) = values(terms, slot_seconds, 2)
    part = {worth.NOTHING: 0.0, worth.HALF: 0.5, worth.HARDLY: 0.99}[terms.later]
    assert math.isclose(later, part * terms.credits, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("answers", "field"),
    [
        ({"within_seconds": 0}, "within_seconds"),
        ({"within_seconds": True}, "within_seconds"),
        ({"within_seconds": 10**12}, "within_seconds"),
        ({"credits": 0}, "credits"),
        ({"credits": float("nan")}, "credits"),
        ({"credits": "100"}, "credits"),
        ({"later": "maybe"}, "later"),
        ({"later": None}, "later"),
        ({"curve": "convex"}, "curve"),
    ],
)
def test_a_wrong_answer_about_worth_is_refused_by_its_field(answers: dict[str, Any], field: str) -> None:
    refusals = worth.read({"within_seconds": 3600, "credits": 5, "later": "half"} | answers)
    assert isinstance(refusals, tuple)
    assert [refusal.field for refusal in refusals] == [field]

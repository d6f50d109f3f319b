"""When jobs may begin, what they wait for, until when they are worth something, and arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from scheduling.core.scenario.jobs import read_value
from scheduling.programs import ordering, worth
from scheduling.programs.fields import FieldRefusal
from scheduling.programs.ordering import WaitStanding, arrival, members, standing, until, waited_in_order
from scheduling.programs.worth import HALF, LATER, NOTHING, Worth

many = settings(max_examples=200, deadline=None, database=None)


def test_a_job_begins_when_all_that_it_waits_for_have_ended_well() -> None:
    assert standing([], {}) == WaitStanding("ready")
    assert standing([1, 2], {1: "done", 2: "done"}) == WaitStanding("ready")
    assert standing([1, 2, 3], {1: "done", 2: "open", 3: "open"}) == WaitStanding("waits", (2, 3))
    assert standing([1, 2], {1: "open", 2: "failed"}) == WaitStanding("never", (2,))
    assert standing([1, 9], {1: "done"}) == WaitStanding("never", (9,))
    assert standing([1, "A-2"], {1: "done", "A-2": "open"}) == WaitStanding("waits", ("A-2",))


def test_jobs_and_arrays_are_in_the_order_of_their_numbers_each_once() -> None:
    assert waited_in_order(["A-10", 7, "A-9", 12, 7, "A-0"]) == [7, 12, "A-0", "A-9", "A-10"]


@many
@seed(41)
@given(st.dictionaries(st.integers(1, 9), st.sampled_from([ordering.DONE, ordering.OPEN, ordering.FAILED])))
def test_only_good_ends_make_it_ready_and_a_bad_one_is_for_good(states: dict[int, str]) -> None:
    answer = standing(list(states), states)
    assert (answer.state == "ready") == all(state == "done" for state in states.values())
    assert (answer.state == "never") == ("failed" in states.values())
    assert all(states[job] != "done" for job in answer.jobs)


def test_it_arrives_no_sooner_than_it_may_begin() -> None:
    assert arrival(100.0, None, None) == 100.0
    assert arrival(100.0, 50.0, None) == 100.0
    assert arrival(100.0, 200.0, 150.0) == 200.0
    assert arrival(100.0, 200.0, 250.0) == 250.0


def test_after_a_deadline_it_is_worth_nothing() -> None:
    terms = Worth(36_000, 100.0, HALF)
    assert until(terms, 0.0, 7200.0, 3600.0) == Worth(7200, 100.0, NOTHING)
    assert until(terms, 0.0, 72_000.0, 3600.0) == Worth(36_000, 100.0, HALF, until_seconds=72_000)
    earlier = Worth(1800, 100.0, NOTHING)
    assert until(earlier, 0.0, 7200.0, 900.0) is earlier
    refused = until(terms, 1000.0, 4000.0, 3600.0)
    assert isinstance(refused, FieldRefusal)
    assert refused == FieldRefusal("deadline", "is 600 seconds too soon for a run that began at once")
    assert isinstance(until(terms, 1000.0, 0.0, 1.0), FieldRefusal)


def test_a_deadline_lets_the_worth_fall_as_it_was_described() -> None:
    """Wanted within two hours, half after as long again: of 100 credits nobody has 60 at hour 19, because of a deadline
    at hour 20."""
    answer = until(Worth(7200, 100.0, HALF), 0.0, 72_000.0, 3600.0)
    assert isinstance(answer, Worth)
    hourly = read_value(worth.value(answer, 3600.0), "value")
    assert np.round(hourly([2, 4, 6, 8, 19, 20, 21]), 2).tolist() == [100.0, 50.0, 0.96, 0.01, 0.0, 0.0, 0.0]


@many
@seed(43)
@given(
    terms=st.builds(Worth, st.integers(1, 10**6), st.floats(0.01, 1e9), st.sampled_from(LATER)),
    seconds=st.floats(1.0, 2e6),
    slot_seconds=st.sampled_from([10.0, 300.0, 3600.0]),
)
def test_a_deadline_never_makes_a_job_worth_more(terms: Worth, seconds: float, slot_seconds: float) -> None:
    answer = until(terms, 0.0, seconds, 1.0)
    assert isinstance(answer, Worth)
    described, bounded = (read_value(worth.value(each, slot_seconds), "value") for each in (terms, answer))
    ends = np.concatenate([np.linspace(0.0, 4.0 * terms.within_seconds, 200), np.linspace(0.0, 2.0 * seconds, 200)])
    elapsed = np.sort(np.append(ends, [terms.within_seconds, seconds])) / slot_seconds
    values = bounded(elapsed)
    assert (values <= described(elapsed) + 1e-9 * terms.credits).all()
    assert (np.diff(values) <= 1e-9 * terms.credits).all()
    over = elapsed * slot_seconds > seconds + 1.0
    assert (values[over] <= 0.0).all()
    before = ~over & (elapsed * slot_seconds < seconds - 1e-3)
    assert (values[before] >= np.minimum(described(elapsed[before]), terms.credits) - 1e-9 * terms.credits).all()


def test_an_array_is_one_job_for_each_index() -> None:
    jobs = members("sweep", [3, 1, 3])
    assert isinstance(jobs, tuple)
    assert [(member.index, member.name) for member in jobs] == [(1, "sweep[1]"), (3, "sweep[3]")]
    assert isinstance(members("sweep", range(1000)), tuple)
    for wrong in (members("sweep", []), members("sweep", range(1001)), members("sweep", [-1])):
        assert isinstance(wrong, FieldRefusal)
        assert wrong.field == "array"
    long = members("x" * 198, [10])
    assert isinstance(long, FieldRefusal)
    assert long.field == "name"

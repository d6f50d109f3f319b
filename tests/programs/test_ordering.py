"""When jobs may begin, what they wait for, until when they are worth something, and arrays."""

from __future__ import annotations

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from scheduling.programs import ordering
from scheduling.programs.fields import FieldRefusal
from scheduling.programs.ordering import WaitStanding, arrival, members, standing, until, waited_in_order
from scheduling.programs.worth import HALF, NOTHING, Worth

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
    found = standing(list(states), states)
    assert (found.state == "ready") == all(state == "done" for state in states.values())
    assert (found.state == "never") == ("failed" in states.values())
    assert all(states[job] != "done" for job in found.jobs)


def test_it_arrives_no_sooner_than_it_may_begin() -> None:
    assert arrival(100.0, None, None) == 100.0
    assert arrival(100.0, 50.0, None) == 100.0
    assert arrival(100.0, 200.0, 150.0) == 200.0
    assert arrival(100.0, 200.0, 250.0) == 250.0


def test_after_a_deadline_it_is_worth_nothing() -> None:
    said = Worth(36_000, 100.0, HALF)
    assert until(said, 0.0, 7200.0, 3600.0) == Worth(7200, 100.0, NOTHING)
    assert until(said, 0.0, 72_000.0, 3600.0) == Worth(72_000, 100.0, NOTHING)
    earlier = Worth(1800, 100.0, NOTHING)
    assert until(earlier, 0.0, 7200.0, 900.0) is earlier
    refused = until(said, 1000.0, 4000.0, 3600.0)
    assert isinstance(refused, FieldRefusal)
    assert refused == FieldRefusal("deadline", "is 600 seconds too soon for a run that began at once")
    assert isinstance(until(said, 1000.0, 0.0, 1.0), FieldRefusal)


def test_an_array_is_one_job_for_each_index() -> None:
    found = members("sweep", [3, 1, 3])
    assert isinstance(found, tuple)
    assert [(member.index, member.name) for member in found] == [(1, "sweep[1]"), (3, "sweep[3]")]
    assert isinstance(members("sweep", range(1000)), tuple)
    for wrong in (members("sweep", []), members("sweep", range(1001)), members("sweep", [-1])):
        assert isinstance(wrong, FieldRefusal)
        assert wrong.field == "array"
    long = members("x" * 198, [10])
    assert isinstance(long, FieldRefusal)
    assert long.field == "name"

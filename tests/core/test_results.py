"""Result documents: rows made of bookings of any shape, and numbers as they should be written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.results import document, job_row, plain, settings
from scheduling.core.scenario import to_json
from scheduling.core.simulation import Outcome, Track, simulate
from scheduling.core.types import AWARDED, EXPIRED, REJECTED, WAITING, Allocation, Booking, Floor, Plan, Reason, View
from tests.core.builders import make_cluster, make_job, make_scenario, make_unit_type

CLUSTER = make_cluster(((4, 4, 4), (2, 2, 2)), quota=((6, 6), (3, 3)))


def make_booking(start: int = 0, end: int = 1, *rows: tuple[int, int, int], **fields: Any) -> Booking:
    """A booking with (server, workers, ps) during all of it."""
    allocation = tuple(Allocation(server, start, end, workers, ps) for server, workers, ps in rows)
    workers, ps = sum(row[1] for row in rows), sum(row[2] for row in rows)
    return Booking(0, start, end, allocation, work=1.0, workers=workers, ps=ps, **fields)


def row_of(*bookings: Booking, state: str = AWARDED, **fields: Any) -> dict[str, Any]:
    """The row of a job with these bookings."""
    reason, floor = fields.pop("reason", None), fields.pop("floor", None)
    return job_row(CLUSTER, Track(make_job(**fields), state, reason, list(bookings), floor))


def slots_of(row: dict[str, Any]) -> list[tuple[str, int, int, int, int]]:
    return [(part["server"], *part["slots"], part["workers"], part["ps"]) for part in row["allocation"]]


def test_merges_slots_with_the_same_numbers_into_one_row() -> None:
    row = row_of(*(make_booking(s, s + 1, (0, 2, 1)) for s in (3, 4, 5)))
    assert slots_of(row) == [("s0", 3, 6, 2, 1)]
    assert (row["start"], row["end"], row["workers"], row["ps"]) == (3, 6, 2, 1)


def test_begins_a_new_row_where_the_numbers_change_or_a_gap_lies() -> None:
    row = row_of(make_booking(0, 1, (1, 2, 1)), make_booking(1, 2, (1, 3, 1), (0, 1, 0)), make_booking(4, 5, (1, 3, 1)))
    assert slots_of(row) == [("s0", 1, 2, 1, 0), ("s1", 0, 1, 2, 1), ("s1", 1, 2, 3, 1), ("s1", 4, 5, 3, 1)]
    assert (row["workers"], row["ps"]) == (4, 1)


def test_adds_up_what_stands_twice_on_one_server() -> None:
    assert slots_of(row_of(make_booking(0, 2, (0, 2, 0), (0, 0, 1)))) == [("s0", 0, 2, 2, 1)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=12))
def test_rows_say_of_every_slot_what_the_bookings_say(servers: list[tuple[int, int, int]]) -> None:
    row = row_of(*(make_booking(slot, slot + 1, server) for slot, server in enumerate(servers)))
    table = np.zeros((3, len(servers), 2), int)
    for server, start, end, workers, ps in slots_of(row):
        table[int(server[1:]), start:end] += (workers, ps)
    expected = np.zeros_like(table)
    for slot, (server_number, workers, ps) in enumerate(servers):
        expected[server_number, slot] = (workers, ps)
    np.testing.assert_array_equal(table, expected)
    rows = slots_of(row)
    for one, next_one in pairwise(rows):
        assert (one[0], one[2], *one[3:]) != (next_one[0], next_one[1], *next_one[3:])  # else it is one run


def test_terms_of_a_rented_job() -> None:
    booking = make_booking(
        8, 12, (0, 3, 1), value=92.0, cost=16.0, paid=16.0, payouts=np.array([8.0, 8.0, 0.0]), phase="shared"
    )
    row = row_of(booking)
    assert (row["value"], row["cost"], row["surplus"], row["paid"]) == (92.0, 16.0, 76.0, 16.0)
    assert row["payouts"] == {"u0": 8.0, "u1": 8.0}
    assert "shadow_cost" not in row


def test_the_surplus_of_a_net_payment_is_what_is_left_after_it() -> None:
    row = row_of(make_booking(0, 1, (0, 1, 1), value=50.0, cost=10.0, paid=4.0, payouts=np.array([0, 0, 4.0])))
    assert (row["cost"], row["paid"], row["surplus"]) == (10.0, 4.0, 46.0)
    assert row["payouts"] == {"operator": 4.0}


def test_a_shadow_price_is_shown_and_not_charged() -> None:
    row = row_of(make_booking(0, 1, (0, 1, 1), value=50.0, shadow_cost=3.0))
    assert (row["shadow_cost"], row["cost"], row["paid"], row["surplus"]) == (3.0, 0.0, 0.0, 50.0)


def test_names_the_types_used_where_there_is_a_choice() -> None:
    types = [make_unit_type((1, 0)), make_unit_type((2, 0))]
    row = row_of(make_booking(0, 1, (0, 1, 1), worker_type=1), worker_types=types)
    assert row["worker_type"] == 1
    assert "ps_type" not in row


def test_the_value_of_a_policy_that_looks_at_none_is_that_of_the_completion() -> None:
    assert row_of(make_booking(3, 7, (0, 1, 1)), arrival=2.0)["value"] == 95.0


@pytest.mark.parametrize(
    ("state", "reason", "row_reason"),
    [
        (AWARDED, Reason("no_room", {"asked": 3}), None),
        (WAITING, None, {"code": "waiting_for_interval"}),
        (WAITING, Reason("outbid", {"price": 3.0, "value": 2.0}), {"code": "outbid", "price": 3.0, "value": 2.0}),
        (REJECTED, Reason("larger_than_window"), {"code": "larger_than_window"}),
        (EXPIRED, Reason("not_worth_it", {"best_value": -0.0}), {"code": "not_worth_it", "best_value": -0.0}),
    ],
)
def test_gives_the_reason_of_every_job_that_does_not_run(state: str, reason: Reason | None, row_reason: object) -> None:
    bookings = [make_booking(0, 1, (0, 1, 1))] if state == AWARDED else []
    assert row_of(*bookings, state=state, reason=reason)["reason"] == row_reason


def test_a_job_without_a_schedule_has_a_floor_and_nothing_else() -> None:
    row = row_of(state=WAITING, floor=Floor(0, value=7.0))
    assert (row["floor"], row["start"], row["end"], row["allocation"], row["payouts"]) == (7.0, None, None, [], {})
    assert (row["value"], row["cost"], row["paid"], row["surplus"]) == (0.0, 0.0, 0.0, 0.0)


def test_a_job_cut_off_by_the_end_has_begun_and_has_not_ended() -> None:
    row = row_of(make_booking(3, 4, (0, 1, 1)), state=WAITING)
    assert (row["start"], row["end"]) == (3, None)
    assert row["reason"] == {"code": "waiting_for_interval"}


def test_writes_numbers_clean() -> None:
    assert to_json({"x": plain([-0.0, 0.1 + 0.2, np.float64(1) / 3, np.int64(4), (1, 2)])}) == (
        '{"x": [0.0, 0.3, 0.333333333333, 4, [1, 2]]}\n'
    )


@dataclass(frozen=True)
class Greedy:
    """Gives every waiting job one worker at once, and has settings of every shape."""

    name: ClassVar[str] = "greedy"
    share: float = 1 / 3
    range: tuple[int, int] = (1, 2)
    theta: dict[str, float] | None = None

    def decide(self, view: View) -> Plan:
        return Plan(
            [
                Booking(
                    job.number, view.slot, view.slot + 1, (Allocation(0, view.slot, view.slot + 1, 1, 1),), 1.0, 1, 1
                )
                for job in view.waiting
            ]
        )


def test_the_document_names_every_setting_and_is_plain_json() -> None:
    scenario = make_scenario([make_job(k, arrival=k) for k in range(3)], cluster=CLUSTER)
    policy = Greedy(theta={"worker": 2.0})
    outcome = simulate(scenario, {"batch": policy})
    report = document(scenario, {"batch": policy}, outcome, [None, 1.0], {"total": 0.1234567})
    assert report["policy"] == {"name": "greedy", "share": 0.333333333333, "range": [1, 2], "theta": {"worker": 2.0}}
    assert [row["name"] for row in report["jobs"]] == ["j0", "j1", "j2"]
    assert [row["alone"] for row in report["tenants"]] == [None, 1.0]
    assert report["seconds"] == {"total": 0.123457}
    assert json.loads(to_json(report)) == report


def test_the_policy_of_the_instant_lane_stands_beside_the_other() -> None:
    scenario = make_scenario([], cluster=CLUSTER)
    policies = {"batch": Greedy(), "instant": Greedy(share=0.5)}
    report = document(scenario, policies, Outcome((), (), 0), [None, None], {})
    assert report["instant"]["share"] == 0.5
    assert settings(Greedy())["theta"] is None

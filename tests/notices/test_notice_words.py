"""What notices say: plain sentences with numbers, also of events that an older version wrote."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.feed.kinds import EventKind, message_text

LOW = {"available": 120_000_000, "slots_left": 3, "per_slot": 60_000, "slot_seconds": 10}
BUDGET = {"period": "month", "spent": 85_000_000, "limit": 100_000_000, "member": None}
OUTBID = {"reason": "outbid", "numbers": {"price": 5.25, "value": 1.5}}

SENTENCES: list[tuple[EventKind, dict[str, Any], str]] = [
    (EventKind.LOW_BALANCE, LOW, "120.00 credits last 5.5 hours, at the 21.60 credits an hour that are spent now."),
    (
        EventKind.LOW_BALANCE,
        LOW | {"available": 1_200_000},
        "1.20 credits last 3 minutes, at the 21.60 credits an hour that are spent now.",
    ),
    (
        EventKind.LOW_BALANCE,
        LOW | {"available": 0},
        "0.00 credits last less than a minute, at the 21.60 credits an hour that are spent now.",
    ),
    (EventKind.LOW_BALANCE, {"available": 5_000_000, "slots_left": 2}, "5.00 credits last 2 slots."),
    (
        EventKind.BUDGET_REACHED,
        BUDGET | {"percent": 80, "hard": True},
        "The budget of the tenant for this month: 85.00 of 100.00 credits are spent, 80 % or more.",
    ),
    (
        EventKind.BUDGET_REACHED,
        BUDGET | {"percent": 100, "hard": True, "spent": 100_000_000, "member": 7},
        "The budget of one member for this month: 100.00 of 100.00 credits are spent. "
        "Nothing more is bought until the next month begins.",
    ),
    (
        EventKind.BUDGET_REACHED,
        BUDGET | {"percent": 100, "hard": False, "spent": 100_000_000},
        "The budget of the tenant for this month: 100.00 of 100.00 credits are spent, all of it.",
    ),
    (
        EventKind.BUDGET_PASSED,
        BUDGET | {"limit": 80_000_000},
        "The budget of the tenant for this month: 85.00 credits are spent, past the soft limit of 80.00.",
    ),
    (
        EventKind.JOB_LAST_CHANCE,
        OUTBID,
        "vision was outbid in the last interval in which it could still be worth something: a place cost 5.25 credits, "
        "and it was worth 1.50. To run it all the same, submit it again: for later, or worth more.",
    ),
    (
        EventKind.SERVER_LOST,
        {"server": "s1", "awards": 3, "refunded": 12_500_000},
        "s1 in Main does not answer. It ended 3 booked places, and 12.50 credits went back.",
    ),
    (
        EventKind.SERVER_LOST,
        {"server": "s1", "awards": 0, "refunded": 0},
        "s1 in Main does not answer. Nothing was booked on it.",
    ),
    (EventKind.SERVER_LOST, {"server": "s1"}, "s1 in Main does not answer."),
    (EventKind.JOB_FAILED, {"reason": "program_failed", "numbers": {}}, "vision failed. Its page says why."),
    (
        EventKind.JOB_FAILED,
        {"reason": "given_up", "numbers": {"refunded": 3_000_000}},
        "vision failed, and 3.00 credits came back. Its page says why.",
    ),
    (
        EventKind.JOB_REQUEUED,
        {"cause": "server_lost", "refunded": 3_000_000},
        "vision waits for another place. 3.00 credits came back for what was not delivered.",
    ),
    (
        EventKind.JOB_REQUEUED,
        {"cause": "server_lost", "refunded": 0},
        "vision waits for another place. No credits came back: what was not delivered cost none, or is settled.",
    ),
    (EventKind.JOB_REQUEUED, {"reason": "floor_lost"}, "vision gets a new place at home."),
    (EventKind.JOB_REFUSED, {"reason": "no_room"}, "vision: nothing was charged."),
    (
        EventKind.JOB_REFUSED,
        {"reason": "no_room", "begun": True},
        "vision gets no other place. Its page says what it paid for.",
    ),
]


@pytest.mark.parametrize(("kind", "data", "sentence"), SENTENCES)
def test_a_notice_says_it_with_its_numbers(kind: EventKind, data: dict[str, Any], sentence: str) -> None:
    assert kind.message is not None
    assert message_text(kind.message, "vision" if kind.heading else "Main", data) == sentence


def test_an_event_without_the_numbers_that_its_words_need_has_its_title_alone() -> None:
    assert EventKind.BUDGET_PASSED.message is not None
    assert message_text(EventKind.BUDGET_PASSED.message, "", {}) == ""

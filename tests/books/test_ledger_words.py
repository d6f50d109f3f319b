"""What a movement of money is called on the ledger page."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

from scheduling.books.read_ledger_words import sentence_of
from scheduling.market.reads import AwardSeen
from tenants.ledger.movements import Movement


def paid(slot: int) -> Movement:
    at = datetime(2026, 11, 25, tzinfo=UTC)
    return Movement(at, slot, "settle", "job:7", {}, None, available=0, held=-600_000, earned=0)


def award(number: int, slots: int) -> AwardSeen:
    """One of twelve workers."""
    fields = {field.name: 0 for field in dataclasses.fields(AwardSeen)}
    return AwardSeen(**{**fields, "award_id": number, "lane": "batch", "end": slots, "workers": 12})


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ([4], "1 of 4 slots"),
        ([4, 4, 4], "3 of 4 slots"),
        ([1], "1 of 1 slot"),
    ],
)
def test_slots_of_one_award_are_counted_of_all_of_its_slots(lengths: list[int], words: str) -> None:
    rows = [(paid(slot), award(5, length)) for slot, length in enumerate(lengths)]
    assert sentence_of(rows) == f"Paid for {{job}}, {words}."


def test_slots_of_an_elastic_job_have_an_award_each_and_are_counted_alone() -> None:
    rows = [(paid(slot), award(slot, 1)) for slot in range(4)]
    assert sentence_of(rows) == "Paid for {job}, 4 slots."


def test_a_payment_whose_award_is_not_shown_counts_its_slots() -> None:
    assert sentence_of([(paid(1), None)]) == "Paid for {job}, 1 slot."

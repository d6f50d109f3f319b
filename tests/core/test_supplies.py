"""An answer states what the owners sell once, and payouts follow from it: to the bit, here and in the checker."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from scheduling.audit.bundle import check
from scheduling.core import records, settlement
from scheduling.core.policies import build
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import simulate
from scheduling.core.types import BATCH, Booking, Plan, Policy, Split, Supply, View
from tests.core.piece_markets import piece_market
from tests.core.random_markets import contested_market, random_market
from tests.core.renewal_markets import crowded_market

FORMS = (records.WITH_PAYOUTS, records.WITH_SUPPLIES, records.WITH_SUMS)
KINDS = {
    "paper": lambda seed: random_market(seed, "paper"),
    "guarantee": contested_market,
    "renewed": crowded_market,
    "pieces": piece_market,
}


@dataclass
class Compared:
    """A policy each of whose answers is written in all forms and read from them."""

    policy: Policy
    name: ClassVar[str] = "compared"
    forms: list[str] = field(default_factory=list)

    def decide(self, view: View) -> Plan:
        plan = self.policy.decide(view)
        whole, before, short = (records.plan_bytes(plan, form=form) for form in FORMS)
        assert short == records.plan_bytes(plan)
        for stored in (whole, before, short):
            assert records.plan_bytes_like(stored, plan) == stored
        assert len(short) <= len(before)
        assert records.plan_bytes(records.plan_from(before), form=records.WITH_SUPPLIES) == before
        document = json.loads(short)
        stored = {(row["job"], row["start"]): row["slot_payouts"] for row in document["bookings"]}
        for one, other in zip(records.plan_from(short).bookings, plan.bookings, strict=True):
            assert one.job == other.job
            if other.slot_payouts is None or one.slot_payouts is None:
                assert one.slot_payouts is other.slot_payouts is one.payouts is other.payouts is None
                continue
            assert one.slot_payouts.tobytes() == other.slot_payouts.tobytes()
            assert one.payouts.tobytes() == other.payouts.tobytes()
            row = stored[one.job, one.start]
            self.forms.append("sum" if "sum" in row else "short" if "supply" in row else "whole")
        read = records.plan_from(whole)
        assert records.plan_bytes(read, form=records.WITH_PAYOUTS) == whole == records.plan_bytes(read)
        self._check(document, plan, len(view.cluster.owners))
        return plan

    def _check(self, document: dict[str, Any], plan: Plan, owners: int) -> None:
        """Of the program that auditors run, which has no numpy."""
        supplies = [check.contributions_of(row, owners) for row in document.get("supplies", [])]
        for row, booking in zip(document["bookings"], plan.bookings, strict=True):
            payouts = check.payouts_of(row | {"supplies": supplies}, owners)
            assert payouts == ([] if booking.slot_payouts is None else booking.slot_payouts.tolist())


def compared(scenario: Scenario) -> Compared:
    policy = Compared(build(scenario.policy, scenario.cluster, scenario.jobs))
    simulate(scenario, {BATCH: policy})
    return policy


@pytest.mark.one_case
@pytest.mark.parametrize("kind", KINDS)
def test_answers_say_the_same_in_all_forms(kind: str) -> None:
    forms = [form for seed in range(60) for form in compared(KINDS[kind](seed)).forms]
    assert forms.count("short") + forms.count("sum") > 40
    assert ("sum" in forms) == (kind in ("paper", "pieces"))  # rents of eight slots and more
    assert ("whole" in forms) == (kind == "pieces")  # some of these markets have a dividend, which is split otherwise


def booking(split: Split, **changed: object) -> Booking:
    payouts = split.slot_payouts()
    amounts = {"payouts": payouts.sum(axis=0), "slot_payouts": payouts, "paid": float(payouts.sum()), "split": split}
    return Booking(
        **{"job": 1, "start": 5, "end": 7, "allocation": (), "work": 1.0, "workers": 1, "ps": 0} | amounts | changed
    )


def test_one_supply_is_written_once_for_all_that_are_split_by_it() -> None:
    supply = Supply(4, np.array([[[3.0, 3.0, 2.0], [1.0, 1.0, 0.0], [0.0, 4.0, 4.0]]]))
    plan = Plan([booking(Split(supply, 5, np.array([[cost, 2.0]]), payer)) for cost, payer in ((1.0, None), (0.7, 1))])
    document = json.loads(records.plan_bytes(plan))
    assert document["supplies"] == [
        {
            "start": 4,
            "units": {
                "shape": [1, 3, 3],
                "type": "float64",
                "runs": [[2, 3.0], [1, 2.0], [2, 1.0], [2, 0.0], [2, 4.0]],
            },
        }
    ]
    assert [row["slot_payouts"]["payer"] for row in document["bookings"]] == [None, 1]
    assert [row["payouts"] for row in document["bookings"]] == [None, None]


def in_pairs(amounts: list[float]) -> float:
    """Slow reference: eight sums of each eighth number, these in pairs, then what is left over."""
    whole = len(amounts) // 8 * 8
    if not whole:
        return sum(amounts)
    sums = [sum(amounts[first + 8 : whole : 8], amounts[first]) for first in range(8)]
    while len(sums) > 1:
        sums = [one + other for one, other in zip(sums[::2], sums[1::2], strict=True)]
    return sum(amounts[whole:], sums[0])


@pytest.mark.parametrize("slots", [1, 7, 8, 9, 16, 21, 40, 129])
def test_payouts_that_are_sums_over_slots_are_not_written(slots: int) -> None:
    rng, owners = np.random.default_rng(slots), 40
    supply = Supply(5, rng.integers(0, 9, (2, owners, slots)).astype(float))
    split = Split(supply, 5, rng.random((2, slots)), 3)
    by_slot = split.slot_payouts()
    plain = by_slot.sum(axis=0)
    paired = np.array([in_pairs(amounts) for amounts in by_slot.T.tolist()])
    assert (plain.tobytes() != paired.tobytes()) == (slots > 7)
    for total in (plain, paired):
        one = booking(split, payouts=total, end=5 + slots)
        stored = records.plan_bytes(Plan([one]))
        (row,) = json.loads(stored)["bookings"]
        assert row["payouts"] is None
        assert records.plan_from(stored).bookings[0].payouts.tobytes() == total.tobytes()
        before = records.plan_bytes(Plan([one]), form=records.WITH_SUPPLIES)
        assert (before != stored) == (slots > 7 and total is paired)
        assert records.plan_from(before).bookings[0].payouts.tobytes() == total.tobytes()
        assert records.plan_bytes_like(before, Plan([one])) == before


def test_what_does_not_follow_to_the_bit_is_written_whole() -> None:
    supply = Supply(5, np.array([[[3.0, 3.0], [1.0, 1.0]]]))
    split = Split(supply, 5, np.array([[0.7, 0.9]]), None)
    right = split.slot_payouts()
    other = np.nextafter(right, 9.0)
    for changed in (booking(split, slot_payouts=other), booking(split, slot_payouts=other, payouts=other.sum(axis=0))):
        stored = records.plan_bytes(Plan([changed]))
        assert b"supplies" not in stored
        assert records.plan_from(stored).bookings[0].slot_payouts.tobytes() == other.tobytes()
    total = np.nextafter(right.sum(axis=0), 9.0)
    stored = records.plan_bytes(Plan([booking(split, payouts=total)]))
    assert b"supplies" in stored
    assert records.plan_from(stored).bookings[0].payouts.tobytes() == total.tobytes()


def test_units_whose_sums_depend_on_their_order_are_no_supply_of_an_answer() -> None:
    for units, exact in (([0.5, 3.0], True), ([0.1, 0.2], False), ([2.0**21, 1.0], False)):
        supply = Supply(5, np.array([[[unit, unit] for unit in units]]))
        plan = Plan([booking(Split(supply, 5, np.array([[0.7, 0.9]]), None))])
        assert (b"supplies" in records.plan_bytes(plan)) == exact


def test_who_earns_what_does_not_depend_on_how_payouts_lie_in_memory() -> None:
    """Sums of an array that lies the other way round differ in their last bit. These weights are such that it decides
    who gets the odd micro-credit."""
    rng = np.random.default_rng(7)
    differs = 0
    for _ in range(2_000):
        payouts = rng.random((9, 3)) * 1e-3
        turned = np.asfortranarray(payouts)
        differs += not np.array_equal(payouts.sum(axis=0), turned.sum(axis=0))
        one, other = (
            settlement._checked(Booking(1, 0, 9, (), 1.0, 1, 0, paid=float(payouts.sum()), slot_payouts=rows))
            for rows in (payouts, turned)
        )
        assert np.array_equal(one.sum(axis=0), other.sum(axis=0))
    assert differs > 100

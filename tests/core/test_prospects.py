"""Who can gain nothing by a piece is passed over: it changes no decision, and it spares most of the looks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from scheduling.core.policies.astraea.prospects import Prospects
from scheduling.core.policies.astraea.terms import AllTerms
from scheduling.core.scenario import Scenario
from scheduling.core.types import BoolArray, Value
from scheduling.core.value import Convex, Deadline, Linear, Sigmoid, ValuesOfMany
from tests.core.piece_markets import piece_market
from tests.core.piece_runs import differences, policy_run
from tests.core.reference_pieces import Run

SEEDS = range(100, 112)
MAY_GAIN = Prospects._may_gain


def everybody(_: Prospects, first: int, last: int, __: AllTerms) -> BoolArray:
    return np.ones(last - first, dtype=bool)


def nobody(_: Prospects, first: int, last: int, __: AllTerms) -> BoolArray:
    return np.zeros(last - first, dtype=bool)


def run_with(scenario: Scenario, may_gain: object, monkeypatch: pytest.MonkeyPatch) -> Run:
    with monkeypatch.context() as patch:
        patch.setattr(Prospects, "_may_gain", may_gain)
        return policy_run(scenario)


def unlike(may_gain: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    for seed in SEEDS:
        scenario = piece_market(seed)
        with_all = run_with(scenario, everybody, monkeypatch)
        yield differences(with_all, run_with(scenario, may_gain, monkeypatch))


def test_to_pass_over_who_cannot_gain_changes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[bool] = []

    def counted(prospects: Prospects, first: int, last: int, met: AllTerms) -> BoolArray:
        may_gain = MAY_GAIN(prospects, first, last, met)
        answers.extend(may_gain.tolist())
        return may_gain

    assert not [lines for lines in unlike(counted, monkeypatch) if lines]
    assert answers.count(False) > len(answers) / 2, "most looks are spared"


def test_to_pass_over_a_job_that_could_gain_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [lines for lines in unlike(nobody, monkeypatch) if lines]


def steep(elapsed: object) -> object:
    """A value that is of no kind the product knows."""
    return 100.0 / np.asarray(elapsed)


@pytest.mark.parametrize(
    "values",
    [
        [Linear(-1.0, 50.0), Linear(-2.0, 70.0)],
        [Linear(-1.0, 50.0), Sigmoid(9.0, 0.5, 12.0), Deadline(7.0, 11.0), Convex(30.0, 0.7), Linear(0.0, 3.0)],
        [steep, Linear(-1.0, 50.0), steep],
    ],
    ids=["one kind", "all kinds", "others"],
)
def test_many_values_are_those_of_each(values: list[Value]) -> None:
    which = np.array([len(values) - 1, *range(len(values)), 0])
    elapsed = np.arange(1.0, 1.0 + 4 * len(which)).reshape(len(which), 4)
    worth = ValuesOfMany(values)(which, elapsed)
    for row, number in enumerate(which.tolist()):
        assert worth[row] == pytest.approx(values[number](elapsed[row]), rel=1e-12)

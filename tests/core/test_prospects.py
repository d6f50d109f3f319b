"""Who can gain nothing by a piece is passed over: it changes no decision, and it spares most of the looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from scheduling.core.policies.astraea.renting.prospects import Look, Prospects
from scheduling.core.policies.astraea.schedules import terms
from scheduling.core.policies.astraea.schedules.terms import AllTerms
from scheduling.core.scenario import Scenario
from scheduling.core.types import Value
from scheduling.core.value import Convex, Deadline, Linear, Sigmoid, ValuesOfMany
from tests.core.piece_markets import piece_market
from tests.core.piece_runs import differences, policy_run
from tests.core.reference_pieces import Run

SEEDS = range(100, 112)
Looks = Callable[[Prospects, Callable[[], AllTerms]], Iterator[Look]]
THAT_MAY_GAIN = Prospects.that_may_gain


def everybody(prospects: Prospects, meet: Callable[[], AllTerms]) -> Iterator[Look]:
    """All jobs, with pieces of all lengths."""
    for index, (prospect, state) in enumerate(prospects._able):
        met, sorts = meet(), prospects._terms[prospects._firsts[index] : prospects._firsts[index + 1]]
        worker, ps = met.worker[sorts], met.ps[sorts]
        lengths = np.ones(worker.shape, dtype=bool)
        yield Look(prospect, state.home, lengths, met.easings > prospect.easings, worker, ps)


def nobody(_: Prospects, __: Callable[[], AllTerms]) -> Iterator[Look]:
    yield from ()


def run_with(scenario: Scenario, that_may_gain: Looks, monkeypatch: pytest.MonkeyPatch) -> Run:
    with monkeypatch.context() as patch:
        patch.setattr(Prospects, "that_may_gain", that_may_gain)
        return policy_run(scenario)


def unlike(that_may_gain: Looks, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    for seed in SEEDS:
        scenario = piece_market(seed)
        with_all = run_with(scenario, everybody, monkeypatch)
        yield differences(with_all, run_with(scenario, that_may_gain, monkeypatch))


def test_to_pass_over_who_cannot_gain_changes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, pieces, passed = [], [], []

    def counted(prospects: Prospects, meet: Callable[[], AllTerms]) -> Iterator[Look]:
        jobs.append(len(prospects._able))
        for look in THAT_MAY_GAIN(prospects, meet):
            pieces.append(look.lengths.size)
            passed.append(int(look.lengths.sum()))
            yield look

    assert not [lines for lines in unlike(counted, monkeypatch) if lines]
    assert len(passed) < sum(jobs) / 2, "most looks are spared"
    assert sum(passed) < sum(pieces) * 2 / 3, "and many lengths of those that are not"


@pytest.mark.wide
def test_to_pass_over_a_job_that_could_gain_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [lines for lines in unlike(nobody, monkeypatch) if lines]


@pytest.mark.wide
def test_to_pass_over_a_length_that_could_pay_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def shortest(prospects: Prospects, meet: Callable[[], AllTerms]) -> Iterator[Look]:
        for look in THAT_MAY_GAIN(prospects, meet):
            yield look._replace(lengths=look.lengths & (look.lengths.cumsum(axis=1) == 1))

    assert [lines for lines in unlike(shortest, monkeypatch) if lines]


@pytest.mark.wide
def test_windows_too_long_for_all_their_stretches_are_decided_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        scenario = piece_market(seed)
        before = policy_run(scenario)
        with monkeypatch.context() as patch:
            patch.setattr(terms, "LONG", 0)
            assert not differences(before, policy_run(scenario))


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

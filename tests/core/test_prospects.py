"""Who can gain nothing by a piece is passed over: it changes no decision, and it spares most of the looks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduling.core.policies.astraea.prospects import Prospect
from scheduling.core.scenario import Scenario
from tests.core.piece_markets import piece_market
from tests.core.piece_runs import differences, policy_run
from tests.core.reference_pieces import Run

SEEDS = range(100, 112)
MAY_GAIN = Prospect.may_gain


def run_with(scenario: Scenario, may_gain: object, monkeypatch: pytest.MonkeyPatch) -> Run:
    with monkeypatch.context() as patch:
        patch.setattr(Prospect, "may_gain", may_gain)
        return policy_run(scenario)


def unlike(may_gain: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    for seed in SEEDS:
        scenario = piece_market(seed)
        everybody = run_with(scenario, lambda *_, **__: True, monkeypatch)
        yield differences(everybody, run_with(scenario, may_gain, monkeypatch))


def test_to_pass_over_who_cannot_gain_changes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []

    def counted(*args: object, **fields: object) -> bool:
        answers.append(MAY_GAIN(*args, **fields))  # type: ignore[arg-type]
        return answers[-1]

    assert not [lines for lines in unlike(counted, monkeypatch) if lines]
    assert answers.count(False) > len(answers) / 2, "most looks are spared"


def test_to_pass_over_a_job_that_could_gain_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: object, **__: object) -> bool:
        return False

    assert [lines for lines in unlike(nobody, monkeypatch) if lines]

"""What rows of a program say of its epochs: complete ones count, and nothing that a stranger writes does any harm."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.estimates.live import LossReports, LossTarget, Running, outlooks
from scheduling.runs.heard import During, Epoch, epochs_of_ours, epochs_of_own, losses_after, speeds_of

AT_HOME = During(0.0, 100.0, workers=2, ps=0)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(["event", "at", "role", "rank", "numbers", "epoch", "loss", "seconds", "workers", "servers"])
STRANGE = st.fixed_dictionaries({"event": st.sampled_from(["epoch", "numbers", "other"])}) | st.dictionaries(
    FIELDS, ANYTHING, max_size=6
)


def row(epoch: float, loss: float | None = None, at: float = 0.0, rank: int = 0) -> dict[str, Any]:
    numbers = {"epoch": epoch} if loss is None else {"epoch": epoch, "loss": loss}
    return {"event": "numbers", "at": at, "role": "worker", "rank": rank, "numbers": numbers}


def test_our_trainer_says_each_epoch_in_a_row() -> None:
    rows = [
        {"event": "started", "workers": 2},
        {"event": "epoch", "epoch": 1, "loss": 0.7, "seconds": 2.0, "workers": 2, "servers": 1},
        {"event": "epoch", "epoch": 2, "loss": None, "seconds": 1.0, "workers": 4, "servers": 2},
    ]
    first, second = epochs_of_ours(rows)
    assert first == Epoch(1, 0.7, 2.0, 2, 1)
    assert math.isnan(second.loss)
    assert speeds_of([first, second], 40.0) == [(1, 2, 20.0), (2, 4, 40.0)]


def test_an_epoch_of_a_program_of_peoples_own_is_complete_when_another_has_begun_and_has_its_mean_loss() -> None:
    rows = [row(1, 0.8, 1.0), row(1, 0.6, 2.0), row(2, 0.5, 5.0), row(2, 9.0, 5.5, rank=1), row(3, 0.1, 9.0)]
    first, second = epochs_of_own(rows, AT_HOME)
    assert (first.number, first.loss) == (1, pytest.approx(0.7))
    assert math.isnan(first.seconds)  # nobody knows when it began
    assert second == Epoch(2, 0.5, 3.0, workers=2, ps=0)


def test_a_program_that_counts_from_zero_has_done_one_more_and_what_is_missing_stays_so() -> None:
    rows = [row(0, 0.9), row(1), row(4, 0.3), row(5, 0.2)]
    epochs = epochs_of_own(rows, AT_HOME)
    assert [epoch.number for epoch in epochs] == [1, 2, 5]
    assert losses_after([], epochs, 100) == [0.9, None, None, None, 0.3]
    assert losses_after([], epochs, 3) == [0.9, None]  # beyond the most epochs nothing is listened to


def test_where_an_epoch_was_trained_again_the_later_loss_counts() -> None:
    assert losses_after([0.9, None, 0.5], [Epoch(2, 0.7), Epoch(3, 0.6)], 10) == [0.9, 0.7, 0.6]
    assert losses_after([0.9, 0.8], [], 10) == [0.9, 0.8]


def test_an_epoch_over_a_change_of_size_says_nothing_of_speed() -> None:
    _, second = epochs_of_own([row(1, 0.8, 98.0), row(2, 0.7, 102.0), row(3, 0.6, 104.0)], AT_HOME)
    assert speeds_of([second], 40.0) == []


LOSS = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([5e-324, 1e30, -1e30, 1e-300, 1.7e308])


@pytest.mark.wide
@settings(max_examples=60, deadline=None)
@given(st.lists(LOSS, max_size=30))
def test_what_follows_from_any_losses_can_be_written_down(reports: list[float]) -> None:
    """The database knows no endless number, and one stranger's must not stop the engine of all."""
    rows = [row(epoch, loss) for epoch, loss in enumerate(reports, 1)]
    losses = losses_after([], epochs_of_own([*rows, row(len(reports) + 1)], AT_HOME), 100)
    history = tuple(math.nan if loss is None else loss for loss in losses)
    [outlook] = outlooks([Running(len(losses), LossTarget(0.01, 100), LossReports(history))])
    assert outlook is not None
    assert all(math.isfinite(each) for each in (outlook.epochs, outlook.low, outlook.high, outlook.scale))
    assert all(math.isfinite(each) for each in outlook.curve or ())


@settings(max_examples=100, deadline=None)
@given(st.lists(STRANGE, max_size=8))
def test_nothing_that_a_stranger_writes_breaks_it(rows: list[dict[str, Any]]) -> None:
    for epochs in (epochs_of_ours(rows), epochs_of_own(rows, AT_HOME)):
        losses = losses_after([], epochs, 50)
        assert len(losses) <= 50
        assert all(loss is None or math.isfinite(loss) for loss in losses)
        assert all(speed > 0 and math.isfinite(speed) for _, _, speed in speeds_of(epochs, 40.0))

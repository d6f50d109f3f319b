"""The loss curve: means of epochs that do not depend on order, repetition or what was taken back."""

import itertools

from scheduling.engines.trainer.curve import Curve
from scheduling.engines.trainer.settings import TrainerSettings

SETTINGS = TrainerSettings(model="logistic", chunks=2, minibatches=2, epochs=2, batch_size=1)
LOSSES = {(chunk, round_): 0.1 * (1 + chunk) / (1 + round_) for chunk in range(2) for round_ in range(4)}


def test_mean_of_an_epoch_does_not_depend_on_the_order_of_reports() -> None:
    means = set()
    for order in itertools.permutations([(chunk, round_) for chunk, round_ in LOSSES if round_ < 2]):
        curve = Curve(SETTINGS)
        for chunk, round_ in order:
            assert curve.close_epoch() is None
            curve.report(chunk, round_, LOSSES[chunk, round_])
        means.add(curve.close_epoch())
    assert len(means) == 1


def test_last_step_of_a_closed_epoch_may_be_taken_back_and_made_again() -> None:
    curve = Curve(SETTINGS)
    for (chunk, round_), loss in LOSSES.items():
        if round_ < 2:
            curve.report(chunk, round_, loss)
    first = curve.close_epoch()
    curve.rewind(1)
    assert curve.positions == [1, 1]
    for (chunk, round_), loss in LOSSES.items():
        if round_ >= 1:
            curve.report(chunk, round_, loss)
    assert curve.finished
    second = curve.close_epoch()
    assert curve.epochs == [first, second]
    assert curve.close_epoch() is None

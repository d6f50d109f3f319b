"""What a parameter server keeps: updates once, in one order; gates; steps taken back; parts given and taken."""

import itertools

import numpy as np
import pytest

from scheduling.engines.trainer.settings import TrainerSettings
from scheduling.engines.trainer.store import Store, merge, subtract, take

SETTINGS = TrainerSettings(model="logistic", chunks=3, minibatches=2, epochs=2, batch_size=1, learning_rate=0.3)
GRADIENTS = np.random.default_rng(2).standard_normal((3, 4)) * [[1e8], [1.0], [-1e8]]


def opened(mode: str = "sync") -> Store:
    store = Store(TrainerSettings(**{**vars(SETTINGS), "mode": mode}))
    store.load(((0, 2), (5, 7)), np.arange(4.0), 0)
    store.open(1)
    return store


def test_sum_has_the_same_bits_whoever_sends_first_and_what_comes_twice_counts_once() -> None:
    results = set()
    for order in itertools.permutations(range(3)):
        store = opened()
        for chunk in [order[0], *order]:
            assert store.push(0, chunk, 1, GRADIENTS[chunk])
        assert store.version == 1
        store.push(0, 1, 1, GRADIENTS[1])  # late
        results.add(store.pull(1, 1).values.tobytes())  # type: ignore[union-attr]
    assert results == {(np.arange(4.0) - 0.3 * ((GRADIENTS[0] + GRADIENTS[1] + GRADIENTS[2]) / 3)).tobytes()}


def test_step_is_taken_back_with_what_was_half_done() -> None:
    store = opened()
    for chunk in range(3):
        store.push(0, chunk, 1, GRADIENTS[chunk])
    store.push(1, 0, 1, GRADIENTS[0])
    store.shut()
    assert store.settle(0)
    assert (store.version, list(store.values), store.summed) == (0, [0, 1, 2, 3], 0)
    assert not store.settle(2)


def test_nothing_passes_a_gate_until_it_opens_for_those_who_know_the_new_plan() -> None:
    store = opened()
    assert store.shut_at(1)
    for chunk in range(3):
        assert store.push(0, chunk, 1, GRADIENTS[chunk])
    assert store.pull(1, 1).values is None
    assert not store.push(1, 0, 1, GRADIENTS[0])
    assert not store.shut_at(1)  # too late for this clock
    store.open(2)
    assert store.pull(1, 1).values is None
    assert store.pull(1, 2).values is not None


def test_asynchronous_gradients_are_applied_at_once_until_the_gate() -> None:
    store = opened("async")
    store.shut_at(1)
    assert store.push(0, 2, 1, np.ones(4))
    assert not store.push(0, 2, 1, np.ones(4))
    assert store.version == 1
    np.testing.assert_allclose(store.values, np.arange(4.0) - 0.3)


def test_parts_are_given_and_taken_without_changing_a_number() -> None:
    store = opened()
    parcel = store.cut(((1, 2), (5, 6)))
    assert list(parcel) == [1, 2]
    store.drop(((1, 2), (5, 6)))
    assert (store.ranges, list(store.values)) == (((0, 1), (6, 7)), [0, 3])
    store.adopt(((1, 2), (5, 6)), parcel, 0)
    assert (store.ranges, list(store.values)) == (((0, 2), (5, 7)), [0, 1, 2, 3])


def test_what_is_not_kept_cannot_be_given() -> None:
    with pytest.raises(StopIteration):
        take(((0, 2),), np.arange(2.0), ((1, 3),))
    assert subtract(((0, 9),), ((2, 3), (5, 9))) == ((0, 2), (3, 5))
    assert merge((((3, 5),), np.array([3.0, 4.0])), (((0, 3),), np.arange(3.0)))[0] == ((0, 5),)

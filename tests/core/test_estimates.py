"""Loss curves, convergence and speed functions: fits give back what the data were made from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares, nnls

from scheduling.core.estimates import convergence, curves, losses, nonnegative, speeds

COEFFICIENTS = st.tuples(st.floats(0.02, 0.6), st.floats(0.8, 2.0), st.floats(0.0, 0.4))


def curve(b0: float, b1: float, b2: float, epochs: int = 40) -> np.ndarray:
    return 1.0 / (b0 * np.arange(1, epochs + 1) + b1) + b2


def curves_of(b0: float, b1: float, b2: float) -> curves.Curves:
    one = np.ones(1)
    return curves.Curves(b0 * one, b1 * one, b2 * one, one, one > 0, one > 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(COEFFICIENTS, min_size=1, max_size=4))
def test_curves_without_noise_come_back(coefficients):
    fit = curves.fit(losses.cleaned(np.array([curve(*each) for each in coefficients])))
    expected = np.array(coefficients).T
    assert fit.converging.all()
    assert fit.b0 / fit.scale == pytest.approx(expected[0], rel=1e-5)
    assert fit.b1 / fit.scale == pytest.approx(expected[1], rel=1e-5)
    assert fit.b2 * fit.scale == pytest.approx(expected[2], abs=1e-6)
    assert fit.loss(np.full(len(coefficients), 7.0)) == pytest.approx([curve(*each)[6] for each in coefficients])


@pytest.mark.parametrize("seed", range(6))
def test_noisy_curves_are_fitted_as_well_as_bounded_least_squares_does(seed):
    dice = np.random.default_rng(seed)
    noisy_curve = curve(0.15, 1.1, 0.1, 50) * (1 + 0.02 * dice.standard_normal(50))
    points = losses.cleaned(noisy_curve[None])
    fit = curves.fit(points)
    target, epochs = points.losses[0], np.arange(1, 51)

    def gaps(x: np.ndarray) -> np.ndarray:
        return 1 / (x[0] * epochs + x[1]) + x[2] - target

    best = least_squares(gaps, (0.1, 1.0, 0.1), bounds=(0, np.inf))
    ours = gaps(np.array([fit.b0[0], fit.b1[0], fit.b2[0]]))
    assert (ours**2).sum() <= 2 * best.cost * 1.01


def test_jobs_do_not_change_each_others_fits():
    loss_rows = np.full((3, 30), np.nan)
    for row, length in enumerate((30, 4, 17)):
        loss_rows[row, :length] = curve(0.1 * (row + 1), 1.0, 0.05, length)
    together = curves.fit(losses.cleaned(loss_rows))
    for row, length in enumerate((30, 4, 17)):
        alone = curves.fit(losses.cleaned(loss_rows[row : row + 1, :length]))
        assert (together.b0[row], together.b1[row], together.b2[row]) == pytest.approx(
            (alone.b0[0], alone.b1[0], alone.b2[0]), rel=1e-6
        )


def test_an_outlier_becomes_the_average_of_its_neighbours():
    loss_row = np.array([[10.0, 9, 8, 99, 6, 5, 4, 3, np.inf, 1]])
    points = losses.cleaned(loss_row)
    assert (points.losses * points.scale).tolist() == [[10, 9, 8, 7, 6, 5, 4, 3, 2, 1]]
    assert points.scale.tolist() == [10.0]
    assert points.flagged.tolist() == [0.2]


def test_an_outlier_at_the_edge_has_one_neighbour():
    """The 30 is above all before it; and the 4 is below all behind it, which is the 30 alone."""
    points = losses.cleaned(np.array([[9.0, 8, 7, 6, 5, 4, 30]]))
    assert (points.losses * points.scale).tolist() == [[9, 8, 7, 6, 5, 5, 5]]


def plain_outliers(values: list[float]) -> list[bool]:
    flags = []
    for i, value in enumerate(values):
        before, after = values[max(0, i - 5) : i], values[i + 1 : i + 6]
        flags.append((bool(after) and value < min(after)) or (bool(before) and value > max(before)))
    return flags


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=25))
def test_outliers_are_those_of_the_rule_said_plainly(values):
    flags = plain_outliers(values)
    points = losses.cleaned(np.array([values]))
    assert points.flagged[0] == pytest.approx(sum(flags) / len(values))
    if not all(flags):
        inliers = [index for index, flag in enumerate(flags) if not flag]
        expected = []
        for index, value in enumerate(values):
            left, right = [k for k in inliers if k <= index][-1:], [k for k in inliers if k >= index][:1]
            near = [values[k] for k in left + right]
            expected.append(value if not flags[index] else sum(near) / len(near))
        assert points.losses[0] * points.scale[0] == pytest.approx(expected)


def test_a_rising_curve_stays_as_it_is_and_does_not_converge():
    points = losses.cleaned(np.arange(1.0, 13.0)[None])
    assert (points.losses * points.scale).tolist() == [list(range(1, 13))]
    assert not curves.fit(points).converging[0]


@pytest.mark.parametrize(
    "loss_row",
    [
        [],
        [1.0, 0.5],
        [np.nan] * 8,
        [np.inf] * 8,
        [0.0] * 12,
        [-1.0] * 12,
        [5.0] * 12,
        [1e300, 1e-300] * 6,
        [np.nan, 1.0, np.inf, 0.5, -np.inf, 0.25, 0.2],
    ],
)
def test_hopeless_losses_give_finite_answers(loss_row):
    fit = curves.fit(losses.cleaned(np.array([loss_row], dtype=np.float64).reshape(1, len(loss_row))))
    assert np.isfinite([fit.b0, fit.b1, fit.b2, fit.scale]).all()
    total = convergence.total_epochs(fit, 0.01)
    assert 1 <= total[0] <= convergence.MOST_EPOCHS + convergence.PATIENCE


@settings(max_examples=100, deadline=None)
@given(COEFFICIENTS, st.floats(1e-4, 0.05), st.integers(1, 5))
def test_convergence_is_where_a_walk_along_the_curve_finds_it(coefficients, delta, patience):
    quiet, epoch, value = 0, 0, curve(*coefficients, epochs=2000)
    before = 1.0 / coefficients[1] + coefficients[2]
    while quiet < patience:
        quiet = quiet + 1 if before - value[epoch] < delta else 0
        before, epoch = value[epoch], epoch + 1
    assert convergence.total_epochs(curves_of(*coefficients), delta, patience)[0] == epoch


def test_a_curve_that_does_not_fall_has_converged_after_patience():
    assert convergence.total_epochs(curves_of(0.0, 1.0, 0.0), 0.01, 3)[0] == 3


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_speed_functions_come_back_from_the_default_probes(mode):
    dice = np.random.default_rng(5)
    theta = dice.uniform(0.0, 5.0, (50, speeds.COEFFICIENTS[mode])) * (dice.random((50, 1)) < 0.8)
    theta[:, 0] += 0.5
    theta[::3, 2] = 0.0
    ps, workers = (np.tile(column, (50, 1)).astype(float) for column in zip(*speeds.probes(16, 16), strict=True))
    batch = dice.integers(1, 64, 50).astype(float)
    speed = speeds.steps_per_second(theta[:, None, :], ps, workers, mode, batch[:, None])
    assert speeds.fit(ps, workers, speed, mode, batch) == pytest.approx(theta, abs=1e-9)


def test_probes_with_as_many_servers_as_workers_cannot_tell_the_coefficients_apart():
    """Five such probes get the pair (1, 8) wrong; the default ones do not."""
    theta = np.array([[1.0, 0.5, 0.05, 0.4]])
    truth = speeds.steps_per_second(theta, 1, 8, "async")[0]
    for pairs, right in (([(n, n) for n in range(1, 6)], False), (speeds.probes(16, 16), True)):
        ps, workers = (np.array([column], dtype=float) for column in zip(*pairs, strict=True))
        speed = speeds.steps_per_second(theta[:, None, :], ps, workers, "async")
        estimate = speeds.steps_per_second(speeds.fit(ps, workers, speed, "async"), 1, 8, "async")[0]
        assert (abs(estimate / truth - 1) < 1e-6) == right


@pytest.mark.parametrize("caps", [(1, 1), (1, 16), (16, 1), (3, 5), (16, 16)])
def test_probes_stay_within_the_caps_and_are_all_different(caps):
    pairs = speeds.probes(*caps)
    assert len(set(pairs)) == len(pairs) >= 1
    assert all(1 <= ps <= caps[0] and 1 <= workers <= caps[1] for ps, workers in pairs)


def test_missing_points_do_not_count():
    ps, workers = (np.array([column], dtype=float) for column in zip(*speeds.PROBES, strict=True))
    speed = speeds.steps_per_second(np.array([[[1.0, 2.0, 0.1, 0.2]]]), ps, workers, "async")
    longer = [np.concatenate([part, np.full((1, 3), np.nan)], axis=1) for part in (ps, workers, speed)]
    assert speeds.fit(*longer, "async") == pytest.approx(speeds.fit(ps, workers, speed, "async"))


def test_what_was_measured_is_the_mean_of_its_last_five():
    means = speeds.measured([(1, 2, float(speed)) for speed in range(10)] + [(2, 2, 3.0)])
    assert means == {(1, 2): 7.0, (2, 2): 3.0}


@pytest.mark.parametrize("seed", range(20))
def test_nonnegative_least_squares_agree_with_scipy(seed):
    dice = np.random.default_rng(seed)
    rows, targets = dice.standard_normal((30, 7, 4)) + 0.3, dice.standard_normal((30, 7))
    solutions = nonnegative.solve(rows, targets)
    assert (solutions >= 0).all()
    for index in range(30):
        assert solutions[index] == pytest.approx(nnls(rows[index], targets[index])[0], abs=1e-8)


def test_many_systems_have_the_solutions_of_a_few_to_the_last_bit():
    """Sets of unknowns are tried together for a few systems, and one by one for many."""
    dice = np.random.default_rng(4)
    rows, targets = dice.random((nonnegative.FEW + 1, 8, 4)) * (1.0, 30.0, 0.01, 5.0), np.ones((nonnegative.FEW + 1, 8))
    many = nonnegative.solve(rows, targets)
    assert (many == 0).any()
    assert (many[:5] == nonnegative.solve(rows[:5], targets[:5])).all()

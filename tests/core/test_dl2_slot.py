"""DL2's slot: what the network sees, what it may say, and where units go."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from scheduling.core.placement import Cursors, Vacancies
from scheduling.core.policies.dl2 import networks
from scheduling.core.policies.dl2.choosing import DrawnAction, Inference, best, give_out, mending
from scheduling.core.policies.dl2.networks import FORBIDDEN
from scheduling.core.policies.dl2.room import PS, WORKER, SlotRoom
from scheduling.core.policies.dl2.shape import BOTH, PS_ONLY, WORKER_ONLY, NetworkShape
from scheduling.core.policies.dl2.slot import Batch, Slot, shares_of
from scheduling.core.types import Job, Samples, View
from tests.core.builders import make_cluster, make_job, make_unit_type, make_view
from tests.core.random_markets import random_market

SHAPE = NetworkShape(jobs=3, columns=3, types=("image", "speech"), hidden=16, max_workers=4, max_ps=2)
BARE = replace(SHAPE, first_bundle=False)


def opened(view: View, shape: NetworkShape = SHAPE, ran: int = 0) -> Batch:
    batch = Slot(view, shares_of(view, lambda job: ran)[0], shape).batches()[0]
    batch.open()
    return batch


def typed(number: int, model: str, **fields: object) -> Job:
    return replace(make_job(number, **fields), samples=Samples(model=model))


def view_of(seed: int) -> View:
    """A random market in which at least one job could run."""
    for attempt in range(seed, seed + 1000, 100):
        scenario = random_market(attempt, "paper", backlog=True)
        view = make_view(sorted(scenario.jobs, key=lambda job: job.arrival), cluster=scenario.cluster)
        if shares_of(view, lambda job: 0)[0]:
            return view
    raise AssertionError("no market where anything runs")


def test_a_row_has_type_age_work_left_share_workers_and_parameter_servers():
    jobs = [typed(0, "speech", chunks=4), typed(1, "never heard of", chunks=4)]
    view = make_view(jobs, cluster=make_cluster(((8,), (4,))))
    view = replace(view, remaining=np.array([jobs[0].work / 4, jobs[1].work]))
    batch = opened(view, ran=999)
    batch.apply(WORKER_ONLY)
    age = np.log1p(999) / np.log1p(1000)
    expected = [
        [0, 1, 0, age, 0.25, 0.25, 2 / 4, 1 / 2],  # 2 of 8 workers, 1 of 4 parameter servers
        [0, 0, 1, age, 1.0, 0.25, 1 / 4, 1 / 2],
        [0] * 8,
    ]
    np.testing.assert_allclose(batch.state.reshape(3, 8), expected, atol=1e-7)


@pytest.mark.parametrize("shape", [SHAPE, BARE])
@pytest.mark.parametrize("seed", range(25))
def test_state_and_mask_that_follow_every_unit_are_those_made_anew(seed, shape):
    dice = np.random.default_rng(seed)
    batch = opened(view_of(seed), shape)
    for _ in range(12):
        action = int(dice.choice(np.flatnonzero(batch.allowed)))
        if action == shape.void:
            continue
        batch.apply(action)
        again = Batch(batch.slot, batch.shares)
        again.open()
        apart = [3 * row + BOTH for row in batch.apart]
        again.allowed[apart] = False
        assert (batch.state == again.state).all()
        assert (batch.allowed == again.allowed).all()
        assert (np.where(batch.allowed, 0.0, np.float32(FORBIDDEN)) == batch.shut).all()
        assert batch.open_rows == sum(batch.allowed[:-1].reshape(-1, 3).any(axis=1))


def test_mask_has_caps_empty_rows_and_what_fits_nowhere():
    """By hand: the first job has all its workers, the second all its parameter servers, the third row is empty."""
    jobs = [make_job(0, chunks=1), make_job(1, chunks=4, max_ps=1)]
    batch = opened(make_view(jobs, cluster=make_cluster(((9,), (9,)))))
    assert batch.allowed.tolist() == [False, True, False, True, False, False, False, False, False, True]
    full = opened(make_view([make_job(0, chunks=4), make_job(1, chunks=4)], cluster=make_cluster(((2,), (9,)))))
    assert np.flatnonzero(full.allowed).tolist() == [PS_ONLY, 3 + PS_ONLY, SHAPE.void]


def test_one_of_each_that_fits_only_alone_is_forbidden_when_it_is_tried():
    worker, server = make_unit_type((2,)), make_unit_type((2,))
    job = make_job(0, worker_types=[worker], ps_types=[server], chunks=4)
    view = make_view([job], cluster=make_cluster(((7,),), resources=("cpu",)))
    batch = opened(view)
    before = batch.state.copy()
    assert batch.allowed[BOTH]
    assert batch.apply(BOTH) is None
    assert not batch.allowed[BOTH]
    assert (batch.state == before).all()
    assert batch.apply(WORKER_ONLY) == 0


def test_first_bundles_go_by_arrival_and_who_got_none_gets_nothing():
    jobs = [make_job(number, chunks=3, min_workers=2) for number in range(3)]
    view = make_view(jobs, cluster=make_cluster(((5,), (5,))))
    batch = opened(view)
    assert [(len(share.workers), len(share.ps)) for share in batch.shares] == [(2, 1), (2, 1), (0, 0)]
    assert not batch.allowed[6:9].any()
    assert opened(view, BARE).allowed[6:9].all()


def test_jobs_beyond_j_are_served_in_batches_of_what_is_left():
    jobs = [make_job(number, chunks=4) for number in range(5)]
    view = make_view(jobs, cluster=make_cluster(((12,), (9,))))
    first, second = Slot(view, shares_of(view, lambda job: 0)[0], SHAPE).batches()
    assert [len(batch.shares) for batch in (first, second)] == [3, 2]
    first.open()
    for _ in range(3):
        first.apply(WORKER_ONLY), first.apply(3), first.apply(6)
    second.open()
    assert not second.allowed[WORKER_ONLY]
    assert second.allowed[PS_ONLY]


@pytest.mark.parametrize("seed", range(30))
def test_units_are_dealt_as_in_the_placement_of_all_policies(seed):
    dice = np.random.default_rng(seed)
    view = view_of(seed)
    units = [(WORKER, unit) for job in view.waiting for unit in job.worker_types]
    units += [(PS, unit) for job in view.waiting for unit in job.ps_types]
    room, vacancies = SlotRoom(view, units), Vacancies(view.cluster, view.occupied)
    cursors = [Cursors().workers, Cursors().ps]
    hosts = [vacancies.hosts_workers, vacancies.hosts_ps]
    held: list[tuple[int, object, list[int]]] = []
    for _ in range(40):
        role, unit = units[dice.integers(len(units))]
        kind, count = room.kind(role, unit), int(dice.integers(1, 3))
        if held and dice.random() < 0.2:
            kind, unit, servers = held.pop()
            room.give_back(kind, servers)
            vacancies.give_back(unit, servers)
            continue
        expected = vacancies.deal(unit, count, cursors[role], hosts[role])
        assert room.deal(kind, count) == expected
        if expected is not None:
            cursors[role] = (expected[-1] + 1) % len(vacancies.free)
            held.append((kind, unit, expected))
        for (role, unit), has in zip(room.units, map(room.has, range(len(room.units))), strict=True):
            assert has == (Vacancies.deal(deepcopy(vacancies), unit, 1, 0, hosts[role]) is not None)
        np.testing.assert_allclose(room.vacancies.free, vacancies.free)


@pytest.mark.parametrize("seed", range(10))
def test_first_layer_kept_up_to_date_answers_as_one_made_anew(seed):
    weights = networks.start(np.random.default_rng(seed), SHAPE.inputs, SHAPE.actions, SHAPE.hidden, np.float64)
    weights = {**weights, "b3": np.append(np.zeros(SHAPE.actions - 1), -9.0)}  # give out whatever there is
    answers = []

    def compared(logits, batch):
        outputs = networks.forward(weights, batch.state.astype(np.float64)[None]).outputs[0]
        np.testing.assert_allclose(logits[batch.allowed], outputs[batch.allowed], rtol=0, atol=1e-9)
        answers.append(outputs)
        return best(logits, batch)

    give_out(weights, opened(view_of(seed)), compared)
    assert len(answers) < 2 or (answers[0] != answers[-1]).any()


def test_nothing_but_void_is_no_sample():
    noted: list[Inference] = []
    weights = networks.start(np.random.default_rng(1), SHAPE.inputs, SHAPE.actions, SHAPE.hidden, np.float32)
    batch = opened(make_view([make_job(0, chunks=1, max_ps=1)], cluster=make_cluster(((9,), (9,)))))
    assert give_out(weights, batch, best, noted.append) == 0
    assert noted == []


def test_poor_states_are_mended_in_their_order_and_the_earliest_job_first():
    """By hand: (w >= 2, u = 0) before (u >= 2, w = 0) before more than ten times as many."""
    shape = replace(BARE, max_workers=30, max_ps=30)
    jobs = [make_job(number, chunks=30) for number in range(3)]
    batch = opened(make_view(jobs, cluster=make_cluster(((90,), (90,)))), shape)
    assert mending(batch) is None
    batch.apply(BOTH)
    for _ in range(10):
        batch.apply(WORKER_ONLY)
    assert mending(batch) == PS_ONLY
    batch.apply(3 + PS_ONLY), batch.apply(3 + PS_ONLY)
    assert mending(batch) == 3 + WORKER_ONLY
    batch.apply(6 + WORKER_ONLY), batch.apply(6 + WORKER_ONLY)
    assert mending(batch) == 6 + PS_ONLY
    batch.allowed[6 + PS_ONLY] = False
    assert mending(batch) == 3 + WORKER_ONLY


def test_actions_are_drawn_with_the_networks_probabilities_unless_a_poor_state_is_mended():
    batch = opened(make_view([make_job(0, chunks=4)], cluster=make_cluster(((9,), (9,)))), BARE)
    logits = np.log(np.array([0.2, 0.3, 0.1] + [1e-30] * 6 + [0.4]))
    draw = DrawnAction(np.random.default_rng(1), explore=0.4)
    shares = np.bincount([draw(logits, batch)[0] for _ in range(4000)], minlength=10) / 4000
    np.testing.assert_allclose(shares[[0, 1, 2, 9]], [0.2, 0.3, 0.1, 0.4], atol=0.03)
    batch.apply(WORKER_ONLY), batch.apply(WORKER_ONLY)
    picks = [draw(logits, batch) for _ in range(4000)]
    assert np.mean([action == PS_ONLY for action, _ in picks]) == pytest.approx(0.4 + 0.6 * 0.3, abs=0.03)
    assert {round(chance, 6) for action, chance in picks if action == PS_ONLY} == {0.3}

"""Synthetic markets: the papers' ranges, from a seed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from scheduling.core.scenario import BadScenario, read
from scheduling.core.workload import synthetic
from scheduling.core.workload.presets import PRESETS

RANGES = {
    "astraea": {
        "epochs": (50, 100),
        "chunks": (20, 50),
        "minibatches": (10, 50),
        "minibatch_seconds": (3.6, 180),
        "update_seconds": (0.01, 0.1),
        "gradient_mb": (30, 575),
        "worker_mbps": (100, 5 * 1024),
        "ps_mbps": (5 * 1024, 20 * 1024),
    },
    "oasis": {
        "epochs": (50, 200),
        "chunks": (5, 100),
        "minibatches": (10, 100),
        "minibatch_seconds": (3.6, 360),
        "gradient_mb": (30, 575),
        "worker_mbps": (100, 5000),
        "ps_mbps": (5000, 20000),
    },
    "pdors": {
        "epochs": (50, 200),
        "batch_size": (1, 200),
        "gradient_mb": (30, 575),
        "sample_seconds": (0.036, 0.36),
        "ps_ratio": (1, 10),
    },
    "dl2": {
        "epochs": (30, 150),
        "gradient_mb": (6, 553),
        "minibatch_seconds": (0.05, 0.6),
    },
}
VALUES = {
    "linear": {"slope": (-2.0, -0.1), "base": (100, 1000)},
    "convex": {"scale": (100, 1000), "power": (1, 2)},
    "sigmoid": {"priority": (1, 100), "decay": (0, 6), "target": (1, 15)},
}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_number_is_in_the_range_of_the_paper_and_most_of_it_is_used(preset):
    jobs = synthetic(seed=1, preset=preset, jobs=400, longest=10**6)["jobs"]
    for name, (least, most) in RANGES[preset].items():
        values = [job[name] for job in jobs]
        assert least <= min(values) <= least + (most - least) / 8
        assert most - (most - least) / 8 <= max(values) <= most


@pytest.mark.parametrize("kind", VALUES)
def test_every_value_function_is_in_the_range_of_the_paper(kind):
    values = [job["value"] for job in synthetic(seed=1, jobs=300, value=kind)["jobs"]]
    assert {value["kind"] for value in values} == {kind}
    for name, (least, most) in VALUES[kind].items():
        assert all(least <= value[name] <= most for value in values)


def test_one_sigmoid_in_ten_does_not_care_for_time():
    decays = np.array([job["value"]["decay"] for job in synthetic(seed=1, jobs=2000, value="sigmoid")["jobs"]])
    assert np.mean(decays == 0) == pytest.approx(0.10, abs=0.02)
    assert np.mean((decays > 0) & (decays <= 1)) == pytest.approx(0.55, abs=0.03)
    assert np.mean(decays >= 4) == pytest.approx(0.35, abs=0.03)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("cells", [True, False])
def test_is_a_scenario_that_can_be_read(preset, cells):
    scenario = read(json.dumps(synthetic(seed=3, preset=preset, servers=20, tenants=5, jobs=20, cells=cells)))
    assert (len(scenario.jobs), len(scenario.cluster.servers), len(scenario.cluster.tenants)) == (20, 20, 5)
    assert (scenario.cluster.cells is not None) == cells


def test_the_seed_decides_everything():
    assert synthetic(seed=5) == synthetic(seed=5)
    assert synthetic(seed=5)["jobs"] != synthetic(seed=6)["jobs"]


def test_can_be_drawn_again_from_what_it_says_of_itself():
    document = synthetic(seed=7, preset="oasis", jobs=9, tenants=3, servers=6, operator_share=0.5, value="linear")
    generator = document["generator"]
    assert generator["name"] == "synthetic"
    assert synthetic(**generator["args"], seed=generator["seed"]) == document


def test_tenants_own_uneven_numbers_of_whole_servers():
    cluster = read(synthetic(seed=2)).cluster
    owners = (cluster.cells > 0).any(axis=0).sum(axis=0)
    assert (owners == 1).all()
    assert np.allclose(cluster.cells.sum(axis=1), cluster.capacity)
    assert cluster.quota[0].max() >= 1.5 * cluster.quota[0].min()


def test_apart_owning_and_asking_are_as_uneven_as_chance_has_it():
    """Each tenant owns a server at least. The largest part of eight cuts is, on average, 2.7 times an even one."""
    owned, demand = [], []
    for seed in range(20):
        scenario = read(synthetic(seed=seed, tenants=8, servers=24, jobs=200, apart=True))
        held = (scenario.cluster.cells > 0).any(axis=0)  # (tenants, servers)
        assert (held.sum(axis=0) == 1).all()
        assert held.sum(axis=1).min() >= 1
        owned.append(held.sum(axis=1).max() / 3)
        demand.append(np.bincount([job.tenant for job in scenario.jobs], minlength=8).max() / 25)
    assert 1.8 < np.mean(owned) < 3.2
    assert 2.2 < np.mean(demand) < 3.2


def test_shorter_jobs_have_fewer_epochs_and_all_else_is_as_it_was():
    whole, short = (synthetic(seed=3, jobs=40, **fields) for fields in ({}, {"shorter": 10}))
    for one, other in zip(whole["jobs"], short["jobs"], strict=True):
        assert other["epochs"] == max(1, round(one["epochs"] / 10))
        assert other == {**one, "epochs": other["epochs"]}


def test_uneven_worlds_can_be_drawn_again_and_others_say_nothing_of_them():
    document = synthetic(seed=7, jobs=9, shorter=4, apart=True)
    generator = document["generator"]
    assert synthetic(**generator["args"], seed=generator["seed"]) == document
    assert not synthetic(seed=7, jobs=9)["generator"]["args"].keys() & {"shorter", "apart"}


def test_few_servers_are_divided_unit_by_unit():
    cluster = read(synthetic(seed=2, tenants=6, servers=2, jobs=3)).cluster
    assert np.allclose(cluster.cells.sum(axis=1), cluster.capacity)
    assert ((cluster.cells[0] > 0).sum(axis=0) > 1).any()


def test_a_part_of_the_servers_can_be_the_operators():
    cluster = read(synthetic(seed=2, servers=40, operator_share=0.25)).cluster
    assert (cluster.operator_cells > 0).any(axis=0).sum() == 10
    assert read(synthetic(seed=2, servers=4, operator_share=1.0)).cluster.quota.sum() == 0


def test_the_load_is_the_work_that_arrives_over_what_the_workers_can_do():
    scenario = read(synthetic(seed=4, tenants=8, servers=24, jobs=500, load=0.6))
    work = 0.0
    for job in scenario.jobs:
        [worker], [ps] = job.worker_types, job.ps_types
        seconds = worker.seconds + ps.seconds + 16 * job.gradient_mb / worker.mbps
        work += job.work * seconds / 3600
    span = max(job.arrival for job in scenario.jobs)
    assert work / (span * scenario.cluster.total[0]) == pytest.approx(0.6, rel=0.02)
    assert scenario.slots > span


def test_arrivals_are_sorted_and_within_the_span():
    arrivals = [job["arrival"] for job in synthetic(seed=1, span=10)["jobs"]]
    assert arrivals == sorted(arrivals)
    assert 0 <= arrivals[0] < 1
    assert 9 < arrivals[-1] <= 10


def test_bursts_put_two_thirds_of_the_arrivals_into_every_second_slot():
    arrivals = np.array([job["arrival"] for job in synthetic(seed=1, preset="pdors", jobs=2000, span=20)["jobs"]])
    assert np.mean(np.floor(arrivals) % 2 == 1) == pytest.approx(2 / 3, abs=0.03)


def shortest_oasis(job: dict[str, Any]) -> float:
    """ceil(E M (tau + 2 e / b)), in slots of an hour."""
    seconds = job["minibatch_seconds"] + 16 * job["gradient_mb"] / job["worker_mbps"]
    return np.ceil(job["epochs"] * job["minibatches"] * seconds / 3600)


def test_no_job_is_longer_than_the_limit():
    assert max(shortest_oasis(job) for job in synthetic(seed=1, preset="oasis", jobs=50)["jobs"]) <= 30
    longer = synthetic(seed=1, preset="oasis", jobs=50, longest=200)["jobs"]
    assert 30 < max(shortest_oasis(job) for job in longer) <= 200


def test_samples_and_minibatches_of_pdors_are_the_same_work():
    """A mini-batch is batch_size / ps_ratio samples, and takes one worker as long as they do."""
    for job in synthetic(seed=1, preset="pdors", jobs=50)["jobs"]:
        each = job["batch_size"] / job["ps_ratio"]
        assert job["chunks"] == job["batch_size"]
        assert job["chunks"] * job["minibatches"] * each == pytest.approx(job["samples"], rel=1e-6)
        assert job["minibatch_seconds"] == pytest.approx(each * job["sample_seconds"], rel=1e-5)
        assert job["ps_mbps"] == pytest.approx(job["ps_ratio"] * job["worker_mbps"], rel=1e-6)


def test_oasis_machines_host_one_kind_of_unit():
    servers = synthetic(seed=1, preset="oasis", servers=10)["servers"]
    assert [server["hosts"] for server in servers] == [["worker"], ["ps"]] * 5
    assert all("gpu" not in server["capacity"] for server in servers[1::2])


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"preset": "gavel"}, "preset"),
        ({"value": "deadline"}, "value"),
        ({"tenants": 0}, "tenants"),
        ({"servers": 0}, "servers"),
        ({"jobs": -1}, "jobs"),
        ({"jobs": 10**9}, "jobs"),
        ({"seed": -1}, "seed"),
        ({"operator_share": 1.5}, "operator_share"),
        ({"slot_seconds": 0}, "slot_seconds"),
        ({"load": 0.0}, "load"),
        ({"load": float("nan")}, "load"),
        ({"span": float("inf")}, "span"),
        ({"span": 3, "load": 1.0}, "load"),
        ({"preset": "oasis", "load": 1.0}, "load"),
        ({"longest": 0}, "longest"),
        ({"shorter": 0}, "shorter"),
        ({"tenants": 3, "servers": 2, "apart": True}, "apart"),
    ],
)
def test_refuses_senseless_arguments_by_name(arguments, place):
    with pytest.raises(BadScenario) as refusal:
        synthetic(**{"seed": 1} | arguments)
    assert refusal.value.place == place

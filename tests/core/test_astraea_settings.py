"""Astraea's settings: presets, fields set on their own, defaults from the jobs, and refusals that name the place."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from scheduling.core import policies
from scheduling.core.scenario import BadScenario
from scheduling.core.types import Cluster, Job
from scheduling.core.value import Linear
from tests.core.builders import make_cluster, make_job

WITH_CELLS = make_cluster(((4,), (2,)), cells=(((4,),), ((2,),)))


def settings(cluster: Cluster = WITH_CELLS, jobs: tuple[Job, ...] = (), **fields: Any) -> dict[str, Any]:
    return asdict(policies.build({"name": "astraea", **fields}, cluster, jobs))


def test_paper_is_the_default_and_has_the_paper_s_reading() -> None:
    assert settings() == {
        **{"mode": "paper", "theta": {"worker": 2.0, "ps": 2.0}, "rounds": 1, "clock": "geometric", "intervals": None},
        **{"workers": "range", "server_choice": "lowest_index", "own_price": "shadow", "floor": False},
        **{"price_floor": {"worker": 0.0, "ps": 0.0}, "price_counts": "cluster", "payment": "gross"},
        **{"value_from": "round_start", "upgrade": False, "trailing": None},
        **{"price": "posted", "dividend": 0.0, "unit_value": {}, "parts": "prorated"},
    }


def test_guarantee_has_the_market_s_reading() -> None:
    fields = settings(mode="guarantee")
    assert {
        name: fields[name] for name in ("own_price", "floor", "price_counts", "payment", "value_from", "upgrade")
    } == {
        **{"own_price": "zero", "floor": True, "price_counts": "pool", "payment": "net"},
        **{"value_from": "arrival", "upgrade": True},
    }
    assert fields["clock"] == {"first": 1, "cap": 32, "restart": True}


@pytest.mark.parametrize("mode", ["paper", "guarantee"])
def test_fields_as_used_are_plain_json_and_build_the_same_policy(mode: str) -> None:
    fields = settings(mode=mode, price_floor={"ps": 0.25}, jobs=(make_job(),))
    assert settings(**json.loads(json.dumps(fields))) == fields


def test_any_field_may_differ_from_its_preset() -> None:
    assert settings(mode="guarantee", payment="gross")["payment"] == "gross"
    assert settings(mode="paper", price_floor=0.5)["price_floor"] == {"worker": 0.5, "ps": 0.5}
    assert settings(clock={"first": 64})["clock"] == {"first": 64, "cap": 64, "restart": True}


def test_theta_follows_from_the_value_of_a_unit_slot_in_the_shortest_schedule() -> None:
    # 4 workers, 2 slots: value 100 - 2 = 98; 98 / 8 a worker-slot, 98 / 2 a parameter-server-slot.
    job = make_job(epochs=2, chunks=4, value=Linear(-1, 100))
    fields = settings(jobs=(job,), mode="guarantee")
    assert fields["theta"] == pytest.approx({"worker": 1 + 0.8 * 98 / 8, "ps": 1 + 0.8 * 49})
    assert fields["price_floor"] == pytest.approx({"worker": 0.01 * 98 / 8, "ps": 0.49})


def test_theta_is_the_nine_tenths_quantile_of_the_positive_values() -> None:
    worthless = make_job(9, value=Linear(-1, 0))
    jobs = (worthless, *(make_job(k, value=Linear(0, 10.0 * k)) for k in range(1, 5)))  # 10, 20, 30, 40 in one slot
    assert settings(jobs=jobs)["theta"]["worker"] == pytest.approx(1 + 0.8 * 37)


def test_theta_is_never_below_two() -> None:
    assert settings(jobs=(make_job(value=Linear(0, 0.1)),))["theta"] == {"worker": 2.0, "ps": 2.0}


def test_a_theta_for_some_resources_leaves_the_others_to_the_jobs() -> None:
    jobs = (make_job(value=Linear(0, 100)),)
    assert settings(jobs=jobs, theta={"ps": 3})["theta"] == pytest.approx({"worker": 81.0, "ps": 3.0})


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"theta": {"worker": 1.5}}, "policy.theta.worker: must be 2 or more"),
        ({"theta": {"gpu": 2}}, "policy.theta.gpu: "),
        ({"theta": 16}, "policy.theta: must be an object"),
        ({"tau": 3}, "policy.tau: unknown field"),
        ({"mode": "fair"}, "policy.mode: must be one of paper, guarantee"),
        ({"rounds": 0}, "policy.rounds: "),
        ({"rounds": 2, "clock": {"first": 4, "cap": 4}}, "policy.rounds: must be 1 where"),
        ({"clock": "hourly"}, "policy.clock: "),
        ({"clock": {"first": 8, "cap": 4}}, "policy.clock.cap: "),
        ({"clock": {"first": 0}}, "policy.clock.first: "),
        ({"clock": {"restart": 1}}, "policy.clock.restart: must be true or false"),
        ({"clock": {"last": 1}}, "policy.clock.last: unknown field"),
        ({"intervals": -1}, "policy.intervals: "),
        ({"workers": 3}, "policy.workers: "),
        ({"price_floor": -1}, "policy.price_floor: "),
        ({"price_floor": {"ps": float("nan")}}, "policy.price_floor.ps: "),
        ({"floor": "yes"}, "policy.floor: must be true or false"),
    ],
)
def test_refuses_a_field_naming_its_place(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(BadScenario) as refused:
        settings(**fields)
    assert str(refused.value).startswith(place)


def test_refuses_the_guarantee_without_home_cells() -> None:
    with pytest.raises(BadScenario, match=r"policy\.floor: the guarantee needs home cells"):
        settings(make_cluster(), mode="guarantee")

"""Astraea against the shared cases: the paper's worked example in both readings, and the guarantee's small markets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduling.core import policies
from scheduling.core.scenario import Scenario, read
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import OWN, Booking
from tests.cases import cases

PAPER, GUARANTEE = cases("astraea"), cases("guarantee")


def run(scenario: Scenario) -> Outcome:
    return simulate(scenario, {"batch": policies.build(scenario.policy, scenario.cluster, scenario.jobs)})


def paper_scenario(case: dict[str, Any]) -> Scenario:
    cluster, reading = case["cluster"], case["reading"]
    return read(
        {
            "format": "scenario/1",
            "slot_seconds": 3600,
            "slots": 64,
            "servers": [
                {"name": f"s{i + 1}", "capacity": {"worker": workers, "ps": ps}}
                for i, (workers, ps) in enumerate(zip(cluster["C_w"], cluster["C_p"], strict=True))
            ],
            "tenants": [
                {"name": f"u{i + 1}", "quota": {"worker": workers, "ps": ps}}
                for i, (workers, ps) in enumerate(zip(cluster["q_w"], cluster["q_p"], strict=True))
            ],
            "jobs": [paper_job(row, cluster) for row in case["jobs"]],
            "policy": {
                "name": "astraea",
                "theta": {"worker": cluster["theta_w"], "ps": cluster["theta_p"]},
                "rounds": case["lam"],
                "intervals": case["batches"],
                "workers": {"exact": "exact", "upto": "range"}[reading["dw"]],
                "server_choice": {"spread": "least_used", "index": "lowest_index"}[reading["tie_server"]],
                "own_price": reading["price1"],
            },
        }
    )


def paper_job(row: dict[str, Any], cluster: dict[str, Any]) -> dict[str, Any]:
    """Rates of one slot as seconds and sizes: what a distributed run is slower by is the exchange of gradients."""
    exchange = 3600 / row["n_distributed"] - 3600 / row["n_central"]
    return {
        "name": row["id"],
        "tenant": f"u{row['user']}",
        "arrival": row["r"],
        "epochs": row["E"],
        "chunks": row["D"],
        "minibatches": row["M"],
        "minibatch_seconds": 3600 / row["n_central"],
        "update_seconds": 0,
        "gradient_mb": exchange * cluster["b_w"] / 16,
        "worker_mbps": cluster["b_w"],
        "ps_mbps": cluster["b_p"],
        "worker_demand": {"worker": 1},
        "ps_demand": {"ps": 1},
        "value": {"kind": "linear", "slope": row["k"], "base": row["g"]},
    }


def admitted_row(scenario: Scenario, booking: Booking) -> dict[str, Any]:
    """A booking in the words of the cases."""
    servers = scenario.cluster.servers
    cost = booking.cost + booking.shadow_cost if booking.phase == OWN else booking.cost
    payouts = np.zeros(len(scenario.cluster.owners)) if booking.payouts is None else booking.payouts
    return {
        "id": scenario.jobs[booking.job].name,
        "phase": 1 if booking.phase == OWN else 2,
        "placement": booking.placement,
        "workers": booking.workers,
        "ps": booking.ps,
        "start": booking.start,
        "end": booking.end,
        "y": {servers[row.server]: row.workers for row in booking.allocation if row.workers},
        "z": {servers[row.server]: row.ps for row in booking.allocation if row.ps},
        "ideal": booking.ideal,
        "cost": cost,
        "mu": booking.value - cost,
        "paid": booking.paid,
        "payout": payouts[:-1].tolist(),
    }


def gains(outcome: Outcome, scenario: Scenario) -> list[float]:
    """Each tenant's realised gain (R23): the value of its jobs, less what it pays, plus what it is paid."""
    sums = np.zeros(len(scenario.cluster.owners))
    for track in outcome.tracks:
        for booking in track.bookings:
            sums[track.job.tenant] += float(track.job.value(booking.end - track.job.arrival)) - booking.paid
            sums += 0.0 if booking.payouts is None else booking.payouts
    return sums[:-1].tolist()


@pytest.mark.parametrize("case", PAPER, ids=lambda case: case["name"])
def test_decides_the_paper_example_as_computed_by_hand(case: dict[str, Any]) -> None:
    scenario = paper_scenario(case)
    outcome = run(scenario)
    figures = {
        scenario.jobs[booking.job].name: admitted_row(scenario, booking)
        for track in outcome.tracks
        for booking in track.bookings
    }
    expected = {row["id"]: row for row in case["expect"]["admitted"]}
    assert figures.keys() == expected.keys()
    for name, row in expected.items():
        wanted = {key: value for key, value in row.items() if key != "round"}
        assert {key: figures[name][key] for key in wanted} == {
            key: pytest.approx(value, abs=1e-9) if isinstance(value, float | list) else value
            for key, value in wanted.items()
        }
    assert gains(outcome, scenario) == pytest.approx(case["expect"]["gain"], abs=1e-9)


@pytest.mark.parametrize("case", GUARANTEE, ids=lambda case: case["name"])
def test_decides_the_guarantee_markets_as_computed_by_hand(case: dict[str, Any]) -> None:
    scenario = read(case["scenario"])
    outcome = run(scenario)
    owners = scenario.cluster.owners
    for track, wanted in zip(outcome.tracks, case["expect"]["jobs"], strict=True):
        (booking,) = track.bookings
        payouts = {} if booking.payouts is None else dict(zip(owners, booking.payouts.tolist(), strict=True))
        figures = {
            "name": track.job.name,
            "state": track.state,
            "phase": booking.phase,
            "placement": booking.placement,
            "start": booking.start,
            "end": booking.end,
            "workers": booking.workers,
            "ps": booking.ps,
            "value": pytest.approx(booking.value, abs=1e-9),
            "paid": pytest.approx(booking.paid, abs=1e-9),
            "payouts": pytest.approx({name: amount for name, amount in payouts.items() if amount}, abs=1e-9),
            "floor": pytest.approx(booking.floor, abs=1e-9),
        }
        assert wanted == figures
    named = dict(zip(owners, gains(outcome, scenario), strict=False))
    assert named == pytest.approx(case["expect"]["gains"], abs=1e-9)

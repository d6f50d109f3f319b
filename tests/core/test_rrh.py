"""Risk-reward: who earns most for its units, less what it delays, runs first; who delays more does not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.policies.rrh import Rrh
from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.simulation import simulate
from scheduling.core.types import AWARDED, REJECTED, Job, Plan
from scheduling.core.value import Linear
from tests.core.builders import make_cluster, make_job, make_ps, make_scenario, make_view

POLICY = Rrh(workers=2)
ROOM_FOR_ONE = make_cluster(((2,), (1,)))


def job(number: int, *, slots: int, base: float, slope: float = -1.0, arrival: float = 0.0) -> Job:
    """Two workers and one parameter server for so many slots."""
    fields: dict[str, Any] = {"epochs": slots, "chunks": 2, "ps_types": [make_ps(mbps=2)]}
    return make_job(number, arrival=arrival, value=Linear(slope, base), **fields)


def running(plan: Plan) -> set[int]:
    return {booking.job for booking in plan.bookings}


# --- the rules once more, one formula at a time; all gangs alike, on servers that each hold one gang -----------------


def expected(jobs: list[Job], places: int, slots: int) -> dict[int, list[int]]:
    """Job -> the slots in which it runs, for jobs of two workers that arrive at whole slots."""
    rest: dict[int, int] = {}
    ran: dict[int, list[int]] = {one.number: [] for one in jobs}
    now_running: list[int] = []
    by_number = {one.number: one for one in jobs}
    queue: list[int] = []

    def worth(n: int, end: int) -> float:
        return float(by_number[n].value(end - by_number[n].arrival))

    def delay_cost(n: int, all_of_them: list[int], slot: int) -> float:
        if len(all_of_them) <= places:
            return 0.0
        return sum(
            max(0.0, worth(j, slot + rest[j]) - worth(j, slot + rest[n] + rest[j])) for j in all_of_them if j != n
        )

    for slot in range(slots):
        for one in jobs:
            if one.arrival != slot:
                continue
            rest[one.number] = one.epochs
            ends = sorted(rest[n] for n in now_running)
            waits = 0 if len(now_running) < places else ends[len(now_running) - places]
            others = [n for n in rest if n != one.number]
            cost = delay_cost(one.number, [*others, one.number], slot)
            if worth(one.number, slot + waits + rest[one.number]) - cost <= 0:
                del rest[one.number]
        if list(rest) != queue:
            queue = list(rest)
            reward = {
                n: (0.5 * worth(n, slot + rest[n]) - 0.5 * delay_cost(n, queue, slot)) / (rest[n] * 3) for n in queue
            }
            now_running = sorted(queue, key=lambda n: (-reward[n], by_number[n].arrival, n))[:places]
        for n in list(now_running):
            ran[n].append(slot)
            rest[n] -= 1
            if not rest[n]:
                del rest[n]
                now_running.remove(n)
    return ran


def slots_of(scenario: Scenario) -> dict[int, list[int]]:
    tracks = simulate(scenario, {"batch": POLICY}).tracks
    return {track.job.number: [booking.start for booking in track.bookings] for track in tracks}


@pytest.mark.parametrize("seed", range(25))
def test_runs_whom_the_formulas_say_in_every_slot(seed: int) -> None:
    dice = np.random.default_rng([12, seed])
    places = int(dice.integers(1, 4))
    jobs = [
        job(
            number,
            slots=int(dice.integers(1, 6)),
            base=float(dice.uniform(5, 200)),
            slope=-float(dice.uniform(0, 6)),
            arrival=float(arrival),
        )
        for number, arrival in enumerate(sorted(dice.integers(0, 10, size=8).tolist()))
    ]
    cluster = make_cluster(((2,) * places, (1,) * places))
    slots = slots_of(make_scenario(jobs, cluster=cluster))
    assert slots == expected(jobs, places, 64)
    assert sum(map(len, slots.values())) > 8


def test_random_markets_like_these_pause_and_refuse_somebody() -> None:
    """Without either the comparison would not touch the rules that matter."""
    paused = refused = 0
    for seed in range(25):
        dice = np.random.default_rng([12, seed])
        places = int(dice.integers(1, 4))
        jobs = [
            job(n, slots=int(dice.integers(1, 6)), base=float(dice.uniform(5, 200)), slope=-float(dice.uniform(0, 6)),
                arrival=float(arrival))
            for n, arrival in enumerate(sorted(dice.integers(0, 10, size=8).tolist()))
        ]  # fmt: skip
        for slots in expected(jobs, places, 64).values():
            refused += not slots
            paused += any(later > earlier + 1 for earlier, later in itertools.pairwise(slots))
    assert min(paused, refused) >= 5


# --- one at a time --------------------------------------------------------------------------------------------------


def test_a_job_that_earns_more_for_its_units_goes_first_and_pauses_the_other() -> None:
    patient, urgent = job(0, slots=6, base=100), job(1, slots=2, base=300, slope=-40, arrival=1)
    tracks = simulate(make_scenario([patient, urgent], cluster=ROOM_FOR_ONE), {"batch": POLICY}).tracks
    assert [booking.start for booking in tracks[0].bookings] == [0, 3, 4, 5, 6, 7]
    assert [booking.start for booking in tracks[1].bookings] == [1, 2]


def test_a_job_that_would_delay_others_by_more_than_it_earns_is_refused() -> None:
    dear, poor = job(0, slots=4, base=400, slope=-30), job(1, slots=4, base=60, arrival=1)
    tracks = simulate(make_scenario([dear, poor], cluster=ROOM_FOR_ONE), {"batch": POLICY}).tracks
    assert [track.state for track in tracks] == [AWARDED, REJECTED]
    assert tracks[1].reason is not None
    assert tracks[1].reason.code == "not_worth_it"
    assert tracks[1].reason.numbers["delay_cost"] == 120.0  # four slots later at 30 a slot


def test_where_all_fit_nobody_delays_anybody() -> None:
    jobs = [job(0, slots=4, base=400, slope=-30), job(1, slots=4, base=60)]
    plan = POLICY.decide(make_view(jobs, cluster=make_cluster(((4,), (2,)))))
    assert running(plan) == {0, 1}


def test_who_runs_on_stays_on_its_servers() -> None:
    cluster = make_cluster(((2, 2, 2), (1, 1, 1)))
    jobs = [job(0, slots=1, base=100), job(1, slots=5, base=90), job(2, slots=5, base=80, arrival=1)]
    tracks = simulate(make_scenario(jobs, cluster=cluster), {"batch": POLICY}).tracks
    places = {tuple(row.server for row in booking.allocation) for booking in tracks[1].bookings}
    assert len(places) == 1


def test_numbers_of_workers_are_drawn_once_with_the_seed() -> None:
    jobs = [make_job(n, epochs=5, chunks=30, ps_types=[make_ps(mbps=30)]) for n in range(6)]
    cluster = make_cluster(((200,), (20,)))
    one, same, other = (
        [booking.workers for booking in Rrh(seed=seed).decide(make_view(jobs, cluster=cluster)).bookings]
        for seed in (1, 1, 2)
    )
    assert one == same != other


@pytest.mark.parametrize(
    ("fields", "place"),
    [({"alpha": 2}, "policy.alpha"), ({"delta": -1}, "policy.delta"), ({"workers": [3, 1]}, "policy.workers")],
)
def test_wrong_settings_are_refused(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(BadScenario) as refused:
        build({"name": "rrh"} | fields, ROOM_FOR_ONE, ())
    assert refused.value.place == place

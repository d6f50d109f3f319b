"""A pool's own jobs as a scenario file: simulated with the pool's policies it decides as the market did."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduling.core.policies import build
from scheduling.core.scenario import Scenario, read
from scheduling.core.simulation import Track, simulate
from scheduling.jobs.cancellation import job_cancel
from scheduling.models import Award, Pool, Server, TenantPolicy, TrainingJob
from scheduling.runs.failures import server_lose
from tenants.access import Refused, access_of_system
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser
from tests.management.files import output_of, refused
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.elastic_world import make_elastic, make_elastic_job, run
from tests.scheduling.live import fund, make_live_pool, member, submitted
from tests.scheduling.markets import MICRO, at, make_market, make_renting, make_waiting, run_slots

pytestmark = pytest.mark.django_db

NOON = "2026-03-02T12:00"


def exported(folder: Path, pool: Pool, start: str = NOON, end: str = "2026-03-02T12:05", *more: object) -> Scenario:
    output_of("pool_scenario", "--pool", pool.slug, "--from", start, "--to", end, "--output", folder / "S.json", *more)
    return read((folder / "S.json").read_text())


def simulated(scenario: Scenario) -> dict[str, Track]:
    """What became of each job, by name, where the file's own policies decide."""
    lanes = {"batch": scenario.policy} | ({"instant": scenario.instant} if scenario.instant else {})
    policies = {lane: build(fields, scenario.cluster, scenario.jobs) for lane, fields in lanes.items()}
    return {track.job.name: track for track in simulate(scenario, policies).tracks}


def awards_of(job: TrainingJob) -> list[Award]:
    with scope_disabled("the test looks at what a job got"):
        return list(Award.objects.filter(job=job).order_by("start"))


def terms(award: Award) -> tuple[Any, ...]:
    return award.start, award.end, award.workers, award.ps, award.phase, award.placement


def same_as_live(scenario: Scenario, jobs: list[TrainingJob]) -> int:
    """Compares every award with the booking of the simulation; how many there were."""
    tracks, counted = simulated(scenario), 0
    for job in jobs:
        bookings, awards = tracks[f"job {job.pk}"].bookings, awards_of(job)
        assert [terms(award) for award in awards] == [
            (each.start, each.end, each.workers, each.ps, each.phase or "", each.placement or "") for each in bookings
        ]
        for award, booking in zip(awards, bookings, strict=True):
            assert abs(award.paid - booking.paid * MICRO) <= len(award.charges) + 1
        counted += len(awards)
    return counted


def test_batch_lane_decides_the_same_from_the_file(tmp_path: Path) -> None:
    pool, owner, renter = make_renting()
    with scope(renter):
        TenantPolicy.objects.create(pool=pool, tenant=renter, rent="budget", budget=500 * MICRO)
    jobs = [
        make_waiting(pool, who, arrival, epochs=epochs)
        for who, arrival, epochs in ((owner, 0.2, 1), (renter, 0.3, 2), (renter, 0.5, 1), (owner, 2.4, 3))
    ]
    run_slots(pool, 0, 20)
    scenario = exported(tmp_path, pool)
    assert {tenant.name for tenant in scenario.cluster.tenants} == {"owner", "renter"}
    assert same_as_live(scenario, jobs) == len(jobs)
    assert sum(award.paid for job in jobs for award in awards_of(job)) > 0


def test_instant_lane_decides_the_same_from_the_file(tmp_path: Path) -> None:
    pool, castor = make_live_pool(), make_tenant("castor")
    make_server(pool, worker=8, ps=2)  # the operator's
    fund(castor)
    jobs = [submitted(pool, castor, slot=slot + 0.5, epochs=1 + slot).job for slot in range(4)]
    scenario = exported(tmp_path, pool)
    assert scenario.instant == pool.instant_policy
    assert same_as_live(scenario, jobs) == len(jobs)
    assert all(award.paid for job in jobs for award in awards_of(job))


def test_elastic_pool_decides_the_same_from_the_file(tmp_path: Path) -> None:
    pool, owner, renter = make_elastic({"name": "optimus", "restart": 0})
    jobs = [make_elastic_job(pool, renter, slots=6, chunks=8, max_workers=8)]
    jobs += [make_elastic_job(pool, who, slots=2) for who in (owner, renter)]
    run(pool, 0, 12)
    scenario = exported(tmp_path, pool)
    assert scenario.policy["name"] == "elastic"
    assert scenario.policy["prices"]["worker"] > 0
    assert same_as_live(scenario, jobs) > len(jobs)


def test_slots_are_counted_from_the_beginning_of_the_period(tmp_path: Path) -> None:
    pool, (lumen,) = make_market("lumen")
    before, first, last, after = (make_waiting(pool, lumen, arrival) for arrival in (5.9, 6.25, 11.75, 12.0))
    scenario = exported(tmp_path, pool, "2026-03-02T12:01:03", "2026-03-02T14:02:00+02:00", "--drain", 4)
    assert [(job.name, job.arrival, job.number) for job in scenario.jobs] == [
        (f"job {first.pk}", 0.25, 0),
        (f"job {last.pk}", 5.75, 1),
    ]
    assert scenario.slots == 6 + 4
    assert scenario.generator is not None
    assert scenario.generator["args"] == {"pool": "main", "first": 6, "last": 12}
    assert not {f"job {before.pk}", f"job {after.pk}"} & {job.name for job in scenario.jobs}


def test_what_nobody_could_use_is_left_out(tmp_path: Path) -> None:
    pool, (lumen, castor) = make_market("lumen", "castor")
    away = make_server(pool, "s90", worker=4, ps=2)
    make_cells(away, castor, {"worker": 4})
    wanted, taken_back = make_waiting(pool, lumen), make_waiting(pool, lumen)
    make_waiting(make_pool("other"), lumen)
    assert not isinstance(job_cancel(job_id=taken_back.pk, by=member(lumen), at=at(pool, 0)), Refused)
    server_lose(server=away, by=access_of_system("the test"), reason="gone", at=at(pool, 0))
    Server.objects.filter(name="s02").update(state="draining")
    scenario = exported(tmp_path, pool)
    assert [job.name for job in scenario.jobs] == [f"job {wanted.pk}"]
    assert scenario.cluster.servers == ("s01",)
    assert scenario.cluster.quota.tolist() == [[4, 0], [2, 0]]


def test_what_is_still_to_come_is_no_part_of_the_period(tmp_path: Path) -> None:
    pool = make_pool(epoch_at=timezone.now() - timedelta(hours=1), slot_seconds=3600)
    lumen = make_tenant("lumen")
    make_cells(make_server(pool), lumen, {"worker": 4, "ps": 1})
    make_waiting(pool, lumen)
    for options in ((), ("--to", "2999-01-01")):
        output_of("pool_scenario", "--pool", "main", "--from", "2026-01-01", "--output", tmp_path / "S.json", *options)
        assert read((tmp_path / "S.json").read_text()).slots == 4  # one has passed, one runs, and as many to end in


def test_names_that_tenants_give_stay_at_home(tmp_path: Path) -> None:
    pool, (lumen,) = make_market("lumen")
    with scope(lumen), as_superuser():
        TrainingJob.objects.filter(pk=make_waiting(pool, lumen).pk).update(name="secret-model")
    exported(tmp_path, pool)
    assert "secret-model" not in (tmp_path / "S.json").read_text()


def test_a_job_accepted_under_a_budget_that_is_gone_can_be_read(tmp_path: Path) -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen, rent="budget")
    (tenant,) = exported(tmp_path, pool).cluster.tenants
    assert (tenant.rent, tenant.budget) == ("auto", 0.0)


def test_thousands_of_jobs_take_no_more_queries_than_one(tmp_path: Path) -> None:
    pool, (lumen,) = make_market("lumen")
    counts = []
    for jobs in (1, 30):
        for _ in range(jobs):
            make_waiting(pool, lumen)
        with CaptureQueriesContext(connection) as captured:
            exported(tmp_path, pool)
        counts.append(len(captured))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"--pool": "mein"}, "--pool: mein is no pool; there are: main"),
        ({"--from": "yesterday"}, "--from: 'yesterday' is no time like 2026-11-02T08:00"),
        ({"--to": NOON}, "--to: must be later than --from"),
        ({"--from": "2026-03-03", "--to": "2026-03-04"}, "--from: nobody submitted a job to main between these times"),
        ({"--from": "2999-01-01", "--to": "2999-01-02"}, "--from: is still to come"),
        ({"--from": "2026-01-01", "--to": "2026-02-01"}, "--to: main had not opened by then"),
        ({"--drain": "-1"}, "--drain: must be 0 or more"),
    ],
)
def test_says_what_is_wrong_and_writes_nothing(tmp_path: Path, changes: dict[str, str], sentence: str) -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen)
    options = {"--pool": "main", "--from": NOON, "--to": "2026-03-03", "--output": str(tmp_path / "S.json")} | changes
    assert refused("pool_scenario", *[word for pair in options.items() for word in pair]) == sentence
    assert not (tmp_path / "S.json").exists()


def test_says_how_large_it_is_and_what_it_leaves_open(tmp_path: Path) -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen, 1.0)
    path = tmp_path / "S.json"
    text = output_of("pool_scenario", "--pool", "main", "--from", NOON, "--to", "2026-03-02T12:01", "--output", path)
    assert text.splitlines() == [
        f"{path}: 1 job of 1 tenant, the last at slot 1 of 12; 1 server with 4 worker, 2 ps",
        "  note: machines, owners' instructions and policies are those of now, not of then",
        "  note: jobs that their owners took back, and those that waited for others and never came in, are left out",
        "  note: each job comes once, when it was submitted, however often it was begun",
    ]

"""Scenarios from logs of real clusters; the rows here are made up in the form of the real tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import BadScenario, read
from scheduling.core.simulation import simulate
from scheduling.core.workload import alibaba, helios, philly

DAY = 86_400
PHILLY_JOBS = """job_id,tenant,submit_s,gpus,duration_s,status
p1,aaa,1727999,1,60,unknown
p2,aaa,1728000,1,1800,unknown
p3,bbb,1731600,8,7200,unknown
p4,ccc,1735200,1,60,unknown
p5,bbb,1735200,3,1,unknown
p6,aaa,1814400,1,60,unknown
"""
PHILLY_TENANTS = """tenant,quota_gpus,jobs,gpu_hours,peak_nowait_gpus
aaa,16,2,1,1
bbb,8,2,1,1
ccc,,1,1,1
"""
HELIOS = """hour,tenant,quota_gpus,running_gpus,pending_gpus,idle_gpus,running_jobs,pending_jobs
0,v1,16,3.4,0,12.6,1,0
0,v2,8,8,5,0,1,1
1,v1,16,13,0,3,2,0
1,v2,8,2,0,6,1,0
2,v1,16,0,0,16,0,0
2,v2,8,7.6,0,0.4,2,0
25,v1,16,4,0,12,1,0
"""
ALIBABA_JOBS = """job_id,tenant,submit_s,gpus,duration_s,status,gpu_milli,queue_s
a1,LS,0,1,100,running,1000,0
a2,BE,7200,1,1800,running,460,0
a3,LS,9000,4,3600,running,1000,0
"""
ALIBABA_MACHINES = """machine,gpus,gpu_model,cpu_cores,memory_gib
n1,2,P100,64,256
n2,0,,96,256
n3,8,V100,64,256
n4,4,T4,64,256
"""


def from_philly(jobs: str = PHILLY_JOBS, tenants: str = PHILLY_TENANTS, **arguments: Any) -> dict[str, Any]:
    return philly(StringIO(jobs), StringIO(tenants), **{"days": 1, "drain_days": 1} | arguments)


def from_helios(hours: str = HELIOS, **arguments: Any) -> dict[str, Any]:
    return helios(StringIO(hours), **{"days": 2} | arguments)


def from_alibaba(jobs: str = ALIBABA_JOBS, machines: str = ALIBABA_MACHINES, **arguments: Any) -> dict[str, Any]:
    return alibaba(StringIO(jobs), StringIO(machines), **{"from_day": 0, "days": 1, "tenants": 2} | arguments)


IMPORTERS: list[Callable[..., dict[str, Any]]] = [from_philly, from_helios, from_alibaba]
each_importer = pytest.mark.parametrize("importer", IMPORTERS)


@each_importer
def test_is_a_scenario_that_can_be_read(importer):
    document = importer()
    scenario = read(json.dumps(document))
    assert [job.name for job in scenario.jobs] == [job["name"] for job in document["jobs"]]
    assert scenario.cluster.cells is not None


@each_importer
def test_the_same_arguments_make_the_same_document(importer):
    assert importer(seed=3) == importer(seed=3)
    assert importer(seed=3)["jobs"] != importer(seed=4)["jobs"]


@each_importer
def test_says_what_it_was_made_with(importer):
    generator = importer(seed=3, scale_quota=0.5)["generator"]
    assert generator["name"] == importer.__name__.removeprefix("from_")
    assert (generator["seed"], generator["args"]["scale_quota"]) == (3, 0.5)
    assert isinstance(generator["notes"], list)


@each_importer
def test_runs_under_the_guarantee(importer):
    scenario = read(importer())
    policy = build(scenario.policy, scenario.cluster, scenario.jobs)
    states = Counter(track.state for track in simulate(scenario, {"batch": policy}).tracks)
    assert states["awarded"] > 0


@each_importer
@pytest.mark.parametrize("policy", ["fifo", "gandiva_fair"])
def test_jobs_run_with_the_gpus_that_the_log_asked_for(importer, policy):
    scenario = read(importer())
    policy = build({"name": policy}, scenario.cluster, scenario.jobs)
    ran = [track for track in simulate(scenario, {"batch": policy}).tracks if track.bookings]
    assert ran
    assert all({booking.workers for booking in track.bookings} == {track.job.chunks} for track in ran)


def test_philly_takes_the_days_asked_for_and_drops_tenants_without_a_quota():
    document = from_philly()
    assert [(job["name"], job["arrival"]) for job in document["jobs"]] == [("p2", 0), ("p3", 1), ("p5", 2)]
    assert document["slots"] == 48
    assert document["generator"]["notes"] == ["dropped 1 jobs of tenants without a quota: ccc 1"]


def test_a_run_with_all_the_gpus_asked_for_takes_as_long_as_it_did():
    scenario = read(from_philly(slot_seconds=60))
    for job, seconds in zip(scenario.jobs, (1800, 7200, 1), strict=True):
        [worker], [ps] = job.worker_types, job.ps_types
        assert job.work * (worker.seconds + ps.seconds) / job.max_workers == seconds
    assert [job.max_workers for job in scenario.jobs] == [1, 8, 3]


def test_values_are_in_proportion_to_gpu_hours_and_fall_to_nothing():
    for job, hours in zip(read(from_philly()).jobs, (1, 8 * 2, 3), strict=True):
        slots = {1: 1, 16: 2, 3: 1}[hours]
        assert 0.1 * hours <= job.value(slots) <= 1.0 * hours
        assert job.value(slots + 49) > 0  # hours after which a job may be worthless: 50 to 10,000
        assert job.value(slots + 10_001) < 0


def test_quotas_are_cells_on_servers_of_eight_gpus():
    cluster = read(from_philly()).cluster
    assert cluster.capacity.tolist() == [[8, 8, 8], [8, 8, 8]]
    assert cluster.cells[0].tolist() == [[8, 8, 0], [0, 0, 8]]
    small = read(from_philly(scale_quota=0.3, ps_per_gpu=0.25)).cluster
    assert small.quota[0].tolist() == [5, 2]
    assert small.capacity.tolist() == [[8], [2]]
    assert small.cells[:, :, 0].tolist() == [[5, 2], [1, 1]]


def test_helios_jobs_ask_for_the_demand_of_every_hour():
    demand = np.zeros((2, 48))
    for job in from_helios()["jobs"]:
        begin, hours = job["arrival"], job["minibatches"] // 3600
        demand[("v1", "v2").index(job["tenant"]), int(begin) : int(begin) + hours] += job["chunks"]
    expected = np.zeros((2, 48))
    expected[0, [0, 1, 25]] = (3, 13, 4)
    expected[1, [0, 1, 2]] = (13, 2, 8)
    assert demand.tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_helios_jobs_reproduce_any_demand(seed):
    wanted = np.random.default_rng(seed).integers(0, 40, 48)
    rows = "".join(f"{hour},v1,16,{gpus},0\n" for hour, gpus in enumerate(wanted))
    document = from_helios("hour,tenant,quota_gpus,running_gpus,pending_gpus\n" + rows, seed=seed)
    demand = np.zeros(48, int)
    for job in document["jobs"]:
        assert job["chunks"] in (1, 2, 4, 8)
        demand[int(job["arrival"]) : int(job["arrival"]) + job["minibatches"] // 3600] += job["chunks"]
    assert demand.tolist() == wanted.tolist()


def test_alibaba_pods_take_parts_of_gpus_on_machines_as_they_are():
    document = from_alibaba()
    assert [server["capacity"]["worker"] for server in document["servers"]] == [2, 8, 4]
    assert [(job["chunks"], job["worker_demand"]["worker"]) for job in document["jobs"]] == [(1, 1), (1, 0.46), (4, 1)]


def test_alibaba_tenants_are_drawn_or_the_classes_of_service():
    document = from_alibaba(tenants=3)
    assert [tenant["name"] for tenant in document["tenants"]] == ["t1", "t2", "t3"]
    classes = from_alibaba(tenants=0)
    assert [tenant["name"] for tenant in classes["tenants"]] == ["BE", "LS"]
    assert [job["tenant"] for job in classes["jobs"]] == ["LS", "BE", "LS"]


def test_alibaba_keeps_a_part_of_the_machines():
    assert [s["capacity"]["worker"] for s in from_alibaba(scale_quota=0.67)["servers"]] == [2, 4]


FLAWS = {
    "no such column": (from_philly, {"jobs": "job_id,tenant\n"}, "philly jobs, row 1", "has no column submit_s"),
    "no rows at all": (from_philly, {"jobs": ""}, "philly jobs, row 1", "has no column job_id"),
    "a field too few": (
        from_philly,
        {"jobs": PHILLY_JOBS + "p7,aaa,1728000\n"},
        "philly jobs, row 8",
        "has 3 fields, not 6",
    ),
    "gpus not whole": (
        from_philly,
        {"jobs": PHILLY_JOBS.replace(",8,7200", ",8.5,7200")},
        "philly jobs, row 4, gpus",
        "must be an integer from 1 to 1,000,000, not '8.5'",
    ),
    "gpus none": (
        from_philly,
        {"jobs": PHILLY_JOBS.replace(",8,7200", ",0,7200")},
        "philly jobs, row 4, gpus",
        "must be an integer from 1 to 1,000,000, not '0'",
    ),
    "time not a number": (
        from_philly,
        {"jobs": PHILLY_JOBS.replace("1731600", "noon")},
        "philly jobs, row 4, submit_s",
        "must be a number, not 'noon'",
    ),
    "time not finite": (
        from_philly,
        {"jobs": PHILLY_JOBS.replace("7200", "inf")},
        "philly jobs, row 4, duration_s",
        "must be from 0 to 1e+12, not 'inf'",
    ),
    "time negative": (
        from_philly,
        {"jobs": PHILLY_JOBS.replace("7200", "-1")},
        "philly jobs, row 4, duration_s",
        "must be from 0 to 1e+12, not '-1'",
    ),
    "tenant empty": (
        from_philly,
        {"jobs": PHILLY_JOBS.replace("p3,bbb", "p3,")},
        "philly jobs, row 4, tenant",
        "is empty",
    ),
    "tenant twice": (
        from_philly,
        {"tenants": PHILLY_TENANTS + "aaa,8,1,1,1\n"},
        "philly tenants, row 5, tenant",
        "aaa stands twice",
    ),
    "no quota": (from_philly, {"tenants": "tenant,quota_gpus\naaa,\n"}, "tenants", "no tenant has a quota"),
    "broken quotes": (
        from_philly,
        {"jobs": PHILLY_JOBS + 'p7,"aaa\x00,1728000,1,1,u\n'},
        "philly jobs, row 8",
        "has 2 fields, not 6",
    ),
    "hour twice": (
        from_helios,
        {"hours": HELIOS + "25,v1,16,4,0,12,1,0\n"},
        "helios hours, row 9, hour",
        "hour 25 of v1 stands twice",
    ),
    "no such hours": (
        from_helios,
        {"from_day": 9},
        "helios hours",
        "no hour of the period is in the table",
    ),
    "quota none": (
        from_helios,
        {"hours": HELIOS.replace(",v2,8,", ",v2,0,")},
        "helios hours",
        "tenant v2 never has a quota",
    ),
    "more than a gpu": (
        from_alibaba,
        {"jobs": ALIBABA_JOBS.replace("460", "1460")},
        "alibaba jobs, row 3, gpu_milli",
        "must be an integer from 1 to 1,000, not '1460'",
    ),
    "no machine": (
        from_alibaba,
        {"machines": "machine,gpus\nn1,0\n"},
        "alibaba machines",
        "no machine has a GPU",
    ),
    "no pod": (
        from_alibaba,
        {"from_day": 9, "tenants": 0},
        "alibaba jobs",
        "no job was submitted in the period",
    ),
    "days none": (from_philly, {"days": 0}, "days", "must be from 1 to 10,000, not 0"),
    "scale none": (from_philly, {"scale_quota": 0.0}, "scale_quota", "must be above 0 and at most 1e+09, not 0"),
    "seed negative": (from_helios, {"seed": -1}, "seed", "must be from 0 to 9,223,372,036,854,775,808, not -1"),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_names_the_place_of_a_flaw(flaw):
    importer, arguments, place, message = FLAWS[flaw]
    with pytest.raises(BadScenario) as refusal:
        importer(**arguments)
    assert (refusal.value.place, refusal.value.message) == (place, message)

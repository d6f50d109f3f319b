"""Ways that are found for many jobs at once are those that are found one by one, array by array, to the bit."""

from __future__ import annotations

import random
from dataclasses import fields

import numpy as np
import pytest

from scheduling.core.policies.astraea.ways import candidates as one_by_one
from scheduling.core.policies.astraea.ways import many
from scheduling.core.policies.astraea.ways.candidates import Candidates, candidates, is_known
from scheduling.core.types import Cluster, Job
from tests.core.builders import make_cluster, make_job, make_ps, make_unit_type, make_worker


def draw_jobs(chance: random.Random, number: int) -> list[Job]:
    """Half of them share their types, as most jobs of a queue do; some are unlike the others."""
    workers, servers = make_worker(seconds=700.0, mbps=100.0), make_ps(seconds=3.0, mbps=400.0)
    jobs = []
    for index in range(number):
        chunks = chance.randint(1, 24)
        least = chance.randint(1, chunks)
        others = chance.random() < 0.5
        worker = make_worker(seconds=chance.uniform(1, 4000), mbps=chance.choice((1.0, 33.0, 1000.0)))
        ps = make_ps(seconds=chance.choice((0.0, 10.0)), mbps=chance.choice((7.0, 500.0)))
        several = [worker, make_unit_type((2, 0))] if chance.random() < 0.1 else [worker]
        jobs.append(
            make_job(
                index,
                epochs=chance.randint(1, 90),
                chunks=chunks,
                minibatches=chance.randint(1, 40),
                worker_types=several if others else [workers],
                ps_types=[ps] if others else [servers],
                gradient_mb=chance.choice((0.0, 30.0, 200.0)),
                max_workers=chance.randint(least, chunks),
                min_workers=chance.choice((1, least)),
                max_ps=chance.choice((None, None, 1, 2)),
            )
        )
    return jobs


def draw_cluster(chance: random.Random) -> Cluster:
    servers = chance.randint(1, 4)
    capacity = [[chance.randint(0, 9) for _ in range(servers)], [chance.randint(0, 3) for _ in range(servers)]]
    return make_cluster(capacity, hosts_ps=[chance.random() < 0.8 for _ in range(servers)])


def assert_same(ways: Candidates, expected: Candidates) -> None:
    for field in fields(Candidates):
        ours, theirs = getattr(ways, field.name), getattr(expected, field.name)
        if field.name == "pairs":
            assert [pair.key for pair in ours] == [pair.key for pair in theirs]
            assert all(np.array_equal(a.needs, b.needs) for a, b in zip(ours, theirs, strict=True))
        elif field.name == "kinds":
            assert [(kind.pair.key, kind.central) for kind in ours] == [(k.pair.key, k.central) for k in theirs]
            for mine, other in zip(ours, theirs, strict=True):
                for column in ("candidates", "workers", "duration", "level", "least_ps"):
                    assert_array(getattr(mine, column), getattr(other, column))
        elif isinstance(theirs, np.ndarray):
            assert_array(ours, theirs)
        else:
            assert ours == theirs, field.name


def assert_array(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.dtype == theirs.dtype
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_ways_of_many_are_those_of_each(seed: int, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "GROUP", 60)  # several groups
    chance = random.Random(seed)
    cluster, jobs = draw_cluster(chance), draw_jobs(chance, 40)
    many.candidates_prepare(jobs, cluster, exact=exact)
    eligible_jobs = [job for job in jobs if is_known(job, cluster, exact=exact)]
    assert len(eligible_jobs) > 20
    for job in eligible_jobs:
        expected = one_by_one._find_candidates(job, cluster, exact, job.work)
        assert_same(candidates(job, cluster, exact=exact), expected)


def test_a_job_without_a_gang_that_its_parameter_servers_allow_has_no_ways() -> None:
    cluster = make_cluster(((0, 9), (9, 0)), hosts_ps=[True, True])
    job = make_job(chunks=8, min_workers=8, worker_types=[make_worker(mbps=9.0)], max_ps=1)
    many.candidates_prepare([job], cluster, exact=False)
    assert_same(candidates(job, cluster, exact=False), one_by_one._find_candidates(job, cluster, False, job.work))
    assert not is_known(make_job(1), cluster, exact=False)

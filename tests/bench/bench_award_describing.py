"""The time from registering a program to the first award of a job that runs it, in the demonstration, on the real
clock.

The demonstration is loaded as `make run` does it, without those who submit to it. Each lane of its pools has a program
of its own, brought by a tenant, and a job that names it. The clock ticks every second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from django.core.management import call_command
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.catalogue.registration import Registered, program_register
from scheduling.demo.content import LUMEN
from scheduling.demo.demo import DemoLoaded, database_is_empty, demo_load, demo_wipe
from scheduling.jobs.submission import Submitted, job_submit
from scheduling.models import Award, Pool
from tenants.models import Tenant, User
from tenants.scoping import scope
from tenants.selectors import access_of

NEEDS_DATABASE = True

OWNER = "owner@lumen.example"
NAME, TARGET, MOST = "award.first_after_registering", "< 30", 150.0
WAYS = (("main", "instant"), ("main", "batch"), ("sweeps", "batch"))  # pool, lane
DOCUMENT = {
    "title": "A script of five lines",
    "shape": "independent",
    "script": "for step in 1 2 3\ndo\n    echo step $step\n    sleep 1\ndone\n",
}
SPEC = {
    "epochs": 1,
    "chunks": 1,
    "minibatches": 10,
    "minibatch_seconds": 1.0,
    "worker_demand": {"worker": 1},
    "ps_demand": [],
    "value": {"kind": "linear", "base": 50.0, "slope": -0.1},
}


def measure() -> Iterator[dict[str, Any]]:
    if not database_is_empty():
        why = "the demonstration needs an empty database: make bench ONLY=describing"
        yield {"name": NAME, "value": None, "unit": "s", "target": TARGET, "detail": why}
        return
    loaded = demo_load(at=timezone.now())
    assert isinstance(loaded, DemoLoaded), loaded
    try:
        for slug, lane in WAYS:
            yield {"name": f"{NAME}, {slug}, {lane}", "unit": "s", "target": TARGET} | _first_award(slug, lane)
    finally:
        outcome = demo_wipe()
        assert outcome is None, outcome
        call_command("migrate", verbosity=0)


def _first_award(slug: str, lane: str) -> dict[str, Any]:
    pool, tenant = Pool.objects.get(slug=slug), Tenant.objects.get(slug=LUMEN)
    by = access_of(User.objects.get(email=OWNER), tenant)
    name, started = f"five-lines-{slug}-{lane}", time.perf_counter()
    registered = program_register(
        document=DOCUMENT | {"name": name}, archive=None, by=by, at=timezone.now(), reason="a measurement"
    )
    assert isinstance(registered, Registered), registered
    spec = SPEC | {"program": {"name": name, "version": 1, "parameters": {}}}
    outcome = job_submit(pool=pool, name=name, spec=spec, lane=lane, by=by, at=timezone.now())
    assert isinstance(outcome, Submitted), outcome
    submitted = time.perf_counter()
    while not _awarded(tenant, outcome.job.pk):
        assert time.perf_counter() - started < MOST, f"no award in {slug}, {lane}"
        time.sleep(max(0.0, 1.0 - (time.perf_counter() - started) % 1.0))
        pool_advance(pool_id=pool.pk, at=timezone.now())
    took = time.perf_counter() - started
    detail = {"registered_and_submitted_s": round(submitted - started, 2), "slot_seconds": pool.slot_seconds}
    return {"value": round(took, 2), "detail": detail | {"longest_interval_s": pool.clock_cap * pool.slot_seconds}}


def _awarded(tenant: Tenant, job_id: int) -> bool:
    with scope(tenant):
        return Award.objects.filter(job=job_id).exists()

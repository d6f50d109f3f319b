"""Many jobs in one call: the body by the letter, refusals by index, the limit of costly calls, the key."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from marketplace.tasks import kept_answers_expire
from scheduling.models import Pool, TrainingJob
from tenants.models import KeptAnswer, Tenant
from tenants.roles import SUBMITTER
from tenants.scoping import scope, scope_disabled
from tests.api.builders import Program, problem, program_of
from tests.database import as_superuser
from tests.patience import PATIENCE
from tests.scheduling.builders import make_server
from tests.scheduling.live import SPEC, fund, make_live_pool
from tests.scheduling.markets import make_market
from tests.tenants.builders import make_tenant

BULK = "tenants/lumen/jobs/bulk/"


def market() -> tuple[Pool, Tenant, Program]:
    pool, tenant = make_live_pool(epoch_at=timezone.now()), make_tenant("lumen")
    make_server(pool, worker=40, ps=10)
    fund(tenant)
    return pool, tenant, program_of(SUBMITTER, tenant)


def body(*jobs: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"pool": "main", "jobs": [{"name": f"job {n}", "spec": SPEC} | job for n, job in enumerate(jobs)]} | fields


def stored(tenant: Tenant) -> list[TrainingJob]:
    with scope(tenant):
        return list(TrainingJob.objects.order_by("pk"))


@pytest.mark.django_db
def test_jobs_are_answered_in_the_order_of_the_request_and_wait() -> None:
    _, tenant, caller = market()
    reply = caller.post(BULK, body({}, {"name": "other"}, lane="batch"))
    assert reply.status_code == 201, reply.content
    jobs = stored(tenant)
    results = [{"id": job.pk, "name": job.name, "state": "queued"} for job in jobs]
    assert reply.json() == {"pool": "main", "results": results}
    assert [job.name for job in jobs] == ["job 0", "other"]


@pytest.mark.django_db
def test_refusal_names_each_by_its_index_and_field_with_its_figures() -> None:
    _, (tenant,) = make_market("lumen", epoch_at=timezone.now())
    caller = program_of(SUBMITTER, tenant)
    long = SPEC | {"epochs": 100_000, "value": {"kind": "deadline", "base": 5.0, "deadline": 9.0}}
    flawed = ({}, {"spec": SPEC | {"chunks": 0}}, {"spec": long}, {"after": [987654]})
    document = problem(caller.post(BULK, body(*flawed)), 422, "jobs_refused")
    assert [(error["field"], error["code"]) for error in document["errors"]] == [
        ("jobs[1].chunks", "invalid_job"),
        ("jobs[2]", "larger_than_window"),
        ("jobs[3].after", "invalid_job"),
    ]
    assert (document["numbers"]["jobs"], document["numbers"]["refused"]) == (4, 3)
    (figures,) = document["numbers"]["figures"]
    alone = caller.post("tenants/lumen/jobs/", {"pool": "main", "name": "x", "lane": "batch", "spec": long}).json()
    assert figures == {"index": 2, "code": "larger_than_window", "numbers": alone["numbers"]}
    assert document["errors"][1]["detail"] == alone["detail"]
    assert stored(tenant) == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "status", "code", "place"),
    [
        ({"pool": "nowhere"}, 404, "unknown_pool", None),
        ({"lane": "instant"}, 422, "invalid_job", "lane"),
        ({"jobs": []}, 400, "invalid_request", "jobs"),
        ({"jobs": [{"name": "x", "spec": {}}] * 1001}, 400, "invalid_request", "jobs"),
        ({"jobs": [{"name": "x", "spec": SPEC}, {"name": 5, "spec": SPEC}]}, 400, "invalid_request", "jobs[1].name"),
        ({"jobs": [{"name": "x", "spec": SPEC, "pool": "main"}]}, 400, "invalid_request", "jobs[0].pool"),
        ({"jobs": [{"name": "x", "script": "#!/bin/sh\n"}]}, 400, "invalid_request", "jobs[0].script"),
        ({"jobs": [{"name": "x", "spec": SPEC}, {"spec": SPEC}]}, 422, "jobs_refused", "jobs[1].name"),
        ({"jobs": [{"name": "x"}]}, 422, "jobs_refused", "jobs[0].spec"),
        ({"jobs": [{"name": "x", "hours": {}}]}, 422, "jobs_refused", "jobs[0].worth"),
    ],
)
def test_body_is_taken_by_the_letter(fields: dict[str, Any], status: int, code: str, place: str | None) -> None:
    _, tenant, caller = market()
    document = problem(caller.post(BULK, body({}) | fields), status, code)
    assert [error["field"] for error in document["errors"]][:1] == ([place] if place else [])
    assert stored(tenant) == []


@pytest.mark.wide
@pytest.mark.django_db
def test_a_thousand_jobs_with_programs_fit_and_more_values_or_bytes_are_a_413() -> None:
    _, tenant, caller = market()
    program = {"name": "trainer", "parameters": {"minibatch_ms": 20.0, "seed": 1}}
    thousand = body(*({"spec": SPEC | {"program": program}} for _ in range(1000)))
    assert sum(map(json.dumps(thousand).count, ",[{")) > 20_000  # more than any other body may have
    reply = caller.post(BULK, thousand)
    assert reply.status_code == 201, reply.content[:500]
    assert len(stored(tenant)) == len(reply.json()["results"]) == 1000
    problem(caller.post(BULK, {"pool": "main", "jobs": [[]] * 50_000}), 413, "body_too_large")
    problem(caller.post(BULK, body({"name": "x" * (1 << 20)})), 413, "body_too_large")
    assert len(stored(tenant)) == 1000


@pytest.mark.django_db
def test_flaws_of_very_many_jobs_are_named_up_to_a_number() -> None:
    _, _, caller = market()
    document = problem(caller.post(BULK, {"pool": "main", "jobs": [{"a": 1, "b": 1}] * 1000}), 400, "invalid_request")
    assert len(document["errors"]) == 500


@pytest.mark.django_db
def test_answer_is_given_again_and_the_jobs_keep_the_key_after_it_was_forgotten() -> None:
    _, tenant, caller = market()
    first = caller.post(BULK, body({}, {}), key="k1")
    again = caller.post(BULK, body({}, {}), key="k1")
    assert (again.status_code, again.content, again["Idempotent-Replay"]) == (201, first.content, "true")
    problem(caller.post(BULK, body({}), key="k1"), 409, "idempotency_mismatch")
    with as_superuser():
        KeptAnswer.objects.update(created_at=timezone.now() - timedelta(days=8))
    kept_answers_expire()
    assert KeptAnswer.objects.count() == 0
    assert caller.post(BULK, body({}, {}), key="k1").json() == first.json()
    assert len(stored(tenant)) == 2
    with as_superuser():
        KeptAnswer.objects.all().delete()
    problem(caller.post(BULK, body({}), key="k1"), 409, "key_reused")
    assert len(stored(tenant)) == 2


@pytest.mark.django_db(transaction=True)
def test_same_key_from_two_at_once_makes_the_jobs_once() -> None:
    _, _, caller = market()
    together = threading.Barrier(2)

    def one() -> str:
        try:
            together.wait(PATIENCE)
            reply = Program(caller.secret).post(BULK, body(*[{}] * 20), key="k1")
            return f"{reply.status_code} {reply.json().get('code', '')}".strip()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=2) as threads:
        answers = {future.result(PATIENCE) for future in [threads.submit(one) for _ in range(2)]}
    assert "201" in answers
    assert answers <= {"201", "409 idempotency_in_progress"}
    with scope_disabled("the test counts everything"):
        assert TrainingJob.objects.count() == 20

"""`Idempotency-Key`: one effect and one answer for one key, whatever is lost, repeated, or sent twice at once."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from marketplace.tasks import kept_answers_expire
from scheduling.jobs import cancellation
from scheduling.models import Award, Pool, TrainingJob
from tenants.access import Refused
from tenants.models import ApiToken, KeptAnswer, Tenant
from tenants.roles import OWNER, SUBMITTER
from tenants.scoping import scope_disabled
from tenants.services import answers
from tests.api.builders import Program, problem, program, program_of
from tests.database import as_superuser
from tests.patience import PATIENCE
from tests.scheduling.builders import make_server
from tests.scheduling.live import SPEC, book_is_sound, fund, make_live_pool, money
from tests.tenants.builders import make_member, make_tenant

JOBS = "tenants/lumen/jobs/"


def market() -> tuple[Pool, Tenant]:
    pool = make_live_pool(epoch_at=timezone.now())
    make_server(pool, worker=40, ps=10)
    tenant = make_tenant("lumen")
    fund(tenant)
    return pool, tenant


def body(**fields: Any) -> dict[str, Any]:
    return {"pool": "main", "name": "train", "lane": "instant", "spec": SPEC} | fields


def counted() -> tuple[int, int]:
    """Jobs and awards."""
    with scope_disabled("the test counts everything"):
        return TrainingJob.objects.count(), Award.objects.count()


@pytest.mark.django_db
def test_same_key_and_body_give_the_same_answer_and_one_job() -> None:
    _, tenant = market()
    caller = program_of(SUBMITTER, tenant)
    first = caller.post(JOBS, body(), key="k1")
    held = money(tenant)
    again = caller.post(JOBS, body(), key="k1")
    assert (again.status_code, again.content, again["Location"]) == (201, first.content, first["Location"])
    assert "Idempotent-Replay" not in first
    assert again["Idempotent-Replay"] == "true"
    assert counted() == (1, 1)
    assert money(tenant) == held


@pytest.mark.django_db
def test_order_of_names_in_the_body_makes_no_difference() -> None:
    _, tenant = market()
    caller = program_of(SUBMITTER, tenant)
    caller.post(JOBS, body(), key="k1")
    assert caller.post(JOBS, dict(reversed(body().items())), key="k1")["Idempotent-Replay"] == "true"


@pytest.mark.django_db
def test_same_key_with_another_request_is_a_409() -> None:
    _, tenant = market()
    caller = program_of(SUBMITTER, tenant)
    caller.post(JOBS, body(), key="k1")
    problem(caller.post(JOBS, body(name="other"), key="k1"), 409, "idempotency_mismatch")
    problem(caller.post("tenants/lumen/quotes/", body(), key="k1"), 409, "idempotency_mismatch")
    assert counted()[0] == 1


@pytest.mark.django_db
def test_refusal_of_a_service_is_kept_and_a_wrong_form_is_not() -> None:
    _, tenant = market()
    caller = program_of(SUBMITTER, tenant)
    wrong = body(spec=SPEC | {"chunks": 0})
    problem(caller.post(JOBS, wrong, key="k1"), 422, "invalid_job")
    again = caller.post(JOBS, wrong, key="k1")
    document = problem(again, 422, "invalid_job")
    assert again["Idempotent-Replay"] == "true"
    assert document["errors"][0]["field"] == "chunks"
    problem(caller.post(JOBS, {"pool": "main"}, key="k2"), 400, "invalid_request")
    assert caller.post(JOBS, body(), key="k2").status_code == 201


@pytest.mark.django_db
def test_two_people_and_two_tokens_of_one_person() -> None:
    """Two people may use one key; for two tokens of a person it is the same key."""
    _, tenant = market()
    member = make_member(tenant, SUBMITTER)
    first, second = program(member.user, tenant), program(member.user, tenant)
    other = program_of(SUBMITTER, tenant)
    number = first.post(JOBS, body(), key="k1").json()["id"]
    assert second.post(JOBS, body(), key="k1").json()["id"] == number
    assert other.post(JOBS, body(), key="k1").json()["id"] != number
    assert counted()[0] == 2


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["x" * 201, "é", "a\tb", "\x7f"])
def test_key_that_is_none_is_a_400(key: str) -> None:
    caller = program_of(OWNER, make_tenant("lumen"))
    problem(caller.post("tenants/lumen/tokens/", {"name": "x", "scopes": ["jobs:read"]}, key=key), 400, "invalid_key")
    assert ApiToken.objects.count() == 1


@pytest.mark.django_db
def test_replay_is_only_for_who_may_still_ask() -> None:
    _, tenant = market()
    caller = program_of(SUBMITTER, tenant)
    caller.post(JOBS, body(), key="k1")
    ApiToken.objects.update(scopes=["jobs:read"])
    problem(caller.post(JOBS, body(), key="k1"), 403, "scope_missing")


@pytest.mark.django_db
def test_job_keeps_the_key_after_its_answer_was_forgotten() -> None:
    _, tenant = market()
    caller = program_of(SUBMITTER, tenant)
    number = caller.post(JOBS, body(), key="k1").json()["id"]
    with as_superuser():
        KeptAnswer.objects.update(created_at=timezone.now() - timedelta(days=8))
    kept_answers_expire()
    assert KeptAnswer.objects.count() == 0
    assert caller.post(JOBS, body(), key="k1").json()["id"] == number
    assert counted() == (1, 1)


@pytest.mark.django_db
def test_answers_are_kept_for_a_week() -> None:
    caller = program_of(OWNER, make_tenant("lumen"))
    caller.post("tenants/lumen/jobs/cancel/", {"jobs": [1]}, key="k1")
    now = KeptAnswer.objects.get().created_at
    assert answers.answers_expire(at=now + timedelta(days=7)) == 0
    assert answers.answers_expire(at=now + timedelta(days=7, seconds=1)) == 1


@pytest.mark.django_db(transaction=True)
def test_crash_after_the_effect_leaves_neither_effect_nor_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    _, tenant = market()
    caller = program_of(SUBMITTER, tenant)

    def crash(**_: Any) -> None:
        raise RuntimeError("the process ends here")

    with monkeypatch.context() as patch:
        patch.setattr("tenants.api.once.answer_keep", crash)
        with pytest.raises(RuntimeError):
            caller.post(JOBS, body(), key="k1")
    assert counted() == (0, 0)
    assert money(tenant)[1] == 0
    assert caller.post(JOBS, body(), key="k1").status_code == 201
    assert counted() == (1, 1)
    assert book_is_sound()


def race(caller: Program, path: str, body: dict[str, Any], callers: int = 8) -> Counter[str]:
    """The same request from many threads at once: the answers by status, code and job."""
    together = threading.Barrier(callers)

    def one(_: int) -> str:
        try:
            together.wait(PATIENCE)
            reply = Program(caller.secret).post(path, body, key="k1")
            answer = reply.json()
            return f"{reply.status_code} {answer.get('code', '')}".strip()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=callers) as threads:
        return Counter(future.result(PATIENCE) for future in [threads.submit(one, number) for number in range(callers)])


@pytest.mark.django_db(transaction=True)
def test_same_key_from_many_at_once_is_one_job_and_one_hold() -> None:
    _, tenant = market()
    caller = program_of(SUBMITTER, tenant)
    counts = race(caller, JOBS, body())
    assert set(counts) <= {"201", "409 idempotency_in_progress"}
    assert counts["201"] >= 1
    assert counted() == (1, 1)
    assert KeptAnswer.objects.count() == 1
    assert caller.post(JOBS, body(), key="k1")["Idempotent-Replay"] == "true"
    assert book_is_sound()


@pytest.mark.django_db(transaction=True)
def test_a_submission_with_a_key_asks_for_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the database is asked, the transaction's own words included, of a process that knows the feed's cursor
    as of a moment ago."""
    monkeypatch.setattr("scheduling.feed.notify.monotonic", lambda: 1_000.0)
    monkeypatch.setattr("scheduling.feed.notify._cursor", None)
    _, tenant = market()
    caller = program_of(SUBMITTER, tenant)
    caller.post(JOBS, body(lane="batch"), key="k1")
    with CaptureQueriesContext(connection) as captured:
        assert caller.post(JOBS, body(lane="batch"), key="k2").status_code == 201
    begin = (
        "tenants_apitoken",
        "BEGIN",
        "tenants_kept_answer",
        "scheduling_pool",
        "scheduling_client_key",
        "scheduling_intake",
    )
    writes = ("scheduling_trainingjob", "scheduling_startestimate", "scheduling_event", "tenants_keptanswer", "COMMIT")
    statements = [query["sql"] for query in captured]
    assert len(statements) == len(begin + writes), statements
    assert all(name in sql for name, sql in zip(begin + writes, statements, strict=True)), statements


@pytest.mark.django_db(transaction=True)
def test_without_the_reservation_the_same_key_makes_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens have no key of their own, so here nothing else stands between a repetition and a second effect."""
    caller = program_of(OWNER, make_tenant("lumen"))
    new = {"name": "x", "scopes": ["jobs:read"]}
    race(caller, "tenants/lumen/tokens/", new)
    assert ApiToken.objects.count() == 2
    monkeypatch.setattr("tenants.api.once.answer_reserve", lambda **_: answers.Reservation())
    race(caller, "tenants/lumen/tokens/", new)
    assert ApiToken.objects.count() > 3


@pytest.mark.django_db(transaction=True)
def test_request_that_still_runs_is_a_409_and_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    _, tenant = market()
    caller = program_of(SUBMITTER, tenant)
    job = caller.post(JOBS, body(lane="batch")).json()["id"]
    entered, leave = threading.Event(), threading.Event()
    cancel = cancellation.job_cancel

    def slow(**arguments: Any) -> TrainingJob | Refused:
        entered.set()
        assert leave.wait(PATIENCE)
        return cancel(**arguments)

    monkeypatch.setattr("scheduling.jobs.api.jobs.job_cancel", slow)

    def first() -> int:
        try:
            return Program(caller.secret).post(f"{JOBS}{job}/cancel/", key="k1").status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as threads:
        running = threads.submit(first)
        try:
            assert entered.wait(PATIENCE)
            problem(caller.post(f"{JOBS}{job}/cancel/", key="k1"), 409, "idempotency_in_progress")
        finally:
            leave.set()
        assert running.result(PATIENCE) == 200
    assert caller.post(f"{JOBS}{job}/cancel/", key="k1")["Idempotent-Replay"] == "true"

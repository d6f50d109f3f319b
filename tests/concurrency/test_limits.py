"""How many of something a person or a tenant may have is counted one call after the other, also where calls come at the
same moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from io import BytesIO
from itertools import count
from typing import Any

import pytest
from django.db import connection, transaction

from scheduling.audit import requests as audits
from scheduling.catalogue import registration, secrets
from scheduling.jobs import saved_views
from scheduling.lab import requests as studies
from scheduling.models import AuditKind, Pool
from scheduling.webhooks import changes as webhooks
from scheduling.what_if import asking
from tenants.access import Access, Refused
from tenants.models import Tenant
from tenants.roles import AUDITOR, OPERATOR, OWNER, SUBMITTER
from tenants.scoping import scope
from tenants.services import claims, tokens
from tests.catalogue.builders import DOCUMENT, allow, archive_with
from tests.patience import PATIENCE
from tests.scheduling.builders import NOON, make_pool
from tests.tenants.builders import NOW, WHY, access, done, make_member, make_person, make_tenant
from tests.what_if.test_what_if_said import ask, make_rivals

pytestmark = pytest.mark.django_db(transaction=True)

Call = Callable[[], object]
World = tuple[Call, str]  # a call that makes one more, and the refusal of one too many


def owner() -> Access:
    return access(make_member(make_tenant(), OWNER))


def auditor() -> Access:
    return Access(user=make_person(), tenant=None, roles=frozenset({AUDITOR}))


def operator() -> Access:
    return Access(user=make_person(), tenant=None, roles=frozenset({OPERATOR}))


def names() -> Iterator[str]:
    return (f"n{number}" for number in count(1))


def of_tokens(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 1)
    by = owner()
    return lambda: tokens.token_create(name="t", scopes=["jobs:read"], by=by, at=NOW), "too_many_tokens"


def of_views(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(saved_views, "MOST", 1)
    by, name = owner(), names()
    return lambda: saved_views.view_save(name=next(name), query="", by=by), "too_many_views"


def of_webhooks(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(webhooks, "MOST_WEBHOOKS", 1)
    by = owner()

    def call() -> object:
        with scope(by.tenant):
            return webhooks.webhook_create(url="https://93.184.215.14/", kinds=[], by=by, at=NOW)

    return call, "too_many_webhooks"


def of_programs(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(registration, "MOST_PROGRAMS", 1)
    by, name = bringer(), names()

    def call() -> object:
        return registration.program_register(document=DOCUMENT | {"name": next(name)}, archive=None, by=by, at=NOON)

    return call, "too_many_programs"


def of_bytes_of_archives(monkeypatch: pytest.MonkeyPatch) -> World:
    by, name = bringer(), names()

    def call() -> object:
        archive = archive_with("train.py", content=next(name).encode())
        monkeypatch.setattr(registration, "MOST_KEPT", len(archive) * 3 // 2)
        return registration.program_register(document=DOCUMENT, archive=BytesIO(archive), by=by, at=NOON)

    return call, "too_many_programs"


def bringer() -> Access:
    by = access(make_member(make_tenant(), SUBMITTER))
    assert by.tenant is not None
    allow(by.tenant)
    return by


def of_studies(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(studies, "MOST_OPEN", 1)
    by, words = auditor(), words_of_study(make_pool())
    return lambda: studies.study_create(**words, by=by, at=NOON), "studies_waiting"


def words_of_study(pool: Pool) -> dict[str, Any]:
    words: dict[str, Any] = {"document": {"rules": ["alone", "market"]}, "files": {}, "pool": pool}
    return words | {"first_at": pool.epoch_at, "last_at": pool.epoch_at + timedelta(hours=1)}


def of_audits(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(audits, "MOST_WAITING", 1)
    by = auditor()
    words: dict[str, Any] = {"kind": AuditKind.EVERYTHING, "pool": None, "number": None}
    return lambda: audits.verify_start(**words, by=by, at=NOON), "audits_waiting"


def of_questions(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(asking, "MOST_OPEN", 1)
    _, (first, _), interval = make_rivals()
    by = auditor()
    return lambda: ask(interval, first, "rent", "never", by), "too_many_open"


def of_questions_about_a_tenant(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(asking, "MOST_OF_TENANT", 1)
    _, (first, _), interval = make_rivals()
    people = iter([auditor(), auditor()])
    return lambda: ask(interval, first, "rent", "never", next(people)), "too_many_open"


def of_questions_in_all(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(asking, "MOST_IN_ALL", 1)
    _, jobs, interval = make_rivals()
    questions = iter([(job, auditor()) for job in jobs])

    def call() -> object:
        job, by = next(questions)
        return ask(interval, job, "rent", "never", by)

    return call, "too_many_in_all"


def of_studies_in_all(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(studies, "MOST_KEPT", 1)
    pool, people = make_pool(), iter([auditor(), auditor()])
    words = words_of_study(pool)
    return lambda: studies.study_create(**words, by=next(people), at=NOON), "too_many_studies"


def of_studies_that_go_on(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(studies, "MOST_OPEN", 1)
    by, words = auditor(), words_of_study(make_pool())
    ended = []
    for _ in range(2):
        study = done(studies.study_create(**words, by=by, at=NOON))
        ended.append(done(studies.study_cancel(study_id=study.pk, by=by, at=NOON)))
    each = iter(ended)
    return lambda: studies.study_resume(study_id=next(each).pk, by=by, at=NOON), "studies_waiting"


def of_secrets(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(secrets, "MOST_SECRETS", 1)
    name, words = names(), {"value": "v", "tenants": None, "by": operator(), "at": NOON, "reason": WHY}
    return lambda: secrets.secret_set(name=next(name), **words), "too_many_secrets"


def of_programs_of_the_operator(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(registration, "MOST_PROGRAMS", 1)
    by, name = operator(), names()

    def call() -> object:
        document = DOCUMENT | {"name": next(name)}
        return registration.program_register(document=document, archive=None, by=by, at=NOON, reason=WHY)

    return call, "too_many_programs"


def of_mappings_of_claims(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(claims, "MOST_MAPPINGS", 1)
    by, slugs = operator(), iter([make_tenant().slug, make_tenant().slug])
    words: dict[str, Any] = {"claim": "groups", "value": "a", "role": SUBMITTER, "by": by, "reason": WHY, "at": NOON}
    return lambda: claims.claim_mapping_add(tenant=next(slugs), **words), "too_many_mappings"


@pytest.mark.parametrize(
    "world",
    [
        of_tokens,
        of_views,
        of_webhooks,
        of_programs,
        of_bytes_of_archives,
        of_studies,
        of_audits,
        of_questions,
        of_questions_about_a_tenant,
        of_questions_in_all,
        of_studies_in_all,
        of_studies_that_go_on,
        of_secrets,
        of_programs_of_the_operator,
        of_mappings_of_claims,
    ],
)
def test_second_call_waits_for_the_first_and_is_refused(
    world: Callable[[pytest.MonkeyPatch], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, code = world(monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            first = call()
            second = threads.submit(on_its_own_connection, call)
            wait_until_done_or_waiting(second)
        answers = first, second.result(PATIENCE)
    assert [each.code if isinstance(each, Refused) else "" for each in answers] == ["", code]


def on_its_own_connection(call: Call) -> object:
    try:
        return call()
    finally:
        connection.close()


def wait_until_done_or_waiting(second: Future[object]) -> None:
    """Return once the call is over, or waits for this transaction."""
    for _ in range(int(PATIENCE / 0.02)):
        done, _ = wait([second], timeout=0.02)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))")
            if done or cursor.fetchone() != (0,):
                return
    raise AssertionError("the second call neither waits nor ends")


def test_new_row_of_others_does_not_wait_for_the_count() -> None:
    """The lock leaves the key of the row alone, so that rows which name the tenant are stored meanwhile."""
    by = owner()
    assert by.tenant is not None
    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=by.tenant.pk)
        saved = threads.submit(on_its_own_connection, lambda: saved_views.view_save(name="v", query="", by=by))
        assert not isinstance(saved.result(PATIENCE), Refused)

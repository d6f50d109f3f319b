"""The pages of "what if a job had said something else": asked, followed, read and called off by those who may."""

from __future__ import annotations

import json
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduling.models import Interval, Pool, TrainingJob, WhatIf
from scheduling.what_if import read_jobs
from scheduling.what_if.working import what_ifs_round
from tenants.models import Tenant
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope_disabled
from tests.ledger.builders import tamper
from tests.scheduling.builders import make_pool
from tests.scheduling.pages import client_as, client_of, text_of
from tests.tenants.builders import make_member
from tests.what_if.test_what_if_said import make_rivals

pytestmark = pytest.mark.django_db


def ask_path(interval: Interval, tenant: Tenant | None) -> str:
    slug = Pool.objects.get(pk=interval.pool_id).slug
    if tenant is None:
        return f"/fairness/pools/{slug}/intervals/{interval.number}/what-if/"
    return f"/t/{tenant.slug}/intervals/{slug}/{interval.number}/what-if/"


def page(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, (path, answer.status_code)
    return answer.content.decode()


def ask(
    client: Client, interval: Interval, job: TrainingJob, tenant: Tenant | None, field: str, **fields: object
) -> str:
    answer = client.post(ask_path(interval, tenant), {"job": job.pk, "field": field, **fields})
    assert answer.status_code == 302, text_of(answer.content.decode())
    return str(answer["Location"])


def complaint(client: Client, interval: Interval, job: TrainingJob, field: str, **fields: object) -> str:
    answer = client.post(ask_path(interval, job.tenant), {"job": job.pk, "field": field, **fields})
    assert answer.status_code == 422
    return answer.content.decode()


def answered() -> None:
    what_ifs_round(clock=timezone.now)


def test_the_list_of_jobs_reads_what_it_shows_at_once() -> None:
    _, (first, second), interval = make_rivals()
    client = client_as(AUDITOR, None)
    with CaptureQueriesContext(connection) as queries:
        html = page(client, ask_path(interval, None))
    assert f"J-{first.pk}" in html
    assert f"J-{second.pk}" in html
    rows = [each["sql"] for each in queries if 'FROM "scheduling_trainingjob"' in each["sql"]]
    assert len(rows) == 1  # none of a job by itself, for a field that was left out
    assert '"scheduling_trainingjob"."reason_numbers"' not in rows[0]


def test_member_asks_follows_and_reads_in_numbers_what_it_would_have_meant() -> None:
    _, (first, second), interval = make_rivals()
    Tenant.objects.filter(pk=second.tenant_id).update(name="Castor Vision")
    client = client_as(OWNER, first.tenant)
    form = text_of(page(client, f"{ask_path(interval, first.tenant)}?job={first.pk}&field=rent"))
    assert "What if it had said" in form
    assert "It said nothing" in form
    assert f"J-{second.pk}" not in form
    there = ask(client, interval, first, first.tenant, "rent", rent="never")
    waits = page(client, there)
    assert 'hx-trigger="every 1s"' in waits
    assert "never: home only in place of" not in waits
    answered()
    html = page(client, there)
    text = text_of(html)
    assert f"J-{first.pk} would have " in text
    assert " in place of running in slot" in text
    assert "Its tenant would have gained " in text
    assert "hx-trigger" not in html[html.index('id="what-if-state"') :]
    assert "Castor Vision" not in text
    assert "another tenant" in text.lower()
    assert "hx-get" not in page(client, f"{there}?part=state")
    list_text = text_of(page(client, f"/t/{first.tenant.slug}/what-if/"))
    assert f"Renting of J-{first.pk}" in list_text
    assert "Done" in list_text


def test_another_tenants_question_is_not_there_and_neither_is_a_colleagues() -> None:
    _, (first, second), interval = make_rivals()
    there = ask(client_as(OWNER, first.tenant), interval, first, first.tenant, "max_price", max_price="1")
    stranger = client_of(make_member(second.tenant, OWNER).user)
    elsewhere = there.replace(f"/t/{first.tenant.slug}/", f"/t/{second.tenant.slug}/")
    colleague = client_as(VIEWER, first.tenant)
    for client, path in ((stranger, there), (stranger, elsewhere), (colleague, there)):
        page(client, path, 404)
        assert client.post(f"{path}cancel/").status_code == 404
    assert first.name not in text_of(page(stranger, f"/t/{second.tenant.slug}/what-if/"))
    answer = stranger.post(ask_path(interval, second.tenant), {"job": first.pk, "field": "rent", "rent": "never"})
    assert answer.status_code == 422
    assert "That job was not among those" in text_of(answer.content.decode())
    with scope_disabled("the test counts all questions"):
        assert WhatIf.objects.count() == 1


def test_the_staff_ask_about_anybodys_job_and_see_every_name() -> None:
    _, (first, second), interval = make_rivals()
    for role in (AUDITOR, OPERATOR):
        client = client_as(role, None)
        form = text_of(page(client, ask_path(interval, None)))
        assert f"J-{second.pk}" in form
        assert second.tenant.name in form
        there = ask(client, interval, first, None, "rent", rent="never")
        answered()
        text = text_of(page(client, there))
        assert f"J-{second.pk} {second.name}, {second.tenant.slug}" in text
        assert "Renting of" in text_of(page(client, "/fairness/what-if/"))
        page(client, there.replace("/fairness/", f"/t/{second.tenant.slug}/"), 404)
        page(client, there.replace("/fairness/", f"/t/{first.tenant.slug}/"))


def test_a_long_list_has_the_first_jobs_and_any_other_is_asked_about_by_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, (first, second), interval = make_rivals()
    auditor, path = client_as(AUDITOR, None), ask_path(interval, None)
    whole = text_of(page(auditor, path))
    waited = len(re.findall(r"J-\d+ ", whole))
    assert "more job" not in whole
    monkeypatch.setattr(read_jobs, "MOST_JOBS", 1)
    short = text_of(page(auditor, path))
    assert f"{waited - 1} more job" in short
    assert f"J-{first.pk} " in short
    assert f"J-{second.pk} " not in short
    text = text_of(page(auditor, f"{path}?job={second.pk}"))
    assert f"J-{second.pk} " in text
    assert ask(auditor, interval, second, None, "rent", rent="never")
    page(auditor, f"{path}?job=999999", 422)
    others = client_as(OWNER, first.tenant)
    refused = text_of(page(others, f"{ask_path(interval, first.tenant)}?job={second.pk}", 422))
    assert f"J-{second.pk} " not in refused


def test_who_sees_no_jobs_asks_nothing() -> None:
    _, (first, _), interval = make_rivals()
    client = client_as(BILLING, first.tenant)
    paths = [ask_path(interval, first.tenant), f"/t/{first.tenant.slug}/what-if/"]
    for path in paths:
        page(client, path, 403)
    idle = make_member(Tenant.objects.get(slug="owner"), OWNER)
    assert "None of your jobs waited here" in page(client_of(idle.user), ask_path(interval, idle.tenant))
    owner = client_as(OWNER, first.tenant)
    for path in ("/fairness/what-if/", ask_path(interval, None)):
        page(owner, path, 403)


def test_what_a_tenant_gains_is_not_shown_to_who_sees_no_money() -> None:
    _, (first, _), interval = make_rivals()
    client = client_as(SUBMITTER, first.tenant)
    there = ask(client, interval, first, first.tenant, "rent", rent="never")
    answered()
    html = page(client, there)
    [mine] = re.findall(r'<tr class="me">.*?</tr>', html, re.DOTALL)
    assert mine.count("blank") == 2
    assert "amount" in mine  # the difference


REFUSED = [
    ("max_workers", {"max_workers": "99"}, "id_max_workers", "Must be at most chunks (4), not 99."),
    ("max_workers", {"max_workers": "many"}, "id_max_workers", "Enter a whole number."),
    ("minibatch_seconds", {"minibatch_seconds": ""}, "id_minibatch_seconds", "Say the time per mini-batch."),
    ("value", {"kind": "linear", "worth": "9", "loss": "-2"}, "id_loss", "Must be 0 or less"),
    ("value", {"kind": "deadline", "worth": "9"}, "id_deadline", "Needed for this kind of worth."),
    ("worker_demand", {"worker_takes_worker": ""}, "id_worker_takes_worker", "ust take some amount"),
    ("arrival", {"arrival": "-1"}, "id_arrival", "Must be a number of slots"),
    ("epochs", {"epochs": "1"}, "id_epochs", "That is what the job said."),
]


def test_refusal_stands_at_its_field() -> None:
    _, (first, _), interval = make_rivals()
    client = client_as(OWNER, first.tenant)
    for field, fields, place, sentence in REFUSED:
        html = complaint(client, interval, first, field, **fields)
        where = html[html.index(f'id="{place}_error"') :]
        assert sentence in text_of(where[: where.index("</div>")]), (field, fields)
    with scope_disabled("the test counts all rows"):
        assert WhatIf.objects.count() == 0


def test_refusal_about_no_field_stands_above_all() -> None:
    _, (first, _), interval = make_rivals()
    client = client_as(OWNER, first.tenant)
    for price in (1, 2, 3):
        ask(client, interval, first, first.tenant, "max_price", max_price=price)
    assert "3 questions of yours are not answered yet" in text_of(
        complaint(client, interval, first, "max_price", max_price="4")
    )


def test_what_the_form_has_no_place_for_is_said_in_json() -> None:
    _, (first, _), interval = make_rivals()
    several = {"worker_demand": [{"worker": 1}, {"worker": 2}]}
    tamper("UPDATE scheduling_trainingjob SET spec = spec || %s WHERE id = %s", [json.dumps(several), first.pk])
    client = client_as(OWNER, first.tenant)
    html = page(client, f"{ask_path(interval, first.tenant)}?job={first.pk}&field=worker_demand&part=otherwise")
    assert 'name="as_text"' in html
    assert "<html" not in html
    assert "This is not JSON." in complaint(client, interval, first, "worker_demand", as_text="{")
    refused = complaint(client, interval, first, "worker_demand", as_text='[{"worker": 1}]')
    assert "specification is not the one" in text_of(refused)


def test_question_is_called_off_and_then_it_is_over() -> None:
    _, (first, _), interval = make_rivals()
    client = client_as(OWNER, first.tenant)
    there = ask(client, interval, first, first.tenant, "max_price", max_price="1")
    assert client.post(f"{there}cancel/")["Location"] == there
    answered()
    text = text_of(page(client, there))
    assert "Called off" in text
    client.post(f"{there}cancel/")
    assert "This question is not open any more." in text_of(page(client, there))


def test_interval_is_chosen_by_its_number_and_pages_lead_to_the_question() -> None:
    pool, (first, _), interval = make_rivals()
    client, tenant = client_as(OWNER, first.tenant), first.tenant
    there = ask_path(interval, tenant)
    address = f"/t/{tenant.slug}/what-if/"
    assert f'value="{interval.number}"' in page(client, address)
    assert client.get(f"{address}?pool={pool.slug}&interval={interval.number}")["Location"] == there
    assert "There is no such interval in this pool." in page(client, f"{address}?interval=999")
    page(client, there.replace(f"/{interval.number}/", "/999/"), 404)
    for path in (f"/t/{tenant.slug}/jobs/{first.pk}/", f"/t/{tenant.slug}/intervals/{pool.slug}/{interval.number}/"):
        assert there in page(client, path), path
    assert there in page(client, f"/t/{tenant.slug}/fairness/{pool.slug}/intervals/{interval.number}/")
    assert address in page(client, f"/t/{tenant.slug}/fairness/")
    auditor = client_as(AUDITOR, None)
    assert "/fairness/what-if/" in page(auditor, "/fairness/")
    assert ask_path(interval, None) in page(auditor, f"/fairness/pools/{pool.slug}/intervals/{interval.number}/")


def test_where_no_interval_can_be_filled_in_another_pool_can_be_chosen_all_the_same() -> None:
    pool, (first, _), _ = make_rivals()
    client = client_as(OWNER, first.tenant)
    address, empty = f"/t/{first.tenant.slug}/what-if/", make_pool("zeta")
    there, nothing = (page(client, f"{address}?pool={each.slug}") for each in (pool, empty))
    assert "is filled in" in there
    assert "None in this pool gave one of your jobs a place yet." in text_of(nothing)
    required = [re.search(r'<input[^>]*id="interval"[^>]*\brequired\b', each) is not None for each in (there, nothing)]
    assert required == [True, False]


def test_page_asks_few_queries_however_many_questions_there_are() -> None:
    _, (first, _), interval = make_rivals()
    client = client_as(OWNER, first.tenant)
    path, counts = f"/t/{first.tenant.slug}/what-if/", []
    for price in (1, 2):
        ask(client, interval, first, first.tenant, "max_price", max_price=price)
        answered()
        page(client, path)
        with CaptureQueriesContext(connection) as captured:
            page(client, path)
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 24

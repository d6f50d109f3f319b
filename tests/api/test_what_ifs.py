"""What if a job had said something else, for programs: asked once for a key, read in numbers, and called off."""

from __future__ import annotations

import pytest
from django.utils import timezone

from scheduling.models import WhatIf
from scheduling.what_if.working import what_ifs_round
from tenants.models import Tenant
from tenants.roles import AUDITOR, OWNER, PRESETS, SUBMITTER
from tenants.scoping import scope_disabled
from tests.api.builders import problem, program, program_of
from tests.database import as_superuser
from tests.tenants.builders import make_staff
from tests.what_if.test_what_if_said import make_rivals

pytestmark = pytest.mark.django_db


def test_question_is_asked_once_for_a_key_worked_out_and_read() -> None:
    pool, (first, second), interval = make_rivals()
    with as_superuser():
        Tenant.objects.filter(pk=second.tenant_id).update(slug="castor")
    there, caller = f"tenants/{first.tenant.slug}/what-ifs/", program_of(OWNER, first.tenant)
    body = {"pool": pool.slug, "interval": interval.number, "job": first.pk, "field": "rent", "value": "never"}
    started = caller.post(there, body, key="once")
    assert (started.status_code, started.json()["state"], started.json()["result"]) == (202, "waiting", None)
    assert caller.post(there, body, key="once").json() == started.json()
    with scope_disabled("the test counts all rows"):
        assert WhatIf.objects.count() == 1
    what_ifs_round(clock=timezone.now)
    answer = caller.get(started["Location"])
    document = answer.json()
    assert (document["state"], document["done"], document["said"], document["instead"]) == ("done", 4, None, "never")
    result = document["result"]
    assert result["in_words"].startswith(f"J-{first.pk} would have waited on")
    [mine] = [row for row in result["jobs"] if row["asked"]]
    assert (mine["job"], mine["tenant"], mine["before"]["state"]) == (first.pk, first.tenant.slug, "awarded")
    assert mine["before"]["price"] != mine["after"]["price"] == "0.000000"
    others = [row for row in result["jobs"] if not row["asked"]]
    assert [(row["job"], row["before"]["worth"], row["before"]["reason"]) for row in others] == [(None, None, None)]
    gains = {row["tenant"]: row for row in result["tenants"]}
    assert set(gains) == {first.tenant.slug, None, "operator"}
    assert gains[None]["before"] is None
    assert "castor" not in answer.content.decode()
    [row] = caller.get(there).json()["results"]
    assert (row["id"], "result" in row) == (document["id"], False)
    problem(caller.post(f"{there}{document['id']}/cancel/"), 409, "what_if_over")


def test_auditor_reads_every_name_and_a_submitter_no_gains() -> None:
    pool, (first, second), interval = make_rivals()
    there = f"tenants/{first.tenant.slug}/what-ifs/"
    body = {"pool": pool.slug, "interval": interval.number, "job": first.pk, "field": "rent", "value": "never"}
    auditor, submitter = program_of(AUDITOR, first.tenant), program_of(SUBMITTER, first.tenant)
    places = [caller.post(there, body)["Location"] for caller in (auditor, submitter)]
    what_ifs_round(clock=timezone.now)
    whole = auditor.get(places[0]).json()["result"]
    assert {row["job"] for row in whole["jobs"]} == {first.pk, second.pk}
    assert {row["tenant"] for row in whole["tenants"]} == {"owner", "renter", "other", "operator"}
    tenants = submitter.get(places[1]).json()["result"]["tenants"]
    [own] = [row for row in tenants if row["tenant"] == first.tenant.slug]
    assert (own["before"], own["after"]) == (None, None)
    assert own["difference"] != "0.000000"
    problem(submitter.get(places[0]), 404, "unknown_what_if")


def test_token_that_reads_everything_calls_off_its_own_questions_alone() -> None:
    pool, (first, _), interval = make_rivals()
    there = f"tenants/{first.tenant.slug}/what-ifs/"
    body = {"pool": pool.slug, "interval": interval.number, "job": first.pk, "field": "rent", "value": "never"}
    staff, owner = make_staff(AUDITOR).user, program_of(OWNER, first.tenant)
    reader = program(staff, None, PRESETS["read"].scope_list)
    asker = program(staff, None, [*PRESETS["read"].scope_list, "audit:write"])
    theirs, other, own = (caller.post(there, body)["Location"] for caller in (owner, owner, reader))
    problem(reader.post(f"{theirs}cancel/"), 403, "not_allowed")
    assert reader.get(theirs).json()["state"] == "waiting"
    assert reader.post(f"{own}cancel/").json()["state"] == "cancelled"
    assert asker.post(f"{other}cancel/").json()["state"] == "cancelled"


def test_refusal_says_which_part_of_the_question_it_is_about() -> None:
    pool, (first, second), interval = make_rivals()
    there, caller = f"tenants/{first.tenant.slug}/what-ifs/", program_of(OWNER, first.tenant)
    body = {"pool": pool.slug, "interval": interval.number, "job": first.pk, "field": "max_workers", "value": 2}
    for changed, status, code, field in (
        ({"job": second.pk}, 404, "unknown_job", "job"),
        ({"interval": 999}, 404, "unknown_interval", "interval"),
        ({"value": 99}, 422, "invalid_value", "value"),
        ({"value": 4}, 409, "no_change", "value"),
        ({"field": "tenant"}, 400, "invalid_request", "field"),
    ):
        document = problem(caller.post(there, body | changed), status, code)
        assert [error["field"] for error in document["errors"]] == [field], changed
    problem(caller.post(there, body | {"pool": "nowhere"}), 404, "unknown_pool")
    fields = caller.get(f"{there}fields/").json()["results"]
    assert {"field": "max_price", "unit": "credits"}.items() <= fields[-3].items()

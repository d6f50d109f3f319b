"""Fairness for programs: the same numbers as on the pages, and work that goes on by itself."""

from __future__ import annotations

import copy
from datetime import UTC
from decimal import Decimal
from unittest import mock

import pytest
from django.utils import timezone

from scheduling.audit.rounds import audits_next
from scheduling.models import AuditRun, FairnessAlert, Interval, IntervalFairness
from tenants.roles import AUDITOR, OPERATOR, OWNER
from tests.api.builders import Program, problem, program
from tests.audit.auditors import work_off
from tests.fairness.fair_world import Fair, make_fair
from tests.scheduling.builders import tell_history
from tests.tenants.builders import make_member, make_staff
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

built = built_once(make_fair)


@pytest.fixture
def fair(built: Fair) -> Fair:
    return copy.deepcopy(built)


def auditor() -> Program:
    return program(make_staff(AUDITOR).user, None)


def root(fair: Fair) -> str:
    return f"pools/{fair.pool.slug}/fairness/"


def span(fair: Fair) -> str:
    return f"?from={fair.pool.epoch_at.astimezone(UTC).date()}"


def test_overview_tenants_and_health_are_of_the_days_asked_for(fair: Fair) -> None:
    caller, days = auditor(), span(fair)
    body = caller.get(f"{root(fair)}{days}").json()
    assert (body["intervals"], body["broken"], body["behind"]) == (IntervalFairness.objects.count(), 0, 0)
    tenants = caller.get(f"{root(fair)}tenants/{days}").json()["results"]
    gains = sum(float(row["gain"]) for row in tenants)
    assert gains == pytest.approx(float(body["revenue"]), abs=1e-4)
    for row in tenants:
        own, rented, paid, received = (Decimal(row[name]) for name in ("own_value", "rented_value", "paid", "received"))
        assert Decimal(row["gain"]) == own + rented - paid + received
    assert body["worst_off"] in {row["tenant"] for row in tenants if row["reward"] is not None}
    health = caller.get(f"{root(fair)}health/{days}").json()
    assert health["one_bidder"] == IntervalFairness.objects.filter(renters=1).count() > 0
    assert caller.get(f"{root(fair)}?from=2001-01-01&to=2001-01-31").json()["intervals"] == 0
    problem(caller.get(f"{root(fair)}?from=2001-01-01&to=2001-12-31"), 400, "invalid_request")
    last = Interval.objects.latest("number").decided_at
    with mock.patch.object(timezone, "now", return_value=last):
        month = caller.get(f"{root(fair)}tenants/?limit=1").json()["next"]
    assert f"from={last:%Y-%m}-01&to={last:%Y-%m}-" in month  # the days that were understood
    csv = caller.get(f"{root(fair)}tenants/{days}&format=csv")
    assert csv.getvalue().decode().startswith("tenant,name,ratio,")


def test_tenant_reads_its_own_row_and_nobody_elses(fair: Fair) -> None:
    lumen, orrin = fair.tenants["lumen"], fair.tenants["orrin"]
    caller = program(make_member(lumen, OWNER).user, lumen)
    path = f"tenants/{{}}/pools/{fair.pool.slug}/fairness/{span(fair)}"
    assert caller.get(path.format(lumen.slug)).json()["tenant"] == "lumen"
    problem(caller.get(path.format(orrin.slug)), 404, "not_found")
    problem(caller.get(f"{root(fair)}tenants/"), 403, "not_allowed")
    problem(caller.get("audits/"), 403, "not_allowed")


def test_interval_has_every_certificate_with_its_arithmetic(fair: Fair) -> None:
    row = IntervalFairness.objects.filter(renters__gt=0).order_by("number")[0]
    caller = auditor()
    body = caller.get(f"{root(fair)}intervals/{row.number}/").json()
    assert len(body["certificates"]) == row.certificates == body["fairness"]["certificates"] > 0
    for row_of_job in body["certificates"]:
        got = float(row_of_job["value"]) - float(row_of_job["paid"])
        assert float(row_of_job["got"]) == pytest.approx(got, abs=1e-5)
    assert body["out_of_sum"] == "0.000000"
    problem(caller.get(f"{root(fair)}intervals/9999/"), 404, "not_found")


def test_verification_is_started_followed_and_read(fair: Fair) -> None:
    caller = auditor()
    tell_history(fair.pool)
    started = caller.post(f"{root(fair)}verify/", {"what": "everything"}, key="once")
    assert (started.status_code, started.json()["state"]) == (202, "queued")
    assert caller.post(f"{root(fair)}verify/", {"what": "everything"}, key="once").json() == started.json()
    assert AuditRun.objects.count() == 1
    there = f"audits/{started.json()['id']}/"
    assert started["Location"].endswith(there)
    audits_next(clock=timezone.now)
    body = caller.get(there).json()
    assert (body["state"], body["done"]) == ("running", 0)
    assert body["total"] > IntervalFairness.objects.count()
    work_off()
    problem(caller.post(f"{there}cancel/"), 409, "audit_over")
    body = caller.get(there).json()
    assert body["result"]["findings"] == []
    assert (body["state"], body["clean"], body["result"]["count"]) == ("done", True, 0)
    problem(caller.get(f"{there}file/"), 404, "not_found")
    problem(caller.post(f"{root(fair)}verify/", {"what": "charge", "number": 99999}), 404, "unknown_job")
    problem(caller.post(f"{root(fair)}verify/", {"what": "interval"}), 404, "unknown_interval")
    problem(caller.post(f"{root(fair)}verify/", {"what": "bundle"}), 400, "invalid_request")


@pytest.mark.usefixtures("nothing_built")
def test_bundle_is_made_and_downloaded_by_a_program() -> None:
    fair = make_fair(6)
    caller = auditor()
    days = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-01T00:00:00Z"}
    problem(caller.post(f"{root(fair)}bundles/", days), 422, "invalid_period")
    problem(caller.post(f"{root(fair)}bundles/", days | {"end": "2027-03-01T00:00:00Z"}), 422, "invalid_period")
    for begin, end in (
        ("0001-01-01T00:00:00Z", "0001-01-02T00:00:00Z"),
        ("9999-12-30T00:00:00Z", "9999-12-31T00:00:00Z"),
    ):
        refused = problem(caller.post(f"{root(fair)}bundles/", {"start": begin, "end": end}), 422, "invalid_period")
        assert refused["detail"] == "A period begins on 2000-01-01 or later, and ends before 9000-01-01."
    days = {"start": fair.pool.epoch_at.isoformat(), "end": timezone.now().isoformat()}
    started = caller.post(f"{root(fair)}bundles/", days).json()
    audits_next(clock=timezone.now)
    file = caller.get(f"audits/{started['id']}/file/")
    assert (file.status_code, file["Content-Type"]) == (200, "application/zip")
    assert file.getvalue()[:2] == b"PK"


@pytest.mark.usefixtures("nothing_built")
def test_operator_sets_limits_and_the_auditor_only_reads_them() -> None:
    fair = make_fair(6)
    body = {"thresholds": {"jain_index": 0.9}, "reason": "The audit asks."}
    operator = program(make_staff(OPERATOR).user, None)
    limits = operator.put(f"{root(fair)}alerts/", body).json()["alerts"]
    assert {row["measure"]: row["threshold"] for row in limits}["jain_index"] == 0.9
    problem(operator.put(f"{root(fair)}alerts/", body | {"thresholds": {"luck": 1.0}}), 422, "invalid_measure")
    reader = auditor()
    problem(reader.put(f"{root(fair)}alerts/", body), 403, "not_allowed")
    alerts = reader.get(f"{root(fair)}alerts/").json()["results"]
    assert [row["threshold"] for row in alerts if row["threshold"] is not None] == [0.9]
    assert FairnessAlert.objects.count() == 1

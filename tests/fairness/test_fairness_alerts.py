"""A limit of fairness that is passed is told once, to everybody and to those it is about, and again only after it came
back."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from django.utils import timezone

from scheduling.fairness.alerts import MEASURES, alerts_look, alerts_set
from scheduling.fairness.read_alerts import alerts_of
from scheduling.feed.kinds import OWN_KINDS
from scheduling.models import Event, FairnessAlert, PoolDay
from tenants.access import Access, Refused, access_of_system
from tenants.models import AuditEntry
from tenants.roles import AUDITOR, OPERATOR
from tests.fairness.fair_world import Fair, make_fair
from tests.scheduling.pages import client_as, text_of
from tests.worlds import built_once

pytestmark = pytest.mark.django_db
BY = access_of_system("a test")

built = built_once(make_fair)


@pytest.fixture
def fair(built: Fair) -> Fair:
    return copy.deepcopy(built)


def limit(fair: Fair, **thresholds: float | None) -> Refused | None:
    return alerts_set(pool=fair.pool, thresholds=thresholds, by=BY, reason="The audit asks.", at=timezone.now())


def events_of(kind: str) -> list[Event]:
    return list(Event.objects.filter(kind=kind).order_by("pk"))


def version_in(page: Any) -> str:
    field = re.search(r'<input type="hidden" name="version"(?: value="([^"]*)")?', page.content.decode())
    return (field[1] or "") if field else ""


def look() -> int:
    return alerts_look(at=timezone.now())


def test_passing_a_limit_is_told_once_and_again_after_it_came_back(fair: Fair) -> None:
    assert limit(fair, one_bidder=0.1, jain_index=0.5) is None
    assert (look(), look(), look()) == (1, 0, 0)
    (event,) = events_of("fairness_alert")
    assert (event.tenant_id, event.data["measure"], event.data["threshold"]) == (None, "one_bidder", 0.1)
    assert event.data["value"] > 0.1
    assert FairnessAlert.objects.get(measure="one_bidder").passed_at is not None
    days = list(PoolDay.objects.values("pk", "one_bidder"))
    PoolDay.objects.update(one_bidder=0)
    assert look() == 0
    assert [event.data["measure"] for event in events_of("fairness_alert_over")] == ["one_bidder"]
    for row in days:
        PoolDay.objects.filter(pk=row["pk"]).update(one_bidder=row["one_bidder"])
    assert look() == 1
    assert len(events_of("fairness_alert")) == 2


def test_tenants_that_it_is_about_are_told_by_an_event_of_their_own(fair: Fair) -> None:
    limit(fair, lowest_ratio=0.5)  # Pelican keeps its cells and gains nothing
    assert look() == 1
    (event,) = events_of("fairness_concern")
    assert (event.tenant_id, event.data["value"]) == (fair.tenants["pelican"].pk, 0.0)
    assert event.kind in OWN_KINDS  # so that a webhook can ask for it


def test_a_limit_that_is_changed_is_looked_at_anew_and_stands_in_the_history(fair: Fair) -> None:
    limit(fair, one_bidder=0.1)
    look()
    limit(fair, one_bidder=0.2)
    assert look() == 1
    entry = AuditEntry.objects.latest("sequence")
    assert (entry.action, entry.before, entry.after) == (
        "fairness_alerts_set",
        {"one_bidder": "0.1"},
        {"one_bidder": "0.2"},
    )
    limit(fair, one_bidder=None)
    assert not FairnessAlert.objects.exists()
    entries = AuditEntry.objects.count()
    limit(fair, one_bidder=None)
    assert AuditEntry.objects.count() == entries


@pytest.mark.parametrize(
    ("thresholds", "reason", "role", "code"),
    [
        ({"one_bidder": 0.1}, "Because.", AUDITOR, "not_allowed"),
        ({"one_bidder": 0.1}, " ", OPERATOR, "reason_missing"),
        ({"happiness": 0.1}, "Because.", OPERATOR, "invalid_measure"),
        ({"one_bidder": -1.0}, "Because.", OPERATOR, "invalid_threshold"),
        ({"one_bidder": float("nan")}, "Because.", OPERATOR, "invalid_threshold"),
    ],
)
def test_what_cannot_be_set_is_refused(
    thresholds: dict[str, float], reason: str, role: str, code: str, fair: Fair
) -> None:
    by = Access(user=None, tenant=None, roles=frozenset({role}))
    answer = alerts_set(pool=fair.pool, thresholds=thresholds, by=by, reason=reason, at=timezone.now())
    assert isinstance(answer, Refused)
    assert answer.code == code
    assert not FairnessAlert.objects.exists()


def test_every_measure_is_beyond_on_its_bad_side_only() -> None:
    for measure in MEASURES.values():
        assert measure.is_beyond(2.0, 1.0) is measure.is_most
        assert measure.is_beyond(0.5, 1.0) is not measure.is_most
        assert not measure.is_beyond(1.0, 1.0)
        assert not measure.is_beyond(None, 1.0)


def test_of_two_operators_who_set_limits_the_second_is_told_of_the_first(fair: Fair) -> None:
    """The form sends all limits: that of the other one would be taken away without a word."""
    pool, client = fair.pool, client_as(OPERATOR, None)
    there = f"/fairness/pools/{pool.slug}/alerts/"
    page = {"version": version_in(client.get(there)), "reason": "The audit asks."}
    assert client.post(there, page | {"jain_index": "0.9"}).status_code == 302
    refused = client.post(there, page | {"lowest_ratio": "0.5"})
    assert "The limits were changed while you looked at them" in text_of(refused.content.decode())
    assert {row.measure: row.threshold for row in alerts_of(pool)} == {"jain_index": 0.9}
    again = page | {"version": version_in(refused), "lowest_ratio": "0.5", "jain_index": "0.9"}
    assert client.post(there, again).status_code == 302
    assert {row.measure: row.threshold for row in alerts_of(pool)} == {"jain_index": 0.9, "lowest_ratio": 0.5}

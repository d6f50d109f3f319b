"""What auditors ask for: verified or bundled by one process, and read on pages with its arithmetic."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, timedelta
from typing import Any

import pytest
from django.db.models import Sum
from django.test import Client
from django.utils import timezone

from scheduling.app.tasks import audits_tick
from scheduling.audit.bundle import public_key, signing_seed
from scheduling.audit.rounds import audits_next
from scheduling.models import AuditPart, AuditRun, IntervalFairness, VerificationRun
from tenants.common.zones import day_of
from tenants.roles import AUDITOR
from tests.audit.auditors import work_off
from tests.fairness.fair_world import make_fair
from tests.scheduling.builders import NOON, make_pool, tell_history
from tests.scheduling.pages import client_as, pieces_sent, text_of

pytestmark = pytest.mark.django_db


def renting_number() -> int:
    return IntervalFairness.objects.filter(renters__gt=0).order_by("number").values_list("number", flat=True)[0]


def lead(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return text_of(answer.content.decode())


def start(client: Client, **fields: Any) -> str:
    answer = client.post("/fairness/audits/start/", fields)
    assert answer.status_code == 302, answer.content
    return str(answer["Location"])


def test_auditor_verifies_a_charge_an_interval_and_everything_and_reads_the_arithmetic() -> None:
    fair = make_fair()
    tell_history(fair.pool)
    client = client_as(AUDITOR, None)
    charge = start(client, kind="charge", number=f"J-{fair.jobs[0].pk}")
    interval = start(client, kind="interval", pool=fair.pool.slug, number=renting_number())
    everything = start(client, kind="everything")
    assert 'hx-trigger="every 1s"' in client.get(charge).content.decode()
    assert "1 before it" in lead(client, interval)
    assert audits_next(clock=timezone.now) == 3
    total = VerificationRun.objects.aggregate(steps=Sum("total"))["steps"]
    assert f"of {total}" in lead(client, everything)
    assert "Call it off" in lead(client, everything)
    work_off()
    text = lead(client, charge)
    assert "Verified. Job" in text
    assert "1 worker × 0.0" in text
    assert "difference to what was paid: 0.00 0000" in text
    assert "hx-trigger" not in client.get(f"{charge}?part=state").content.decode()
    assert "÷" in lead(client, interval)
    run = AuditRun.objects.get(kind="everything")
    assert (run.state, run.is_clean, run.result["count"]) == ("done", True, 0), run.sentence
    assert run.sentence.startswith(f"{IntervalFairness.objects.count()} intervals decided again")
    assert "Last digest of main" in lead(client, everything)


def test_what_is_not_there_is_refused_in_a_sentence() -> None:
    fair = make_fair(8)
    client = client_as(AUDITOR, None)
    for fields in ({"kind": "charge", "number": "99999"}, {"kind": "interval", "pool": fair.pool.slug, "number": "x"}):
        assert client.post("/fairness/audits/start/", fields)["Location"] == "/fairness/audits/"
    assert "There is no such" in lead(client, "/fairness/audits/")
    assert client.post("/fairness/audits/start/", {"kind": "whatever"}).status_code == 404
    assert client.post("/fairness/audits/start/", {"kind": "bundle"}).status_code == 404
    for _ in range(5):
        start(client, kind="everything")
    assert client.post("/fairness/audits/start/", {"kind": "everything"})["Location"] == "/fairness/audits/"
    assert AuditRun.objects.count() == 5


@pytest.mark.parametrize(
    ("first", "last", "sentence"),
    [
        ("2026-03-27", "2026-03-01", "The period ends before it begins."),
        ("2026-03-02", "2026-03-01", "The period ends before it begins."),
        ("2025-01-01", "2026-03-01", "A bundle is of at most 93 days."),
        ("1 March", "2026-03-01", "Name the first day and the last one, like 2026-03-01."),
        ("2026-03-01", "", "Name the first day and the last one, like 2026-03-01."),
    ],
)
def test_days_that_make_no_bundle_are_refused_and_not_replaced_by_others(first: str, last: str, sentence: str) -> None:
    pool, client = make_pool(), client_as(AUDITOR, None)
    days = {"from": first, "to": last}
    assert start(client, kind="bundle", pool=pool.slug, **days) == "/fairness/audits/"
    assert sentence in lead(client, "/fairness/audits/")
    assert not AuditRun.objects.exists()


def test_bundle_is_made_taken_away_and_forgotten() -> None:
    fair = make_fair(8)
    client = client_as(AUDITOR, None)
    today = day_of(timezone.now(), UTC)
    days = {"from": (today - timedelta(days=2)).isoformat(), "to": today.isoformat()}
    there = start(client, kind="bundle", pool=fair.pool.slug, **days)
    assert client.get(f"{there}file/").status_code == 404
    audits_tick()  # as the market's own clock does it
    run = AuditRun.objects.get()
    assert run.state == "done", run.sentence
    download = client.get(f"{there}file/")
    content = download.getvalue()
    assert len(content) == run.size == int(download["Content-Length"])
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        assert {"check.py", "manifest.json", "signature.json", "intervals.jsonl"} <= set(bundle.namelist())
    assert run.result["public_key"] == public_key(signing_seed(at=timezone.now())).hex()
    assert run.result["public_key"] in lead(client, there)
    audits_next(clock=lambda: timezone.now() + timedelta(days=8))
    assert client.get(f"{there}file/").status_code == 404
    assert "is gone" in lead(client, there)


@pytest.mark.django_db(transaction=True)
def test_bundle_is_sent_piece_by_piece() -> None:
    run = AuditRun.objects.create(kind="bundle", pool=make_pool(), state="done", size=9, asked_at=NOON, ended_at=NOON)
    parts = [b"one", b"two", b"six"]
    AuditPart.objects.bulk_create(AuditPart(run=run, place=place, content=part) for place, part in enumerate(parts))
    client = client_as(AUDITOR, None)
    for address in (f"/fairness/audits/{run.pk}/file/", f"/api/v1/audits/{run.pk}/file/"):
        assert client.get(address)["Content-Length"] == "9"
        assert pieces_sent(client, address) == parts


def test_auditor_calls_off_what_is_not_done() -> None:
    make_fair(4)
    client = client_as(AUDITOR, None)
    there = start(client, kind="everything")
    assert client.post(f"{there}cancel/")["Location"] == there
    text = lead(client, there)
    assert "Called off. auditor" in text
    assert "has called it off." in text
    assert "Called off" in lead(client, "/fairness/audits/")
    client.post(f"{there}cancel/")
    assert "It is over." in lead(client, there)


def test_request_that_a_process_left_behind_is_done_again() -> None:
    fair = make_fair(8)
    start(client_as(AUDITOR, None), kind="charge", number=fair.jobs[0].pk)
    AuditRun.objects.update(state="running", began_at=timezone.now())  # and its process ended
    assert audits_next(clock=timezone.now) == 1
    assert AuditRun.objects.get().state == "done"


def test_request_that_ends_its_process_is_not_tried_for_ever() -> None:
    fair = make_fair(4)
    start(client_as(AUDITOR, None), kind="charge", number=fair.jobs[0].pk)
    AuditRun.objects.update(state="running", began_at=timezone.now(), result={"again": True})  # it was left before
    assert audits_next(clock=timezone.now) == 0
    run = AuditRun.objects.get()
    assert (run.state, run.result) == ("failed", {})
    assert "broke off twice" in run.sentence


def test_request_that_breaks_says_so_and_the_next_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    fair = make_fair(8)
    client = client_as(AUDITOR, None)
    there = start(client, kind="charge", number=fair.jobs[0].pk)

    def broken(*_: object) -> None:
        raise ArithmeticError("two and two")

    with monkeypatch.context() as patch:
        patch.setattr("scheduling.audit.rounds.verified", broken)
        assert audits_next(clock=timezone.now) == 1
    assert "It broke off: ArithmeticError: two and two." in lead(client, there)
    start(client, kind="charge", number=fair.jobs[0].pk)
    audits_next(clock=timezone.now)
    assert set(AuditRun.objects.values_list("state", flat=True)) == {"failed", "done"}

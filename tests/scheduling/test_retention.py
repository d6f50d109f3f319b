"""What is older than an installation keeps it goes, in pieces, and what proves something stays."""

from __future__ import annotations

import io
import json
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command
from pytest_django.fixtures import Settings

from scheduling.app.retention import retention_apply, retention_preview
from scheduling.models import Event, JobReport, JobState, TrainingJob, Webhook, WebhookDelivery, WebhookTry
from scheduling.runs.old_reports import reports_forget
from scheduling.webhooks.changes import webhook_remove, webhook_replay
from scheduling.webhooks.deliveries import deliveries_collect
from scheduling.webhooks.forgetting import deliveries_forget
from tenants.access import Access
from tenants.models import AuditEntry
from tenants.scoping import scope
from tests.another_account import another_account
from tests.scheduling.builders import make_pool
from tests.tenants.builders import NOW
from tests.webhooks.hooks import BROKE, Receiver, go, make, owner, rows, tell

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("committed")]
LATER = NOW + timedelta(days=100)


@pytest.fixture(autouse=True)
def _limits(settings: Settings, tmp_path: Path) -> None:
    settings.RETENTION_DELIVERIES_DAYS, settings.RETENTION_RUN_FILES_DAYS = 90, 30
    settings.RETENTION_NOTICES_READ_DAYS, settings.RETENTION_NOTICES_UNREAD_DAYS = 90, 365
    settings.RETENTION_REPORTS_DAYS, settings.RETENTION_ARCHIVES_DAYS = 90, 365
    settings.RUNS_DIR = tmp_path / "runs"


def apply(at: datetime = LATER) -> dict[str, int]:
    outcome = retention_apply(clock=lambda: at)
    assert outcome is not None
    return outcome


def lines() -> list[dict[str, int]]:
    return list(
        AuditEntry.objects.filter(action="retention_apply").order_by("sequence").values_list("after", flat=True)
    )


class TestDeliveries:
    def test_what_was_told_long_ago_goes_with_its_tries_and_the_events_stay(self) -> None:
        by = owner()
        make(by)
        tell(by.tenant, *["job_started"] * 5)
        go(Receiver())
        tell(by.tenant, "job_finished")
        go(Receiver(), LATER - timedelta(days=1))
        events = Event.objects.count()
        assert retention_preview(at=LATER) == {
            "sessions": 0, "deliveries": 5, "tries": 5, "notices": 0, "reports": 0,
            "run_files_of_jobs": 0, "run_files_bytes": 0, "archives": 0, "archives_bytes": 0,
        }  # fmt: skip
        assert len(rows(WebhookDelivery)) == 6
        assert (apply()["deliveries"], apply()["deliveries"]) == (5, 0)
        (line,) = lines()
        assert (line["deliveries"], line["tries"]) == (5, 5)
        assert [row.event.kind for row in rows(WebhookDelivery)] == ["job_finished"]
        assert len(rows(WebhookTry)) == 1
        assert Event.objects.count() == events
        assert go(Receiver(), LATER) == 0  # nothing is told twice

    def test_what_waits_or_was_replayed_stays_and_what_waits_for_a_removed_webhook_goes(self) -> None:
        by = owner()
        waiting, removed = make(by), make(by)
        tell(by.tenant, "job_started", "job_finished")
        go(Receiver(BROKE))
        deliveries_collect(at=NOW)
        with scope(by.tenant):
            webhook_remove(webhook_id=removed.pk, by=by, at=NOW + timedelta(days=1))
            WebhookDelivery.objects.filter(webhook=waiting).update(state="delivered", ended_at=NOW)
            again = WebhookDelivery.objects.filter(webhook=waiting).order_by("pk")[0]
            webhook_replay(webhook_id=waiting.pk, delivery_id=again.pk, by=by, at=LATER)
        assert apply()["deliveries"] == 3
        assert [row.pk for row in rows(WebhookDelivery)] == [again.pk]
        assert len(rows(Webhook)) == 2

    def test_pieces_are_small_and_stop_before_what_is_young(self) -> None:
        by = owner()
        make(by)
        tell(by.tenant, *["job_started"] * 5)
        go(Receiver())
        before, after, counts = LATER - timedelta(days=90), 0, []
        while after is not None:
            piece = deliveries_forget(before=before, after=after, most=2)
            counts.append(piece.deliveries)
            after = piece.last
        assert counts == [2, 2, 1]
        tell(by.tenant, *["job_started"] * 5)
        go(Receiver(), LATER)
        assert deliveries_forget(before=before, most=2).last is None

    def test_nothing_goes_where_it_is_kept_for_good(self, settings: Settings) -> None:
        settings.RETENTION_DELIVERIES_DAYS = settings.RETENTION_RUN_FILES_DAYS = 0
        settings.RETENTION_NOTICES_READ_DAYS = settings.RETENTION_NOTICES_UNREAD_DAYS = 0
        settings.RETENTION_REPORTS_DAYS = settings.RETENTION_ARCHIVES_DAYS = 0
        by = owner()
        make(by)
        tell(by.tenant, "job_started")
        go(Receiver())
        assert apply() == {"sessions": 0}
        assert len(rows(WebhookDelivery)) == 1
        assert lines() == []


class TestReports:
    def test_what_programs_of_jobs_reported_that_ended_long_ago_goes(self) -> None:
        by = owner()
        old = make_job(by, JobState.FINISHED, NOW)
        fresh = make_job(by, JobState.FINISHED, LATER - timedelta(days=1))
        live = make_job(by, JobState.RUNNING, None)
        for job in (old, fresh, live):
            report(job)
        assert retention_preview(at=LATER)["reports"] == 1
        assert (apply()["reports"], apply()["reports"]) == (1, 0)
        assert {row.job_id for row in rows(JobReport)} == {fresh.pk, live.pk}
        assert [line["reports"] for line in lines()] == [1]
        assert len(rows(TrainingJob)) == 3

    def test_pieces_are_small_and_go_to_the_newest_job(self) -> None:
        by = owner()
        for number in range(5):
            report(make_job(by, JobState.FINISHED, NOW if number % 2 else LATER))
        after, counts = 0, []
        while after is not None:
            piece = reports_forget(before=LATER, after=after, most=2)
            counts.append(piece.reports)
            after = piece.last
        assert counts == [1, 1, 0]


class TestFiles:
    def test_files_of_jobs_that_ended_long_ago_go_and_no_others(self, settings: Settings, tmp_path: Path) -> None:
        by, runs = owner(), settings.RUNS_DIR
        old = make_job(by, JobState.FINISHED, NOW)
        fresh = make_job(by, JobState.FINISHED, LATER - timedelta(days=1))
        live = make_job(by, JobState.RUNNING, None)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.write_text("not ours")
        for name in (f"job-{old.pk}", f"job-{fresh.pk}", f"job-{live.pk}", "job-0", "job-999999", "other"):
            (runs / name / "work").mkdir(parents=True)
            (runs / name / "work" / "state").write_bytes(b"x" * 100)
        (runs / f"job-{old.pk}" / "link").symlink_to(elsewhere)
        (runs / "alive").touch()
        assert retention_preview(at=LATER)["run_files_bytes"] == 100
        counts = apply()
        assert (counts["run_files_of_jobs"], counts["run_files_bytes"], counts["run_files_refused"]) == (1, 100, 0)
        names = {f"job-{fresh.pk}", f"job-{live.pk}", "job-0", "job-999999", "other", "alive"}
        assert {place.name for place in runs.iterdir()} == names
        assert elsewhere.read_text() == "not ours"
        assert len(rows(TrainingJob)) == 3

    def test_files_of_a_cluster_lie_in_its_shared_folder_and_go_too(self, settings: Settings, tmp_path: Path) -> None:
        """One job has files in both, and a pool's engine is configured no more."""
        shared = tmp_path / "shared"
        site = {"kind": "slurm", "partition": "main", "shared": str(shared)}
        settings.ENGINES_FILE = str(tmp_path / "engines.json")
        Path(settings.ENGINES_FILE).write_text(json.dumps({"slurm": site}))
        for slug, engine in (("cluster", "slurm"), ("other", "gone")):
            make_pool(slug=slug, engine=engine)
        by = owner()
        old, live = make_job(by, JobState.FINISHED, NOW), make_job(by, JobState.RUNNING, None)
        for root in (settings.RUNS_DIR, shared):
            for job in (old, live):
                (root / f"job-{job.pk}" / "work").mkdir(parents=True)
                (root / f"job-{job.pk}" / "work" / "state").write_bytes(b"x" * 100)
        preview = retention_preview(at=LATER)
        assert (preview["run_files_of_jobs"], preview["run_files_bytes"]) == (1, 200)
        counts = apply()
        assert (counts["run_files_of_jobs"], counts["run_files_bytes"]) == (1, 200)
        assert [place.name for place in shared.iterdir()] == [f"job-{live.pk}"]

    def test_files_of_somebody_else_are_counted_and_tell_nothing_to_the_history(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = make_job(owner(), JobState.FAILED, NOW)
        (settings.RUNS_DIR / f"job-{job.pk}").mkdir(parents=True)

        def refuse(folder: Path) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("scheduling.runs.old_files.removed_folder", refuse)
        assert apply()["run_files_refused"] == 1
        assert lines() == []

    def test_folder_of_another_account_keeps_its_files_and_nothing_else(self, settings: Settings) -> None:
        """An engine of root gives each gang an account of its own, and the worker has another one."""
        by = owner()
        job = make_job(by, JobState.FAILED, NOW)
        make(by)
        tell(by.tenant, "job_started")
        go(Receiver())
        with tempfile.TemporaryDirectory() as outer:
            settings.RUNS_DIR = runs = Path(outer) / "runs"
            work = runs / f"job-{job.pk}" / "work"
            work.mkdir(parents=True)
            for place, mode in ((outer, 0o755), (work.parent, 0), (runs, 0o755)):
                Path(place).chmod(mode)
            with another_account():
                preview = retention_preview(at=LATER)
                assert (preview["run_files_of_jobs"], preview["run_files_bytes"]) == (1, 0)
                outcome = apply()
                assert (outcome["deliveries"], outcome["run_files_refused"]) == (1, 1)
            runs.chmod(0o311)
            with another_account():
                assert apply()["deliveries"] == 0
            for place in (runs, work.parent):
                place.chmod(0o700)
            assert work.is_dir()


def test_command_says_what_would_go_and_applies_it_once(settings: Settings) -> None:
    for key, days in (("over", -2), ("open", 20_000)):
        Session.objects.create(session_key=key, session_data="", expire_date=NOW + timedelta(days=days))
    assert output() == [
        "RETENTION_DELIVERIES_DAYS: 90 days",
        "RETENTION_NOTICES_READ_DAYS: 90 days",
        "RETENTION_NOTICES_UNREAD_DAYS: 365 days",
        "RETENTION_REPORTS_DAYS: 90 days",
        "RETENTION_RUN_FILES_DAYS: 30 days",
        "RETENTION_ARCHIVES_DAYS: 365 days",
        "sessions: 1 would go",
        "deliveries: 0 would go",
        "tries: 0 would go",
        "notices: 0 would go",
        "reports: 0 would go",
        "run files of jobs: 0 would go",
        "run files bytes: 0 would go",
        "archives: 0 would go",
        "archives bytes: 0 would go",
    ]
    assert Session.objects.count() == 2
    assert "sessions: 1 removed" in output(apply=True)
    assert "sessions: 0 removed" in output(apply=True)
    assert [key.session_key for key in Session.objects.all()] == ["open"]
    assert [line["sessions"] for line in lines()] == [1]


def output(**options: bool) -> list[str]:
    out = io.StringIO()
    call_command("retention", stdout=out, **options)
    return out.getvalue().splitlines()


def make_job(by: Access, state: str, ended_at: datetime | None) -> TrainingJob:
    pool = make_pool() if not rows(TrainingJob) else rows(TrainingJob)[0].pool
    assert by.tenant
    with scope(by.tenant):
        return TrainingJob.objects.create(
            tenant=by.tenant,
            pool=pool,
            name="old",
            lane="batch",
            state=state,
            reason_code="test",
            spec={},
            submitted_at=NOW,
            arrival=0.0,
            ended_at=ended_at,
        )


def report(job: TrainingJob) -> None:
    with scope(job.tenant):
        JobReport.objects.create(job=job, tenant=job.tenant, heard_at=NOW, losses=[1.0, 0.5], source="fitted")

"""What a job's program did: its log page by page, and its progress with the loss of every epoch."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.models import Run, RunState
from scheduling.selectors.job_rows import job_by_id
from scheduling.selectors.runs import curve, job_runs, line_of, log_page, predicted_end
from tenants.api.fields import Answer, Moment
from tenants.api.listing import whole
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.roles import Permission

MOST_LINES = 500
AFTER = whole("after", "Where the last page ended: its `after`. Without it, from the beginning.", "")


class LogLineShown(Answer):
    at = Moment()
    who = serializers.CharField(help_text="`engine`, `coordinator 0`, or a worker or parameter server with its rank.")
    text = serializers.CharField()


class LogShown(Answer):
    run = serializers.IntegerField(allow_null=True, help_text="Each run has a log of its own; null before the first.")
    lines = LogLineShown(many=True, help_text=f"At most {MOST_LINES}.")
    after = serializers.IntegerField(help_text="Ask for the next page with this.")
    more = serializers.BooleanField(help_text="There is a next page already.")


class EpochShown(Answer):
    epoch = serializers.IntegerField()
    at = Moment(help_text="When it was complete.")
    loss = serializers.FloatField()
    seconds = serializers.FloatField()
    workers = serializers.IntegerField()


class RunShown(Answer):
    run = serializers.IntegerField()
    state = serializers.ChoiceField(RunState.choices)
    detail = serializers.CharField(help_text="Why it ended; empty while it runs.")
    started_at = Moment(allow_null=True)
    ended_at = Moment(allow_null=True)
    lost_workers = serializers.IntegerField(help_text="Workers that were lost and started again.")


class ProgressShown(Answer):
    runs = RunShown(many=True, help_text="The newest first; empty before the first, and where the job has no program.")
    epoch = serializers.IntegerField(help_text="Epochs that are complete.")
    epochs = serializers.IntegerField()
    predicted_end = Moment(allow_null=True, help_text="By its speed.")
    minibatch_seconds = serializers.FloatField(allow_null=True, help_text="Measured: one mini-batch on one worker.")
    exchange_seconds = serializers.FloatField(allow_null=True, help_text="Measured: one exchange of gradients.")
    curve = EpochShown(many=True)


LOG_EXAMPLE: dict[str, Any] = {
    "run": 12,
    "lines": [
        {
            "at": "2026-03-02T12:20:00.041000Z",
            "who": "engine",
            "text": "Started: 3 processes and a coordinator on s1.",
        },
        {"at": "2026-03-02T12:20:04.812000Z", "who": "coordinator 0", "text": "epoch 1 of 20: loss 1.3862"},
    ],
    "after": 148,
    "more": False,
}
PROGRESS_EXAMPLE: dict[str, Any] = {
    "runs": [
        {
            "run": 12,
            "state": "running",
            "detail": "",
            "started_at": "2026-03-02T12:20:00.041000Z",
            "ended_at": None,
            "lost_workers": 0,
        }
    ],
    "epoch": 1,
    "epochs": 20,
    "predicted_end": "2026-03-02T12:21:16.812000Z",
    "minibatch_seconds": 0.71,
    "exchange_seconds": 0.002,
    "curve": [{"epoch": 1, "at": "2026-03-02T12:20:04.812000Z", "loss": 1.3862, "seconds": 3.6, "workers": 2}],
}


class JobLogs(TenantView):
    @operation(
        "jobs_logs",
        summary="The log of a job",
        description="Of its newest run, from the oldest line on. A program that writes too much is cut, and the log "
        "says so. When `run` changes, begin again without `after`.",
        permission=Permission.JOBS_VIEW,
        answer=LogShown,
        filters=(AFTER,),
        answer_example=LOG_EXAMPLE,
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        runs = _runs(job_id)
        if not runs:
            return self.shown(LogShown, {"run": None, "lines": [], "after": 0, "more": False})
        page = log_page(runs[0], int(self.parameters.get("after") or 0), MOST_LINES)
        lines = [line_of(line) for line in page.lines]
        return self.shown(LogShown, {"run": runs[0].pk, "lines": lines, "after": page.after, "more": page.more})


class JobProgress(TenantView):
    @operation(
        "jobs_progress",
        summary="How far a job is",
        description="The loss of every epoch over all runs of the job, its measured speed, and when it will be done.",
        permission=Permission.JOBS_VIEW,
        answer=ProgressShown,
        answer_example=PROGRESS_EXAMPLE,
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        runs = _runs(job_id)
        points = curve(runs)
        told = runs[0].progress if runs else {}
        epochs = int(told.get("epochs", 0))
        values = {
            "runs": [_run_values(run) for run in runs],
            "epoch": points[-1].epoch if points else 0,
            "epochs": epochs,
            "predicted_end": predicted_end(runs[0], points, epochs) if runs else None,
            "minibatch_seconds": told.get("minibatch_seconds"),
            "exchange_seconds": told.get("exchange_seconds"),
            "curve": points,
        }
        return self.shown(ProgressShown, values)


def _runs(job_id: int) -> list[Run]:
    """Those of another tenant's job are nowhere."""
    job = job_by_id(job_id)
    if job is None:
        raise Http404
    return job_runs(job)


def _run_values(run: Run) -> dict[str, Any]:
    return {
        "run": run.pk,
        "state": run.state,
        "detail": run.detail,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "lost_workers": run.restarts,
    }

"""What a job's program did: its log page by page, and its progress with the loss of every epoch."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.jobs import (
    UNKNOWN_RUN,
    LogQuestion,
    NumberedRun,
    curve,
    job_outlook,
    job_runs,
    log_found,
    log_name,
    log_whole,
    numbered_runs,
    numbers_view,
    predicted_end,
    run_numbered,
    series_of,
    why_no_log,
)
from scheduling.jobs.api.jobs import job_or_404
from scheduling.models import RunState, TrainingJob
from scheduling.programs.levels import LEVELS
from tenants.access import Refused
from tenants.api.fields import Answer, Moment
from tenants.api.listing import choice, whole, word
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.roles import Permission

MOST_LINES = 500
AFTER = whole("after", "Where the last page ended: its `after`. Without it, from the beginning.", "")
SEARCH = word("search", "Only lines with this text, in whichever case.", "")
LEVEL = choice("level", LEVELS, "Only lines that say this level or a graver one.", "")
WHO = word("who", "Only lines of this one, as `worker 1`.", "")
RUN_NUMBER = whole("run_number", "Which of the job's `runs`: 1 is the first. Without it, the newest.", "", least=1)
TEXT = "text/plain"


class LogLineShown(Answer):
    at = Moment()
    who = serializers.CharField(help_text="`engine`, `coordinator 0`, or a worker or parameter server with its rank.")
    text = serializers.CharField()
    level = serializers.ChoiceField(
        [("", "none"), *((level, level) for level in LEVELS)], help_text="As far as the line says one in a usual way."
    )


class LogShown(Answer):
    run = serializers.IntegerField(allow_null=True, help_text="Each run has a log of its own; null before the first.")
    run_number = serializers.IntegerField(allow_null=True, help_text="Its number among the job's runs.")
    runs = serializers.IntegerField(help_text="How many runs the job has: their numbers are 1 to this.")
    lines = LogLineShown(many=True, help_text=f"At most {MOST_LINES}.")
    after = serializers.IntegerField(help_text="Ask for the next page with this.")
    more = serializers.BooleanField(help_text="There is a next page already.")
    sentence = serializers.CharField(help_text="Why the run has no log; empty where it has one, or may still get one.")


class EpochShown(Answer):
    epoch = serializers.IntegerField()
    at = Moment(help_text="When it was complete.")
    loss = serializers.FloatField()
    seconds = serializers.FloatField()
    workers = serializers.IntegerField()


class RunShown(Answer):
    run = serializers.IntegerField()
    run_number = serializers.IntegerField(help_text="Among the job's runs, by which its log is asked for.")
    state = serializers.ChoiceField(RunState.choices)
    detail = serializers.CharField(help_text="Why it ended; empty while it runs.")
    started_at = Moment(allow_null=True)
    ended_at = Moment(allow_null=True)
    lost_workers = serializers.IntegerField(help_text="Workers that were lost and started again.")


class NumberPointShown(Answer):
    at = Moment(help_text="When it was read.")
    value = serializers.FloatField()


class SeriesShown(Answer):
    name = serializers.CharField(help_text="As the program calls it.")
    points = NumberPointShown(many=True, help_text="At most 400, evenly thinned, with the newest.")


class OutlookShown(Answer):
    threshold_percent = serializers.FloatField(source="threshold", help_text="Of the largest loss, in an epoch.")
    patience = serializers.IntegerField(help_text="Epochs in a row in which the loss moves by less than that.")
    most_epochs = serializers.IntegerField(source="most")
    epochs_done = serializers.IntegerField(source="done", help_text="As its program reported.")
    epochs_left = serializers.IntegerField(
        source="left", allow_null=True, help_text="Null: nothing was reported yet, or it is over."
    )
    least_left = serializers.IntegerField(source="low", allow_null=True)
    most_left = serializers.IntegerField(source="high", allow_null=True)
    by_its_loss = serializers.BooleanField(
        source="estimated_now", help_text="Whether its loss curve says so; else what is left of its most epochs counts."
    )
    ended_after = serializers.IntegerField(allow_null=True, help_text="Epochs, where it ended by itself.")
    converged = serializers.BooleanField()


class ProgressShown(Answer):
    runs = RunShown(many=True, help_text="The newest first; empty before the first, and where the job has no program.")
    epoch = serializers.IntegerField(help_text="Epochs that are complete.")
    epochs = serializers.IntegerField()
    predicted_end = Moment(allow_null=True, help_text="By its speed.")
    minibatch_seconds = serializers.FloatField(allow_null=True, help_text="Measured: one mini-batch on one worker.")
    exchange_seconds = serializers.FloatField(allow_null=True, help_text="Measured: one exchange of gradients.")
    curve = EpochShown(many=True, help_text="Of our own trainer.")
    numbers = SeriesShown(many=True, help_text="What a program of people's own reported, by name.")
    bad_lines = serializers.IntegerField(help_text="Lines that it reported and that could not be read.")
    address = serializers.CharField(help_text="Where it can be watched, as it printed itself; empty where it did not.")
    outlook = OutlookShown(
        allow_null=True, help_text="Of a job that ends when its loss has stopped falling (`until_converged`)."
    )


LOG_EXAMPLE: dict[str, Any] = {
    "run": 12,
    "run_number": 2,
    "runs": 2,
    "lines": [
        {
            "at": "2026-03-02T12:20:00.041000Z",
            "who": "engine",
            "text": "Started: 3 processes and a coordinator on s1.",
            "level": "",
        },
        {
            "at": "2026-03-02T12:20:04.812000Z",
            "who": "coordinator 0",
            "text": "epoch 1 of 20: loss 1.3862",
            "level": "",
        },
    ],
    "after": 148,
    "more": False,
    "sentence": "",
}
PROGRESS_EXAMPLE: dict[str, Any] = {
    "runs": [
        {
            "run": 12,
            "run_number": 2,
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
    "numbers": [],
    "bad_lines": 0,
    "address": "",
    "outlook": {
        "threshold_percent": 1.0,
        "patience": 3,
        "most_epochs": 20,
        "epochs_done": 12,
        "epochs_left": 3,
        "least_left": 2,
        "most_left": 4,
        "by_its_loss": True,
        "ended_after": None,
        "converged": False,
    },
}


class JobLogs(TenantView):
    @operation(
        "jobs_logs",
        summary="The log of a job",
        description="Of its newest run, or of the one that `run_number` names, from the oldest line on. A program that "
        "writes too much is cut, and the log says so. When `run` changes, begin again without `after`. A search looks "
        "through four MiB at a time: where nothing is found and there is `more`, go on from `after`.",
        permission=Permission.JOBS_VIEW,
        answer=LogShown,
        filters=(AFTER, SEARCH, LEVEL, WHO, RUN_NUMBER),
        refusals=(UNKNOWN_RUN,),
        answer_example=LOG_EXAMPLE,
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        job, query = job_or_404(job_id), self.parameters
        its = _run(job, query.get("run_number"))
        if isinstance(its, Refused):
            return self.refused(its)
        if its is None:
            nothing: dict[str, Any] = {"run": None, "run_number": None, "runs": 0, "after": 0, "more": False}
            return self.shown(LogShown, nothing | {"lines": [], "sentence": ""})
        levels = query.get("level") or [""]
        question = LogQuestion(query.get("search", ""), min(levels, key=[*LEVELS, ""].index), query.get("who", ""))
        page = log_found(its.run, question, int(query.get("after") or 0), MOST_LINES)
        values = {"run": its.run.pk, "run_number": its.number, "runs": its.of, **vars(page)}
        return self.shown(LogShown, values | {"sentence": why_no_log(job, its.run, timezone.now())})


class JobLogFile(TenantView):
    @operation(
        "jobs_log_file",
        summary="The log of a job as a file",
        description="All of its newest run's, or of the one that `run_number` names, as text: a line for each, with "
        "its moment and who wrote it. Empty where there is no log; `/logs/` says why.",
        permission=Permission.JOBS_VIEW,
        filters=(RUN_NUMBER,),
        refusals=(UNKNOWN_RUN,),
        file=TEXT,
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        number = self.parameters.get("run_number")
        its = _run(job_or_404(job_id), number)
        if isinstance(its, Refused):
            return self.refused(its)
        return self.file(log_name(job_id, number), f"{TEXT}; charset=utf-8", log_whole(its.run) if its else iter(()))


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
        job = job_or_404(job_id)
        runs = job_runs(job)
        points, numbers = curve(runs), numbers_view(runs)
        progress = runs[0].progress if runs else {}
        epochs, outlook = int(progress.get("epochs", 0)), job_outlook(job)
        total = outlook.total if outlook and outlook.total else epochs
        values = {
            "runs": [_run_values(its) for its in numbered_runs(job, runs)],
            "epoch": points[-1].epoch if points else 0,
            "epochs": epochs,
            "predicted_end": predicted_end(runs[0], points, total) if runs else None,
            "minibatch_seconds": progress.get("minibatch_seconds"),
            "exchange_seconds": progress.get("exchange_seconds"),
            "curve": points,
            "numbers": series_of(runs) if numbers else [],
            "bad_lines": numbers.bad_lines if numbers else 0,
            "address": numbers.address if numbers else "",
            "outlook": outlook,
        }
        return self.shown(ProgressShown, values)


def _run(job: TrainingJob, number: int | None) -> NumberedRun | Refused | None:
    return run_numbered(job, numbered_runs(job, job_runs(job)), number)


def _run_values(its: NumberedRun) -> dict[str, Any]:
    run = its.run
    return {
        "run": run.pk,
        "run_number": its.number,
        "state": run.state,
        "detail": run.detail,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "lost_workers": run.restarts,
    }

"""The form of a submission, and what a job looks like to a program; with examples."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.api.shown import numbers_shown
from scheduling.models import JobState, Lane
from scheduling.selectors.explain import Reason
from scheduling.selectors.job_rows import JobRow
from tenants.api.fields import Answer, Credits, Form, Moment, Numbers, Text, Whole, Word

MOST_CANCELLED = 100


class NewJob(Form):
    pool = Text(max_length=40, help_text="The pool's short name.")
    name = Text(max_length=200, help_text="Any name; jobs may share one.")
    lane = Word(choices=Lane.choices, help_text="`batch` waits for the next interval, `instant` is answered at once.")
    spec = Numbers(
        help_text="The job in the words of a scenario file, without name, tenant, lane and arrival: epochs, chunks, "
        "minibatches, worker_demand, ps_demand, value, max_price, rent, ..."
    )


class Submission(NewJob):
    otherwise = Word(
        choices=[Lane.BATCH.value],
        required=False,
        help_text="`batch`: if the instant lane does not take it at once, it waits for the next interval.",
    )


class ReasonShown(Answer):
    code = serializers.CharField(help_text="Of the market's one vocabulary, or the job's state.")
    numbers = serializers.SerializerMethodField(help_text="The figures behind it; credits as decimal texts.")
    sentence = serializers.CharField()

    def get_numbers(self, reason: Reason) -> dict[str, Any]:
        return numbers_shown(reason.numbers)


class JobShown(Answer):
    id = serializers.IntegerField(source="job.pk")
    name = serializers.CharField(source="job.name")
    pool = serializers.CharField(source="job.pool.slug")
    lane = serializers.ChoiceField(Lane.choices, source="job.lane")
    state = serializers.ChoiceField(JobState.choices, source="job.state")
    phase = serializers.CharField(source="view.phase", help_text="`own`: on the tenant's cells; `shared`: rented.")
    payer = serializers.CharField(source="job.tenant.slug", help_text="The tenant that pays.")
    price = Credits(source="view.price", allow_null=True, help_text="Null until it is decided.")
    hold = Credits(source="held", help_text="What is set aside for it and not paid out yet.")
    reason = ReasonShown(source="view.reason")
    attempt = serializers.IntegerField(source="job.attempt", help_text="How often the platform made it wait anew.")
    workers = serializers.IntegerField(source="view.workers", help_text="At most, in any slot.")
    parameter_servers = serializers.IntegerField()
    start_slot = serializers.IntegerField(allow_null=True)
    end_slot = serializers.IntegerField(allow_null=True, help_text="The first slot after it.")
    starts_at = Moment(source="view.starts_at", allow_null=True)
    ends_at = Moment(source="view.ends_at", allow_null=True)
    submitted_at = Moment(source="job.submitted_at")
    submitted_by = serializers.EmailField(source="job.submitted_by.email", allow_null=True, default=None)
    ended_at = Moment(source="job.ended_at", allow_null=True)


class JobWithSpec(JobShown):
    spec = Numbers(source="job.spec", help_text="As it was submitted.")


class Explanation(Answer):
    id = serializers.IntegerField(source="job.pk")
    state = serializers.ChoiceField(JobState.choices, source="job.state")
    lane = serializers.ChoiceField(Lane.choices, source="job.lane")
    price = Credits(source="view.price", allow_null=True)
    reason = ReasonShown(source="view.reason")
    starts_at = Moment(source="view.starts_at", allow_null=True)
    ends_at = Moment(source="view.ends_at", allow_null=True)


class JobsToCancel(Form):
    jobs = serializers.ListField(child=Whole(min_value=1), min_length=1, max_length=MOST_CANCELLED)


class CancelOutcome(Answer):
    id = serializers.IntegerField()
    cancelled = serializers.BooleanField()
    code = serializers.CharField(help_text="Why not; empty where it is cancelled.")
    detail = serializers.CharField()


class CancelOutcomes(Answer):
    results = CancelOutcome(many=True, help_text="In the order of the request.")


def job_shown(row: JobRow, *, with_spec: bool = True) -> dict[str, Any]:
    return dict((JobWithSpec if with_spec else JobShown)(row).data)


SPEC_EXAMPLE: dict[str, Any] = {
    "epochs": 2,
    "chunks": 4,
    "minibatches": 10,
    "minibatch_seconds": 5.0,
    "worker_demand": {"worker": 1},
    "ps_demand": {"ps": 1},
    "max_workers": 4,
    "max_price": 20.0,
    "value": {"kind": "linear", "slope": -0.5, "base": 40.0},
}
NEW_EXAMPLE: dict[str, Any] = {"pool": "main", "name": "nightly", "lane": "instant", "spec": SPEC_EXAMPLE}
JOB_EXAMPLE: dict[str, Any] = {
    "id": 4711,
    "name": "nightly",
    "pool": "main",
    "lane": "instant",
    "state": "awarded",
    "phase": "shared",
    "payer": "lumen",
    "price": "12.500000",
    "hold": "12.500000",
    "reason": {
        "code": "awarded",
        "numbers": {"start": 120, "end": 145, "workers": 4, "paid": "12.500000"},
        "sentence": "Starts on rented units at 12:20:00, on 4 workers at most.",
    },
    "attempt": 0,
    "workers": 4,
    "parameter_servers": 1,
    "start_slot": 120,
    "end_slot": 145,
    "starts_at": "2026-03-02T12:20:00Z",
    "ends_at": "2026-03-02T12:24:10Z",
    "submitted_at": "2026-03-02T12:19:51.204000Z",
    "submitted_by": "ada@lumen.example",
    "ended_at": None,
}
JOB_WITH_SPEC_EXAMPLE = JOB_EXAMPLE | {"spec": SPEC_EXAMPLE}
CANCELLED_EXAMPLE = JOB_WITH_SPEC_EXAMPLE | {
    "state": "cancelled",
    "price": "0.000000",
    "hold": "0.000000",
    "reason": {"code": "cancelled_by", "numbers": {"user": "Ada"}, "sentence": "Cancelled by Ada."},
    "ended_at": "2026-03-02T12:19:58Z",
}
EXPLAIN_EXAMPLE: dict[str, Any] = {
    "id": 4712,
    "state": "queued",
    "lane": "batch",
    "price": None,
    "reason": {
        "code": "outbid",
        "numbers": {"price": "12.500000", "value": "9.000000"},
        "sentence": "The price is 12.50, and the job is worth 9.00.",
    },
    "starts_at": None,
    "ends_at": None,
}

"""The form of a submission, and what a job looks like to a program; with examples."""

from __future__ import annotations

from typing import Any

from django.core.validators import RegexValidator
from rest_framework import serializers

from scheduling.common.api.shown import numbers_shown
from scheduling.core.policies.astraea import MoveCause
from scheduling.jobs.bulk import MOST_JOBS
from scheduling.jobs.intake import MOST_AFTER
from scheduling.market.reads import ReasonInWords, reason_help
from scheduling.models import Described, JobState, Lane
from scheduling.programs.ordering import MOST_MEMBERS
from scheduling.programs.sbatch import IGNORED, MOST_CHARACTERS, NOT_KEPT, UNDERSTOOD
from scheduling.reasons import ReasonCode
from tenants.api.fields import Answer, Credits, Flag, Form, Moment, Numbers, Several, Text, Whole, Word

MOST_CANCELLED = 100
MOST_NAMED = 1_000  # the most files that a body may name to come along
REASON_CODES = (*((code.value, code.few) for code in ReasonCode), *JobState.choices)


DIGEST = RegexValidator(r"^[0-9a-f]{64}\Z", "Must be a SHA-256 digest: 64 of the letters 0 to 9 and a to f.")


class NewJob(Form):
    pool = Text(max_length=40, help_text="The pool's short name.")
    name = Text(max_length=200, help_text="Any name; jobs may share one.")
    lane = Word(choices=Lane.choices, help_text="`batch` waits for the next interval, `instant` is answered at once.")
    spec = Numbers(
        help_text="The job in the words of a scenario file, without name, tenant, lane and arrival: epochs, chunks, "
        "minibatches, worker_demand, ps_demand, value, max_price, rent, ..."
    )


class InWords(Form):
    """A job, or an array of them, as people describe it: `script` or `hours`, and `worth`."""

    pool = Text(max_length=40, help_text="The pool's short name.")
    name = Text(
        max_length=200,
        required=False,
        help_text="Needed with `spec`; a script may say it in `--job-name`. Jobs may share one.",
    )
    script = Text(
        max_length=MOST_CHARACTERS, required=False, help_text="A batch script of Slurm, with its `#SBATCH` lines."
    )
    archive = Text(
        max_length=64,
        validators=[DIGEST],
        required=False,
        help_text="Of a script: the digest (SHA-256, as 64 letters) of the tar.gz of the files that come along, "
        "unpacked into each job's folder. It was sent before, as that of a version of one of the tenant's programs: "
        "with `programs_upload`, and as its document the `program` of `jobs_parse`.",
    )
    hours = Numbers(
        required=False,
        help_text="In place of a script: `hours` with `most` workers, and if it may have fewer, `least` and `scaling` "
        "(`perfect`, `good`: 90 % for each doubling, `poor`: 70 %, or `measured` with `mode` and `speed`). `worker`: "
        "what one worker takes of each resource; left out, a GPU.",
    )
    worth = Numbers(
        required=False,
        help_text="Needed with `script` and `hours`. `credits` as a text, for an end `by` a moment "
        "(`2026-12-01T08:00`, `now+6hours`) or `within_seconds`; a script's `--deadline` will do. `later`: `nothing`, "
        "`half` after as long again, or `hardly` less.",
    )
    program = Numbers(
        required=False,
        help_text="With `hours`: what runs, as a specification names it, by `name`, `version` and `parameters`. Left "
        "out: the units are reserved, and nothing is started. A script becomes a program of the tenant.",
    )
    divisible = Flag(
        required=False,
        help_text="With `script` or `hours`: whether it may be saved and go on later, so that it rents in pieces. Left "
        "out: as the script says in `#BOURSE --divisible` or `#BOURSE --whole`, else as its program can. A `spec` says "
        "it itself.",
    )
    zone = Text(
        max_length=60,
        required=False,
        help_text="Of moments that name none, as `Europe/Berlin` or `+02:00`. Else: UTC.",
    )
    begin = Moment(required=False, help_text="Not before this moment; in the batch lane alone.")
    after = Several(
        child=Whole(min_value=1),
        required=False,
        max_length=MOST_AFTER,
        help_text="Numbers of the tenant's jobs that must have ended well before; in the batch lane alone. If one of "
        "them does not, this one is refused with `dependency_failed`.",
    )
    after_arrays = Several(
        child=Whole(min_value=1),
        required=False,
        max_length=MOST_AFTER,
        help_text="Numbers of the tenant's arrays, all of whose jobs must have ended well before. With `after`, 100 at "
        "most.",
    )


class Saying(InWords):
    index = Whole(
        min_value=0,
        required=False,
        help_text="Of a script with `--array`: which of its jobs. Each is submitted by itself.",
    )


class Question(Saying):
    files = Several(
        child=Text(max_length=1_000),
        max_length=MOST_NAMED,
        required=False,
        help_text="Of a script: the names of the files that come along, where their `archive` was not sent yet; of a "
        "folder with a stroke at its end nobody says what is in it. A file that the script runs and that does not come "
        "along is told in `lines`.",
    )


class Submission(Saying):
    lane = Word(choices=Lane.choices, help_text="`batch` waits for the next interval, `instant` is answered at once.")
    spec = Numbers(
        required=False,
        help_text="In place of a script or hours: the job in the words of a scenario file, without name, tenant, lane "
        "and arrival: epochs, chunks, minibatches, worker_demand, ps_demand, value, max_price, rent, ... In an "
        "elastic pool a job with a program may say `until_converged`, with a `threshold` (0.01: of the largest loss, "
        "in an epoch) and a `patience` (3: epochs in a row): it ends by itself once its loss has stopped falling, and "
        "trains `epochs` at most.",
    )
    otherwise = Word(
        choices=[Lane.BATCH.value],
        required=False,
        help_text="`batch`: if the instant lane does not take it at once, it waits for the next interval.",
    )


class NewArray(InWords):
    lane = Word(
        choices=Lane.choices,
        required=False,
        help_text="`batch`, also where it is left out. `instant` is refused: that lane answers each job by itself.",
    )
    spec = Numbers(required=False, help_text="In place of a script or hours: each job in the words of a scenario file.")
    count = Whole(
        min_value=1,
        max_value=MOST_MEMBERS,
        required=False,
        help_text="How many jobs, with the indexes from 0 on; left out with a script, which has `#SBATCH --array`.",
    )
    together = Flag(
        required=False,
        help_text="`true`: those of its jobs that wait are bought in one interval, all or none. Else: one by one. "
        "Refused in an elastic pool.",
    )


class OneOfBulk(InWords):
    pool = None  # type: ignore[assignment]  # said once for all
    script = None  # type: ignore[assignment]  # becomes a program first
    archive = None  # type: ignore[assignment]  # of a script
    spec = Numbers(required=False, help_text="In place of hours: the job in the words of a scenario file.")


class NewBulk(Form):
    pool = Text(max_length=40, help_text="The pool's short name: all the jobs go there.")
    lane = Word(
        choices=Lane.choices,
        required=False,
        help_text="`batch`, also where it is left out. `instant` is refused: that lane answers each job by itself.",
    )
    jobs = Several(
        child=OneOfBulk(),
        min_length=1,
        max_length=MOST_JOBS,
        help_text="Each as it would be submitted by itself, but not by a script: that becomes a program first. Submit "
        "it by itself, or as an array.",
    )


class BulkJob(Answer):
    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    state = serializers.ChoiceField(JobState.choices)


class BulkShown(Answer):
    pool = serializers.CharField(source="pool.slug")
    results = BulkJob(source="jobs", many=True, help_text="In the order of the request.")


class ReasonShown(Answer):
    code = serializers.ChoiceField(
        REASON_CODES, help_text="Of the market's one vocabulary, or the job's state where it has no reason."
    )
    numbers = serializers.SerializerMethodField(help_text="The figures behind it; credits as decimal texts.")
    sentence = serializers.CharField()
    help = serializers.CharField(help_text="What would help, in a sentence; empty where nothing is to be done.")

    def get_numbers(self, reason: ReasonInWords) -> dict[str, Any]:
        return numbers_shown(reason.numbers)


class ArrayOfJob(Answer):
    id = serializers.IntegerField(source="array.array.pk")
    name = serializers.CharField(source="array.array.name")
    index = serializers.IntegerField(help_text="Of this job in its array.")
    jobs = serializers.IntegerField(source="array.size", help_text="How many members it has.")
    states = Numbers(source="array.states", help_text="State -> how many of its members are in it.")
    price = Credits(source="array.price", help_text="What its members pay in all, as far as it is decided.")


class JobShown(Answer):
    id = serializers.IntegerField(source="job.pk")
    name = serializers.CharField(source="job.name")
    pool = serializers.CharField(source="job.pool.slug")
    lane = serializers.ChoiceField(Lane.choices, source="job.lane")
    state = serializers.ChoiceField(JobState.choices, source="job.state")
    array = ArrayOfJob(source="as_member", allow_null=True, help_text="That it is a member of; null: it is by itself.")
    phase = serializers.CharField(source="view.phase", help_text="`own`: on the tenant's cells; `shared`: rented.")
    payer = serializers.CharField(source="job.tenant.slug", help_text="The tenant that pays.")
    price = Credits(source="view.price", allow_null=True, help_text="Null until it is decided.")
    hold = Credits(source="held", help_text="What is set aside for it and not paid out yet.")
    reason = ReasonShown(source="view.reason")
    after = serializers.ListField(
        source="after_jobs",
        child=serializers.IntegerField(),
        help_text="Jobs that must have ended well before. While it waits for them its reason is `waits_for_jobs`.",
    )
    after_arrays = serializers.ListField(
        child=serializers.IntegerField(), help_text="Arrays, all of whose jobs must have ended well before."
    )
    attempt = serializers.IntegerField(source="job.attempt", help_text="How often the platform made it wait anew.")
    workers = serializers.IntegerField(
        source="view.workers", help_text="At most, in any slot; in an elastic pool, in the newest of its slots."
    )
    parameter_servers = serializers.IntegerField()
    start_slot = serializers.IntegerField(
        allow_null=True, help_text="Of a job that goes on slot by slot, or in pieces, with which it began."
    )
    end_slot = serializers.IntegerField(
        allow_null=True,
        help_text="The first slot after it; after the newest of its slots or pieces, if it has several.",
    )
    starts_at = Moment(source="view.starts_at", allow_null=True)
    ends_at = Moment(source="view.ends_at", allow_null=True)
    submitted_at = Moment(source="job.submitted_at")
    submitted_by = serializers.EmailField(source="job.submitted_by.email", allow_null=True, default=None)
    ended_at = Moment(source="job.ended_at", allow_null=True)


class JobWithSpec(JobShown):
    spec = Numbers(
        source="job.spec",
        help_text="As it was submitted, with the version of its program and, where that can be saved and go on, with "
        "`divisible` and `save_slots`; where it cannot, with `unbroken`.",
    )


class ArrayShown(Answer):
    id = serializers.IntegerField(source="array.pk")
    name = serializers.CharField(source="array.name")
    pool = serializers.CharField(source="array.pool.slug")
    first_job = serializers.IntegerField(help_text="Its members are numbered from here on, and listed by `?array=`.")
    jobs = serializers.IntegerField(source="size")
    indexes = serializers.ListField(source="array.indexes", child=serializers.IntegerField())
    together = serializers.BooleanField(help_text="Whether its jobs are bought in one interval, all or none.")
    states = Numbers(help_text="State -> how many of its members are in it.")
    price = Credits(help_text="What its members pay in all, as far as it is decided.")
    submitted_at = Moment(source="array.submitted_at")
    submitted_by = serializers.EmailField(source="array.submitted_by.email", allow_null=True, default=None)


class ScriptLineShown(Answer):
    line = serializers.IntegerField(help_text="Its number in the script, from 1.")
    says = serializers.CharField(help_text="Its beginning, as it is written.")
    option = serializers.CharField(help_text="As the line names it; empty: the line as a whole.")
    verdict = serializers.ChoiceField(
        [(verdict, verdict) for verdict in (UNDERSTOOD, IGNORED, NOT_KEPT)],
        help_text="`ignored` changes nothing in what is computed; `not_kept` is asked for and not done.",
    )
    sentence = serializers.CharField()


class Parsed(Answer):
    how = serializers.ChoiceField(Described.choices)
    name = serializers.CharField()
    spec = Numbers(help_text="What the market will be asked. A submission of it says the same.")
    begin = Moment(allow_null=True, help_text="Not before this moment; null: at once.")
    after = serializers.ListField(child=serializers.IntegerField(), help_text="Jobs that must have ended well before.")
    after_arrays = serializers.ListField(
        child=serializers.IntegerField(), help_text="Arrays, all of whose jobs must have ended well before."
    )
    indexes = serializers.ListField(
        child=serializers.IntegerField(), help_text="Of a script with `--array`: a job for each, `spec` is the first's."
    )
    lines = ScriptLineShown(many=True, help_text="Of a script: what comes of each line that says something.")
    program = Numbers(
        allow_null=True,
        help_text="Of a script: the document of the program that it becomes when it is submitted, its `archive` "
        "included; null where nothing of it would run, and for a job in hours.",
    )


class DescriptionShown(Answer):
    how = serializers.ChoiceField(
        [("detail", "detail"), *Described.choices], help_text="`detail`: in the words of its specification."
    )
    said = Numbers(help_text="As it was sent; empty for `detail`.")
    lines = ScriptLineShown(many=True, help_text="Of a script: what came of each line that says something.")


class MovedShown(Answer):
    interval = serializers.IntegerField(help_text="The number of the one that planned it anew.")
    start_slot = serializers.IntegerField(
        source="before", allow_null=True, help_text="That was projected before; null: there was no place."
    )
    starts_at = Moment(source="before_at", allow_null=True)
    why = serializers.ChoiceField(
        [(why.value, why.name.lower()) for why in MoveCause], help_text="Empty where nothing can be said exactly."
    )
    jobs = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="The tenant's jobs that have its place now, in the order of the plan.",
    )
    sentence = serializers.CharField()


class HeldShown(Answer):
    projections = serializers.IntegerField(help_text="Of so many jobs the first projected start is old enough.")
    by_then = serializers.IntegerField(help_text="Started by then.")
    later = serializers.IntegerField(help_text="Started later.")
    later_by = serializers.FloatField(allow_null=True, help_text="Slots: half of those that started later, by no more.")
    not_started = serializers.IntegerField(help_text="Not at all, or not yet.")


class ProjectionShown(Answer):
    start_slot = serializers.IntegerField(source="start")
    starts_at = Moment(source="start_at")
    moved = MovedShown(allow_null=True, help_text="The last change of its start; null: there was none.")
    mine = HeldShown(help_text="How past projections of the tenant held in this pool.")
    pool = HeldShown(help_text="And those of all tenants.")


class Explanation(Answer):
    id = serializers.IntegerField(source="job.pk")
    state = serializers.ChoiceField(JobState.choices, source="job.state")
    lane = serializers.ChoiceField(Lane.choices, source="job.lane")
    price = Credits(source="view.price", allow_null=True)
    reason = ReasonShown(source="view.reason")
    starts_at = Moment(source="view.starts_at", allow_null=True)
    ends_at = Moment(source="view.ends_at", allow_null=True)
    projection = ProjectionShown(
        allow_null=True,
        help_text="Its start at home as it is planned now, where each interval plans it anew. Guaranteed is only that "
        "it is never worse off than alone. Null: its place is for good, or there is none.",
    )


class JobsToCancel(Form):
    jobs = Several(child=Whole(min_value=1), min_length=1, max_length=MOST_CANCELLED)


class Cancellation(Form):
    most = Credits(
        required=False,
        help_text="The most that it may cost: what does not come back of all that is held. Where it costs more by "
        "then, it is left as it is (`costs_more`). Without it a cancellation may cost whatever the rule asks for.",
    )


class CancelOutcome(Answer):
    id = serializers.IntegerField()
    cancelled = serializers.BooleanField()
    code = serializers.CharField(help_text="Why not; empty where it is cancelled.")
    detail = serializers.CharField()


class CancelOutcomes(Answer):
    results = CancelOutcome(many=True, help_text="In the order of the request.")


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
    "array": None,
    "phase": "shared",
    "payer": "lumen",
    "price": "12.500000",
    "hold": "12.500000",
    "reason": {
        "code": "awarded",
        "numbers": {"start": 120, "end": 145, "workers": 4, "paid": "12.500000"},
        "sentence": "Starts on rented units at 12:20:00, on 4 workers at most.",
        "help": "",
    },
    "after": [],
    "after_arrays": [],
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
    "reason": {"code": "cancelled_by", "numbers": {"user": "Ada"}, "sentence": "Cancelled by Ada.", "help": ""},
    "ended_at": "2026-03-02T12:19:58Z",
}
NEW_BULK_EXAMPLE: dict[str, Any] = {
    "pool": "main",
    "jobs": [
        {"name": "rate 0.1", "spec": SPEC_EXAMPLE},
        {"name": "rate 0.01", "spec": SPEC_EXAMPLE | {"epochs": 4}, "after": [4711]},
    ],
}
BULK_EXAMPLE: dict[str, Any] = {
    "pool": "main",
    "results": [
        {"id": 4713, "name": "rate 0.1", "state": "queued"},
        {"id": 4714, "name": "rate 0.01", "state": "queued"},
    ],
}
NEW_ARRAY_EXAMPLE: dict[str, Any] = {"pool": "main", "name": "sweep", "count": 10, "spec": SPEC_EXAMPLE}
ARRAY_EXAMPLE: dict[str, Any] = {
    "id": 12,
    "name": "sweep",
    "pool": "main",
    "first_job": 4713,
    "jobs": 10,
    "indexes": list(range(10)),
    "together": False,
    "states": {"queued": 7, "running": 2, "finished": 1},
    "price": "37.500000",
    "submitted_at": "2026-03-02T12:19:51.204000Z",
    "submitted_by": "ada@lumen.example",
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
        "help": reason_help("outbid"),
    },
    "starts_at": None,
    "ends_at": None,
    "projection": {
        "start_slot": 160,
        "starts_at": "2026-03-02T12:26:40Z",
        "moved": {
            "interval": 31,
            "start_slot": 144,
            "starts_at": "2026-03-02T12:24:00Z",
            "why": "better_place",
            "jobs": [],
            "sentence": "Planned anew at interval 31: it has a place in which it ends earlier.",
        },
        "mine": {"projections": 12, "by_then": 9, "later": 2, "later_by": 3.5, "not_started": 1},
        "pool": {"projections": 80, "by_then": 61, "later": 15, "later_by": 6.0, "not_started": 4},
    },
}
SCRIPT_EXAMPLE = "#!/bin/bash -eu\n#SBATCH --gpus=1 --time=2:00:00\npython3 train.py\n"
WORTH_EXAMPLE = {"within_seconds": 21600, "credits": "40", "later": "half"}
PARSE_EXAMPLE: dict[str, Any] = {
    "pool": "main",
    "hours": {"hours": 2, "most": 4},
    "worth": {"within_seconds": 21600, "credits": "40", "later": "nothing"},
}
HOURS_SPEC_EXAMPLE: dict[str, Any] = {
    "epochs": 1,
    "chunks": 4,
    "minibatches": 7200,
    "minibatch_seconds": 1,
    "worker_demand": {"worker": 1},
    "ps_demand": [],
    "min_workers": 4,
    "max_workers": 4,
    "value": {"kind": "deadline", "base": 40.0, "deadline": 2160.0},
}
PARSED_EXAMPLE: dict[str, Any] = {
    "how": "hours",
    "name": "job",
    "spec": HOURS_SPEC_EXAMPLE,
    "begin": None,
    "after": [],
    "after_arrays": [],
    "indexes": [],
    "lines": [],
    "program": None,
}
DESCRIPTION_EXAMPLE: dict[str, Any] = {
    "how": "script",
    "said": {"script": SCRIPT_EXAMPLE, "worth": WORTH_EXAMPLE, "zone": "UTC"},
    "lines": [
        {
            "line": 2,
            "says": "#SBATCH --gpus=1 --time=2:00:00",
            "option": "--gpus",
            "verdict": "understood",
            "sentence": "So many GPUs in all.",
        }
    ],
}

"""Rows of the table: jobs and quotes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from scheduling.jobs.api.fields import PARSE_EXAMPLE
from scheduling.jobs.arrays import array_submit
from scheduling.models import TrainingJob
from tenants.access import Access
from tenants.roles import AUDITOR, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope
from tests.api.table import Names, Row, World, answers
from tests.scheduling.live import SPEC
from tests.scheduling.markets import make_waiting

READ_JOBS = answers(200, VIEWER, SUBMITTER, OWNER, AUDITOR, OPERATOR)


def new_job(names: Names) -> Mapping[str, Any]:
    return {"pool": names["pool"], "name": "train", "lane": "batch", "spec": SPEC}


def refused_job(world: World) -> Names:
    """As the instant lane leaves it."""
    job = make_waiting(world.pool, world.tenant)
    with scope(world.tenant):
        TrainingJob.objects.filter(pk=job.pk).update(lane="instant", state="rejected", reason_code="no_room")
    return {"job": job.pk}


def an_array(world: World) -> Names:
    by = Access(user=None, tenant=world.tenant, roles=frozenset({SUBMITTER}))
    outcome = array_submit(pool=world.pool, name="sweep", spec=SPEC, count=2, by=by, at=timezone.now())
    return {"array": outcome.array.pk}


ROWS = [
    Row("jobs_list", "get", "tenants/{tenant}/jobs/", READ_JOBS),
    Row("jobs_create", "post", "tenants/{tenant}/jobs/", answers(201, SUBMITTER, OWNER), body=new_job),
    Row(
        "jobs_parse",
        "post",
        "tenants/{tenant}/jobs/parse/",
        answers(200, SUBMITTER, OWNER),
        body=lambda names: PARSE_EXAMPLE | {"pool": names["pool"]},
    ),
    Row("jobs_description", "get", "tenants/{tenant}/jobs/{job}/description/", READ_JOBS, foreign=("job",)),
    Row("jobs_read", "get", "tenants/{tenant}/jobs/{job}/", READ_JOBS, foreign=("job",)),
    Row("jobs_explain", "get", "tenants/{tenant}/jobs/{job}/explain/", READ_JOBS, foreign=("job",)),
    Row("jobs_logs", "get", "tenants/{tenant}/jobs/{job}/logs/", READ_JOBS, foreign=("job",)),
    Row("jobs_log_file", "get", "tenants/{tenant}/jobs/{job}/logs/file/", READ_JOBS, foreign=("job",)),
    Row("jobs_files", "get", "tenants/{tenant}/jobs/{job}/files/", READ_JOBS, foreign=("job",)),
    Row(  # its jobs run no program, so whoever may read their files is told that there is none
        "jobs_file_content",
        "get",
        "tenants/{tenant}/jobs/{job}/files/content/?path=model.pt",
        answers(404, VIEWER, SUBMITTER, OWNER, AUDITOR, OPERATOR),
        foreign=("job",),
    ),
    Row("jobs_pieces", "get", "tenants/{tenant}/jobs/{job}/pieces/", READ_JOBS, foreign=("job",)),
    Row("jobs_progress", "get", "tenants/{tenant}/jobs/{job}/progress/", READ_JOBS, foreign=("job",)),
    Row("job_cancel", "post", "tenants/{tenant}/jobs/{job}/cancel/", answers(200, SUBMITTER, OWNER), foreign=("job",)),
    Row(
        "job_queue",
        "post",
        "tenants/{tenant}/jobs/{job}/queue/",
        answers(200, SUBMITTER, OWNER),
        prepare=refused_job,
        foreign=("job",),
    ),
    Row(
        "jobs_bulk",
        "post",
        "tenants/{tenant}/jobs/bulk/",
        answers(201, SUBMITTER, OWNER),
        body=lambda names: {
            "pool": names["pool"],
            "jobs": [{"name": "one", "spec": SPEC}, {"name": "two", "spec": SPEC}],
        },
    ),
    Row(
        "arrays_create",
        "post",
        "tenants/{tenant}/jobs/arrays/",
        answers(201, SUBMITTER, OWNER),
        body=lambda names: {"pool": names["pool"], "name": "sweep", "count": 3, "spec": SPEC},
    ),
    Row("arrays_read", "get", "tenants/{tenant}/jobs/arrays/{array}/", READ_JOBS, prepare=an_array, foreign=("array",)),
    Row(
        "array_cancel",
        "post",
        "tenants/{tenant}/jobs/arrays/{array}/cancel/",
        answers(200, SUBMITTER, OWNER),
        prepare=an_array,
        foreign=("array",),
    ),
    Row(
        "jobs_cancel",
        "post",
        "tenants/{tenant}/jobs/cancel/",
        answers(200, SUBMITTER, OWNER),
        body=lambda names: {"jobs": [names["job"]]},
    ),
    Row("quotes_create", "post", "tenants/{tenant}/quotes/", answers(200, SUBMITTER, OWNER), body=new_job),
]

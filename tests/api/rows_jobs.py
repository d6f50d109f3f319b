"""Rows of the table: jobs and quotes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.models import TrainingJob
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


ROWS = [
    Row("jobs_list", "get", "tenants/{tenant}/jobs/", READ_JOBS),
    Row("jobs_create", "post", "tenants/{tenant}/jobs/", answers(201, SUBMITTER, OWNER), body=new_job),
    Row("jobs_read", "get", "tenants/{tenant}/jobs/{job}/", READ_JOBS, foreign=("job",)),
    Row("jobs_explain", "get", "tenants/{tenant}/jobs/{job}/explain/", READ_JOBS, foreign=("job",)),
    Row("jobs_logs", "get", "tenants/{tenant}/jobs/{job}/logs/", READ_JOBS, foreign=("job",)),
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
        "jobs_cancel",
        "post",
        "tenants/{tenant}/jobs/cancel/",
        answers(200, SUBMITTER, OWNER),
        body=lambda names: {"jobs": [names["job"]]},
    ),
    Row("quotes_create", "post", "tenants/{tenant}/quotes/", answers(200, SUBMITTER, OWNER), body=new_job),
]

"""Rows of the table: studies of the lab. Operators and auditors make and read them; nothing of the market changes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from scheduling.models import LabFile, LabStudy, StudyState
from tenants.roles import AUDITOR, OPERATOR
from tests.api.table import Names, Row, World, answers

STAFF = answers(200, AUDITOR, OPERATOR)
STUDIES, STUDY = "lab/studies/", "lab/studies/{study}/"
STUDY_TERMS = {"rules": ["alone", "market"], "worth": ["by_hour"]}


def study(world: World, state: StudyState) -> LabStudy:
    ended = timezone.now() if state in (StudyState.DONE, StudyState.CANCELLED) else None
    document = {"title": "A study", **STUDY_TERMS, "history": {"format": "scenario", "file": "scenario.json"}}
    return LabStudy.objects.create(
        title="A study", document=document, pool=world.pool, state=state, asked_at=timezone.now(), ended_at=ended
    )


def done(world: World) -> Names:
    row = study(world, StudyState.DONE)
    for name in ("report.html", "figures.csv"):
        LabFile.objects.create(study=row, name=name, place=0, content=b"what came of it")
    return {"study": row.pk}


def ready(world: World) -> Names:
    return {"study": study(world, StudyState.READY).pk}


def cancelled(world: World) -> Names:
    return {"study": study(world, StudyState.CANCELLED).pk}


def order(names: Names) -> Mapping[str, Any]:
    content = base64.b64encode(b"job_id,tenant,submit_s,gpus,duration_s\n").decode()
    return {"study": {**STUDY_TERMS, "history": {"format": "jobs", "file": "log.csv"}}, "files": {"log.csv": content}}


ROWS = [
    Row("studies_list", "get", STUDIES, STAFF, prepare=done),
    Row("studies_create", "post", STUDIES, answers(202, AUDITOR, OPERATOR), body=order),
    Row("studies_read", "get", STUDY, STAFF, prepare=done),
    Row("studies_start", "post", STUDY + "start/", STAFF, prepare=ready),
    Row("studies_cancel", "post", STUDY + "cancel/", STAFF, prepare=ready),
    Row("studies_resume", "post", STUDY + "resume/", STAFF, prepare=cancelled),
    Row("studies_show", "post", STUDY + "show/", STAFF, body=lambda names: {"shown": True}, prepare=done),
    Row("studies_remove", "post", STUDY + "remove/", STAFF, prepare=done),
    Row("studies_report", "get", STUDY + "report/", STAFF, prepare=done),
    Row("studies_figures", "get", STUDY + "figures/", STAFF, prepare=done),
]

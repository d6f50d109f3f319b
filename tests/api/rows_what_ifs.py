"""Rows of the table: what if a job had said something else. Whoever may see jobs asks; one reads what one asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from scheduling.models import Interval
from scheduling.what_if.asking import what_if_start, what_ifs_newest
from tenants.roles import AUDITOR, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.selectors import access_of
from tests.api.table import Names, Row, World, answers
from tests.scheduling.markets import run_slots
from tests.tenants.builders import done

WHAT_IFS = "tenants/{tenant}/what-ifs/"
READERS = answers(200, VIEWER, SUBMITTER, OWNER, AUDITOR, OPERATOR)
OF_OWNER = answers(200, OWNER, AUDITOR, OPERATOR) | answers(404, VIEWER, SUBMITTER)  # whose question it is


def decided(world: World) -> Names:
    """An interval about everybody's jobs."""
    rows = Interval.objects.filter(pool=world.pool, slot__gt=0)
    if not rows.exists():
        run_slots(world.pool, 0, 4)
    return {"number": rows.order_by("number").values_list("number", flat=True)[0]}


def two_questions(world: World) -> Names:
    """Two questions of the owner that nobody has answered yet."""
    names, by = decided(world), access_of(world.members[OWNER].user, world.tenant)
    questions = what_ifs_newest(by=by, at=timezone.now())
    for job in world.jobs[: 2 - len(questions)]:
        fields = {"number": names["number"], "job_id": job.pk, "field": "max_price", "value": 2.5}
        done(what_if_start(pool_id=world.pool.pk, by=by, at=timezone.now(), **fields))
    return {**names, "what_if": what_ifs_newest(by=by, at=timezone.now())[0].id}


def question(names: Names) -> Mapping[str, Any]:
    fields = {"pool": names["pool"], "interval": names["number"], "job": names["job"]}
    return {**fields, "field": "max_price", "value": 2.5}


ROWS = [
    Row("what_ifs_list", "get", WHAT_IFS, READERS, prepare=two_questions),
    Row("what_ifs_create", "post", WHAT_IFS, dict.fromkeys(READERS, 202), body=question, prepare=decided),
    Row("what_ifs_fields", "get", WHAT_IFS + "fields/", READERS),
    Row("what_ifs_read", "get", WHAT_IFS + "{what_if}/", OF_OWNER, prepare=two_questions, foreign=("what_if",)),
    Row(
        "what_ifs_cancel", "post", WHAT_IFS + "{what_if}/cancel/", OF_OWNER, prepare=two_questions, foreign=("what_if",)
    ),
]

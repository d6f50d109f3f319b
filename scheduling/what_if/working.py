"""Working out the answers, one after the other, in a process of the market's own workers, so each is kept short."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError

from scheduling.common import AUDIT_LOCK, alone
from scheduling.core import records
from scheduling.core.metrics.misreports import PlanOutcome, plan_outcome, supposed
from scheduling.core.types import Job, Policy, View
from scheduling.market.decide import code_version, link
from scheduling.market.reads import contents_of
from scheduling.market.view import OPERATOR_ID, policy_built
from scheduling.models import OPEN_WORK, WhatIf, WorkState
from scheduling.what_if.asking import ARCHIVED, OTHER_CODE
from scheduling.what_if.otherwise import job_as_reported, job_otherwise
from tenants.access import Refused
from tenants.scoping import scope_disabled

ROUND = timedelta(seconds=8)  # no new question is begun after that
LONGEST = timedelta(seconds=30)  # longest time for one question
MOST_TRIES = 2

CHANGED = Refused("changed", "What is stored of the interval was changed. Verify the interval.")
TOO_LONG = Refused("too_long", f"Deciding this interval takes longer than {LONGEST.seconds} seconds.")
BROKE_OFF = Refused("broke_off", "It broke off twice.")

Clock = Callable[[], datetime]


class _Cancelled(Exception):
    """The question was cancelled meanwhile, or its row was changed."""


@dataclass
class _Work:
    """A question that a process answers. Each step is written to its row, and none begins late or after a
    cancellation."""

    row: WhatIf
    clock: Clock
    began: datetime

    def step(self, done: int) -> Refused | None:
        mine = WhatIf.objects.filter(pk=self.row.pk, state=WorkState.RUNNING, tries=self.row.tries)
        if not mine.update(done=done):
            raise _Cancelled
        # Both decisions take about as long: a second one that would end late is not begun.
        spent = self.clock() - self.began
        return TOO_LONG if (2 * spent if done == 2 else spent) > LONGEST else None


def what_ifs_round(*, clock: Clock) -> int:
    """Answer the questions that wait, oldest first. Return how many were answered: none where another process is at
    it."""
    ends, answered = clock() + ROUND, 0
    with alone(AUDIT_LOCK) as ours, scope_disabled("an interval is decided again for all of its jobs"):
        if ours:
            WhatIf.objects.filter(expires_at__lt=clock()).delete()
        while ours and clock() < ends:
            row = WhatIf.objects.filter(state__in=OPEN_WORK).select_related("interval", "job").order_by("pk").first()
            if row is None:
                break
            _answer(row, clock)
            answered += 1
    return answered


def _answer(row: WhatIf, clock: Clock) -> None:
    """Answer one question. A row that is already running was left by a process that ended, as nobody else is here."""
    row.tries += 1
    claimed = {"state": WorkState.RUNNING, "tries": row.tries, "began_at": clock(), "done": 0}
    if not WhatIf.objects.filter(pk=row.pk, state__in=OPEN_WORK).update(**claimed):
        return
    try:
        outcome = BROKE_OFF if row.tries > MOST_TRIES else _worked_out(_Work(row, clock, clock()))
    except _Cancelled:
        return
    except DatabaseError:  # the next tick tries again
        raise
    except Exception as error:  # whatever breaks, the question ends and says so
        outcome = Refused("failed", f"It broke off: {type(error).__name__}: {error}.")
    _end(row, outcome, clock())


def _end(row: WhatIf, outcome: Refused | dict[str, Any], at: datetime) -> None:
    mine = WhatIf.objects.filter(pk=row.pk, state=WorkState.RUNNING, tries=row.tries)
    if isinstance(outcome, Refused):
        mine.update(state=WorkState.FAILED, code=outcome.code, sentence=outcome.sentence, ended_at=at)
    else:
        mine.update(state=WorkState.DONE, done=row.total, result=outcome, ended_at=at)


def _worked_out(work: _Work) -> Refused | dict[str, Any]:
    """Read the interval, decide it as it was, decide it as it would have been, and compare. Rules of another version
    are the same for an interval that they decide to the byte as it was."""
    interval = work.row.interval
    if interval.is_archived:
        return ARCHIVED
    contents = contents_of(interval)
    if link(interval, contents) != interval.digest:
        return CHANGED
    view = records.view_from(contents.view)
    policy = policy_built(json.loads(contents.policy), view.cluster)
    real = job_as_reported(view, work.row.job)
    if isinstance(real, Refused):
        return real
    instead = job_otherwise(view, work.row.job, real, work.row.field, work.row.instead)
    if isinstance(instead, Refused):
        return instead
    if refusal := work.step(1):
        return refusal
    plan = policy.decide(view)
    if records.plan_bytes_like(contents.plan, plan) != contents.plan:
        return CHANGED if interval.code_version == code_version() else OTHER_CODE
    return work.step(2) or _compared(work, policy, view, plan_outcome(view, plan), instead)


def _compared(work: _Work, policy: Policy, view: View, before: PlanOutcome, instead: Job) -> Refused | dict[str, Any]:
    plan = policy.decide(supposed(view, instead))
    if refusal := work.step(3):
        return refusal
    return differences(view, before, plan_outcome(view, plan, instead), instead.number)


def differences(view: View, before: PlanOutcome, after: PlanOutcome, number: int) -> dict[str, Any]:
    """Return in plain JSON: the job in question, every job whose outcome differs, all owners, all prices."""
    ids = [*(int(tenant.name) for tenant in view.cluster.tenants), OPERATOR_ID]
    jobs = [
        {"job": job.number, "tenant": ids[job.tenant], "before": asdict(was), "after": asdict(is_)}
        for job in view.waiting
        for was, is_ in [(before.outcomes[job.number], after.outcomes[job.number])]
        if was != is_ or job.number == number
    ]
    owners = zip(ids, before.gains, after.gains, before.promised, after.promised, strict=True)
    names = ("before", "after", "promised_before", "promised_after")
    tenants = [{"tenant": owner} | dict(zip(names, map(float, row), strict=True)) for owner, *row in owners]
    prices = zip(view.cluster.resources, before.prices.tolist(), after.prices.tolist(), strict=True)
    return {"jobs": jobs, "tenants": tenants, "prices": [list(row) for row in prices]}

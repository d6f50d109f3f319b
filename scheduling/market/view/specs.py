"""Readers of a job's specification on its own, without the rest of the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scheduling.core.scenario.jobs import ScenarioJobs
from scheduling.core.types import Job, Tenant
from scheduling.core.value import from_later
from scheduling.market.view.demands import AmountSteps, demands_check, members_check
from scheduling.market.view.intake import IntakeRows
from scheduling.models import PROGRAM, UNTIL, Pool, ResourceKind, TrainingJob
from tenants.ledger.amounts import credits_of


def for_the_core(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification without the parts that the core does not use: the program, which only an engine needs, and
    `until`, the loss at which the job ends."""
    return {name: value for name, value in spec.items() if name not in (PROGRAM, UNTIL)}


def worth_kept(job: Job, worth_from: float | None) -> Job:
    """Return the job with its worth at the moments that it names, though the arrival may have been set later. It counts
    from `worth_from` where the arrival is later than that, else from the arrival."""
    late = 0.0 if worth_from is None else job.arrival - worth_from
    return replace(job, value=from_later(job.value, late)) if late > 0 else job


class SpecReader:
    """Reads the jobs of a pool. Unlike a frame it costs one short query, however many jobs are read."""

    def __init__(self, pool: Pool, resources: Sequence[tuple[int, str]] | None = None) -> None:
        """`resources` are (row, name) of each resource, if the caller has them; then no query is made."""
        if resources is None:
            resources = list(ResourceKind.objects.filter(pool=pool).order_by("pk").values_list("pk", "name"))
        self.resource_ids = [pk for pk, _ in resources]
        self.resources = [name for _, name in resources]
        self._slot_seconds = float(pool.slot_seconds)
        self._jobs: dict[
            float | None, ScenarioJobs
        ] = {}  # by the owner's budget; jobs with the same demand share its array

    def read(self, row: TrainingJob) -> Job:
        """Read a job that was accepted. Its owner's budget is not checked again, because it may be gone since."""
        return worth_kept(self.read_spec(row.spec, arrival=row.arrival, lane=row.lane, budget=0.0), row.worth_from)

    def read_spec(self, spec: Mapping[str, Any], *, arrival: float, lane: str, budget: float | None) -> Job:
        """Return the job that a specification means. Raises `BadScenario`, which names the field that is wrong."""
        if budget not in self._jobs:
            tenant = Tenant(name="tenant", reserve_price=np.zeros(len(self.resources)), budget=budget)
            self._jobs[budget] = ScenarioJobs(self.resources, [tenant], self._slot_seconds)
        whose = {"name": "job", "tenant": "tenant", "arrival": arrival, "lane": lane}
        return self._jobs[budget].read({**for_the_core(spec), **whose}, 0)


def steps_of(pool: Pool) -> dict[str, AmountSteps]:
    """Return the least amount and the step of each resource, by name."""
    rows = ResourceKind.objects.filter(pool=pool).values_list("name", "least", "step")
    return {name: AmountSteps(least, step) for name, least, step in rows}


@dataclass(frozen=True)
class SpecRead:
    """A job of the core, and the rows that it was read with. The job counts resources in the order of these rows."""

    job: Job
    rows: IntakeRows


class NewSpecReader:
    """Reads new jobs of one tenant, with its instructions and the resources' steps as they were just read."""

    def __init__(self, pool: Pool, rows: IntakeRows) -> None:
        self._rows = rows
        self._budget = None if rows.rent_budget is None else credits_of(rows.rent_budget)
        self._steps = {row.name: AmountSteps(row.least, row.step) for row in rows.resources}
        self._reader = SpecReader(pool, [(row.pk, row.name) for row in rows.resources])

    def read(self, spec: Mapping[str, Any], *, arrival: float, lane: str) -> SpecRead:
        """Read a specification. Raises `BadScenario` if it cannot be a job here."""
        reader = self._reader
        job = reader.read_spec(spec, arrival=arrival, lane=lane, budget=self._budget)
        demands_check(spec, self._steps)
        if PROGRAM in spec:
            members_check(job, reader.resources, spec)
        return SpecRead(job, self._rows)

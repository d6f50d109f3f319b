"""A job's specification on its own, before anything else of the pool is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core.scenario.jobs import ScenarioJobs
from scheduling.core.types import Job, Tenant
from scheduling.market.view.demands import AmountSteps, demands_check, members_check
from scheduling.market.view.intake import IntakeRows
from scheduling.models import PROGRAM, UNTIL, Pool, ResourceKind, TrainingJob
from tenants.ledger.amounts import credits_of


def for_the_core(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification without what only an engine needs, and without until when its loss is listened to."""
    return {name: value for name, value in spec.items() if name not in (PROGRAM, UNTIL)}


class SpecReader:
    """Reads the jobs of a pool. Costs one short query, unlike a frame, however many jobs are read."""

    def __init__(self, pool: Pool, resources: Sequence[tuple[int, str]] | None = None) -> None:
        """`resources`: (row, name) of each, where they are known."""
        if resources is None:
            resources = list(ResourceKind.objects.filter(pool=pool).order_by("pk").values_list("pk", "name"))
        self.resource_ids = [pk for pk, _ in resources]
        self.resources = [name for _, name in resources]
        self._slot_seconds = float(pool.slot_seconds)
        self._jobs: dict[
            float | None, ScenarioJobs
        ] = {}  # by the owner's budget; jobs that demand the same share its array

    def read(self, row: TrainingJob) -> Job:
        """A job that was accepted. What it was accepted under, its owner's budget, may be gone since."""
        return self.read_spec(row.spec, arrival=row.arrival, lane=row.lane, budget=0.0)

    def read_spec(self, spec: Mapping[str, Any], *, arrival: float, lane: str, budget: float | None) -> Job:
        """The job that the words mean; raises `BadScenario` naming the field that cannot be used."""
        if budget not in self._jobs:
            tenant = Tenant(name="tenant", reserve_price=np.zeros(len(self.resources)), budget=budget)
            self._jobs[budget] = ScenarioJobs(self.resources, [tenant], self._slot_seconds)
        whose = {"name": "job", "tenant": "tenant", "arrival": arrival, "lane": lane}
        return self._jobs[budget].read({**for_the_core(spec), **whose}, 0)


def steps_of(pool: Pool) -> dict[str, AmountSteps]:
    """By the resource's name."""
    rows = ResourceKind.objects.filter(pool=pool).values_list("name", "least", "step")
    return {name: AmountSteps(least, step) for name, least, step in rows}


@dataclass(frozen=True)
class SpecRead:
    """A job of the core, and what it was read under: it counts the resources in their order there."""

    job: Job
    rows: IntakeRows


class NewSpecReader:
    """Reads new jobs of one tenant, under its instructions and the resources' steps as they were just read."""

    def __init__(self, pool: Pool, rows: IntakeRows) -> None:
        self._rows = rows
        self._budget = None if rows.rent_budget is None else credits_of(rows.rent_budget)
        self._steps = {row.name: AmountSteps(row.least, row.step) for row in rows.resources}
        self._reader = SpecReader(pool, [(row.pk, row.name) for row in rows.resources])

    def read(self, spec: Mapping[str, Any], *, arrival: float, lane: str) -> SpecRead:
        """Raises `BadScenario`."""
        reader = self._reader
        job = reader.read_spec(spec, arrival=arrival, lane=lane, budget=self._budget)
        demands_check(spec, self._steps)
        if PROGRAM in spec:
            members_check(job, reader.resources, spec)
        return SpecRead(job, self._rows)

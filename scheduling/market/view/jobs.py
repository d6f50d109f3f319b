"""Turn rows of training jobs into jobs of the core, and a moment into an arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from scheduling.core.scenario.jobs import ScenarioJobs
from scheduling.core.types import Job
from scheduling.market.view.frame import PoolFrame
from scheduling.market.view.specs import for_the_core, worth_kept
from scheduling.models import Pool, TrainingJob


def arrival_of(pool: Pool, moment: datetime) -> float:
    """Return a moment in slots since the pool's epoch, computed from whole microseconds so that it is the same on every
    machine."""
    microseconds = (moment - pool.epoch_at) // timedelta(microseconds=1)
    return microseconds / (pool.slot_seconds * 1_000_000)


class JobReader:
    """Reads jobs for one frame. Equal demands share one array, so keep a reader for all the jobs of a snapshot."""

    def __init__(self, frame: PoolFrame) -> None:
        self.frame = frame
        self._jobs = ScenarioJobs(frame.cluster.resources, frame.with_budgets, frame.cluster.slot_seconds)

    def read(self, row: TrainingJob) -> Job:
        """Return the job of a row. It was accepted, so its specification was checked when it was submitted."""
        job = self.read_as(row, row.spec, number=row.pk)
        return replace(job, together=row.array_id) if row.together else job

    def read_as(self, row: TrainingJob, spec: Mapping[str, Any], *, number: int) -> Job:
        """Return the job of a row as if it had this specification and number. Where its worth names a moment, that
        stays where it is."""
        whose: dict[str, Any] = {"tenant_id": row.tenant_id, "arrival": row.arrival, "lane": row.lane}
        return worth_kept(self.read_spec(spec, number=number, **whose), row.worth_from)

    def read_spec(self, spec: Mapping[str, Any], *, number: int, tenant_id: int, arrival: float, lane: str) -> Job:
        """Return the job of a specification. Raises `BadScenario` with the field that cannot be used.

        The job's name here is its number: tenants choose names as they like, and two may choose the same.
        """
        whose = {"name": str(number), "tenant": str(tenant_id), "arrival": arrival, "lane": lane}
        return self._jobs.read({**for_the_core(spec), **whose}, number)

    def forget_names(self) -> None:
        """Forget the names read so far, because the next jobs belong to another snapshot."""
        self._jobs.names.clear()

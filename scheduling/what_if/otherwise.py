"""The job of a stored view, as it was reported and as it would have been reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduling.core import records
from scheduling.core.scenario import BadScenario
from scheduling.core.scenario.jobs import ScenarioJobs
from scheduling.core.types import Job, View
from scheduling.market.view import for_the_core, worth_kept
from scheduling.models import TrainingJob
from tenants.access import Refused

ARRIVAL = "arrival"  # a field in slots of the pool; all others are those of a specification
WORK = ("epochs", "chunks", "minibatches", "minibatch_seconds", "update_seconds", "gradient_mb")
UNITS = ("worker_mbps", "ps_mbps", "worker_demand", "ps_demand", "min_workers", "max_workers", "max_ps")
TERMS = ("max_price", "rent")  # no floor depends on these
FIELDS = ("value", *UNITS, *WORK, "priority", *TERMS, ARRIVAL)


@dataclass(frozen=True)
class Misasked(Refused):
    """A refusal that is about one part of the question. `field` is one of interval, job, field and value."""

    field: str
    interval: int | None = None  # the interval to ask about instead


OTHER_SPECIFICATION = Misasked(
    "other_specification", "The job's specification is not the one that the interval was decided on.", "job"
)


def job_as_reported(view: View, row: TrainingJob) -> Job | Refused:
    """Return the waiting job, if its row still says what the interval was given."""
    job = next(job for job in view.waiting if job.number == row.pk)
    again = _read(view, row, dict(row.spec), row.arrival, job)
    same = isinstance(again, Job) and _bytes(again, view) == _bytes(job, view)
    return job if same else OTHER_SPECIFICATION


def job_otherwise(view: View, row: TrainingJob, job: Job, field: str, value: Any) -> Job | Refused:
    """Return the job with another value in one field; None means as if the field had not been given."""
    spec, arrival = dict(row.spec), row.arrival
    if field == ARRIVAL:
        sentence = f"arrival: must be a number of slots, {arrival:g} (when it came) or more."
        wrong = Misasked("invalid_value", sentence, "value")
        if isinstance(value, bool) or not isinstance(value, int | float) or not arrival <= value <= 1e9:
            return wrong
        arrival = float(value)
    elif value is None:
        spec.pop(field, None)
    else:
        spec[field] = value
    return _read(view, row, spec, arrival, job)


def value_of(row: TrainingJob, field: str) -> Any:
    return row.arrival if field == ARRIVAL else row.spec.get(field)


def _read(view: View, row: TrainingJob, spec: Mapping[str, Any], arrival: float, job: Job) -> Job | Refused:
    """Read the job. If a budget had lowered what it may cost, that limit stays."""
    cluster = view.cluster
    tenants = [replace(tenant, budget=tenant.budget or 0.0) for tenant in cluster.tenants]
    tenant = cluster.tenants[job.tenant].name
    whose = {"name": str(row.pk), "tenant": tenant, "arrival": arrival, "lane": job.lane}
    try:
        read = ScenarioJobs(cluster.resources, tenants, cluster.slot_seconds).read(
            {**for_the_core(spec), **whose}, row.pk
        )
    except BadScenario as error:
        place = error.place.removeprefix(f"jobs[{row.pk}]").removeprefix(".")
        return Misasked("invalid_value", f"{place or 'The job'}: {error.message}.", "value")
    limits = [limit for limit in (read.max_price, _cap(row, job)) if limit is not None]
    return replace(worth_kept(read, row.worth_from), max_price=min(limits, default=None))


def _cap(row: TrainingJob, job: Job) -> float | None:
    """Return what the submitter's budget left, where that was less than the job's own limit."""
    own = row.spec.get("max_price")
    return None if job.max_price is None or job.max_price == own else job.max_price


def _bytes(job: Job, view: View) -> bytes:
    alone = replace(view, waiting=(job,), remaining=view.remaining[:1], active=(), floors={}, jobs={})
    return records.view_bytes(alone)

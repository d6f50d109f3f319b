"""Fill the form of a job when it is opened: with an earlier job, or with a small one of a usual kind of model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db.models import Max
from django.shortcuts import get_object_or_404

from scheduling.core.workload.model_types import MODEL_TYPES
from scheduling.jobs import description_shown, with_description
from scheduling.models import PROGRAM, Cell, Pool, Rent, ResourceKind, ServerCapacity, ServerState, TrainingJob
from scheduling.programs.sbatch.request import GPUS
from scheduling.quotes.pages.submit_catalogue import OfferedProgram
from scheduling.quotes.pages.submit_form import BATCH, FORM, TEXT, JobForm, form_values, plain
from scheduling.quotes.pages.submit_hours import HOURS, SCRIPT, short_start, short_values
from scheduling.quotes.pages.submit_program import defaults
from scheduling.quotes.pages.submit_text import job_text
from scheduling.runs import offered
from scheduling.sharing import sharing_of
from tenants.access import Access
from tenants.models import Tenant

START = defaults() | {"kind": "linear", "worth": 20, "loss": 0.5, "wanted": BATCH}
TAB_OF = {"hours": HOURS, "script": SCRIPT, "detail": FORM, "yaml": TEXT}  # the names in an address
FIRST = MODEL_TYPES[1]
MOST_GPUS = 4  # that the example of a new form asks for


def new_key() -> str:
    """Return a key for a form that is opened: a form that is sent twice makes one job."""
    return uuid4().hex


def job_named(source: str | None) -> TrainingJob | None:
    """Return the job of the open tenant whose number an address names."""
    if source is None:
        return None
    number = int(source) if source.isdecimal() and len(source) < 19 else 0
    return get_object_or_404(with_description(TrainingJob.objects.all()), pk=number)


def gpus_here(tenant: Tenant, pool: Pool, kinds: Sequence[ResourceKind]) -> int:
    """Return how many GPUs a new form asks for: as many as the largest server has, so that what it shows can run as it
    stands. A tenant that never rents has only its own cells there."""
    gpu = next((kind for name in GPUS for kind in kinds if kind.name == name), None)
    rows = Cell.objects.all() if sharing_of(tenant, pool).rent == Rent.NEVER else ServerCapacity.objects.all()
    on_a_server = rows.filter(resource=gpu, server__state=ServerState.IN_SERVICE, server__hosts_workers=True)
    return min(on_a_server.aggregate(most=Max("units"))["most"] or 1, MOST_GPUS)


def opening(
    pool: Pool,
    kinds: Sequence[ResourceKind],
    *,
    gpus: int,
    job: TrainingJob | None,
    by: str | None,
    reader: Access,
    at: datetime,
    programs: Sequence[OfferedProgram] = (),
    program: str = "",
) -> dict[str, Any]:
    """Return the data of a new form. `gpus` are those of its example. `job` is one of the open tenant's to begin with,
    `by` is the tab and `program` the choice of a program that the address names. One with parameter servers is
    described in detail."""
    offer = next((each for each in programs if each.choice == program), None)
    runs = next((each.choice for each in (offer, *programs) if each and not each.has_servers), "")
    base = {"pool": pool.slug, "key": new_key(), "runs": runs} | short_start(pool, at, gpus)
    if job is None:
        tab = {"source": TAB_OF.get(by or "", FORM if offer and offer.has_servers else HOURS)}
        first = {"name": offer.program.name, "program": offer.choice} if offer else {"name": "my-job"}
        data = {**START, **base, **tab, **first, **_preset(FIRST.fields(pool.slot_seconds), kinds)}
        example = JobForm({**data, "source": FORM}, kinds=kinds)
        text = job_text(data["name"], BATCH, example.spec()) if tab["source"] == TEXT and example.is_valid() else ""
        return {**data, "text": text}
    answers = {"name": job.name, "wanted": job.lane}
    if (description := description_shown(job, reader)) is not None:
        answers |= short_values(description["said"], job.spec.get(PROGRAM), programs)
    spec = offered(job.spec)
    values = form_values(spec, kinds, programs=programs)
    if values is None:
        return {**START, **base, "source": TEXT, "text": job_text(job.name, job.lane, spec), **answers}
    return {**START, **base, "source": FORM, **{name: plain(value) for name, value in values.items()}, **answers}


def presets(pool: Pool, kinds: Sequence[ResourceKind]) -> list[dict[str, Any]]:
    """Return what each button fills in, as JSON."""
    return [{"type": each, "fill": json.dumps(_preset(each.fields(pool.slot_seconds), kinds))} for each in MODEL_TYPES]


def _preset(fields: Mapping[str, Any], kinds: Sequence[ResourceKind]) -> dict[str, Any]:
    """Return these fields, and one of each unit's own resource where the pool counts whole workers and parameter
    servers."""
    takes = {
        f"{unit}_takes_{kind.name}": 1 if kind.name.startswith(unit) and _first(kinds, unit) == kind.name else ""
        for unit in ("worker", "ps")
        for kind in kinds
    }
    return {name: plain(value) for name, value in fields.items()} | takes


def _first(kinds: Sequence[ResourceKind], unit: str) -> str | None:
    return next((kind.name for kind in kinds if kind.name.startswith(unit)), None)

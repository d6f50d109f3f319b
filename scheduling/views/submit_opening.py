"""How the form of a job begins: as an earlier job, or as a small one of a usual kind of model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from django.shortcuts import get_object_or_404

from scheduling.core.workload.model_types import MODEL_TYPES
from scheduling.models import Pool, ResourceKind, TrainingJob
from scheduling.selectors.measured import offered
from scheduling.services.submission import Wanted
from scheduling.views.submit_form import FORM, TEXT, form_values, plain
from scheduling.views.submit_program import defaults
from scheduling.views.submit_text import written

START = defaults() | {"kind": "linear", "worth": 20, "loss": 0.5, "wanted": Wanted.BATCH.value, "source": FORM}
FIRST = MODEL_TYPES[1]


def new_key() -> str:
    """One for each form that is opened: sent twice, it is one job."""
    return uuid4().hex


def opening(pool: Pool, kinds: Sequence[ResourceKind], *, source: str | None) -> dict[str, Any]:
    """`source`: the number of a job of the open tenant, as the address has it."""
    known = {"pool": pool.slug, "key": new_key()}
    if source is None:
        return {**START, **known, "name": "my-job", **_preset(FIRST.fields(pool.slot_seconds), kinds)}
    job = get_object_or_404(TrainingJob, pk=int(source) if source.isdecimal() and len(source) < 19 else 0)
    told = {"name": job.name, "wanted": job.lane}
    spec = offered(job.spec)
    values = form_values(spec, kinds)
    if values is None:
        return {**START, **known, **told, "source": TEXT, "text": written(job.name, job.lane, spec)}
    return {**START, **known, **told, **{name: plain(value) for name, value in values.items()}}


def presets(pool: Pool, kinds: Sequence[ResourceKind]) -> list[dict[str, Any]]:
    """What each button fills in, as JSON."""
    return [{"type": each, "fill": json.dumps(_preset(each.fields(pool.slot_seconds), kinds))} for each in MODEL_TYPES]


def _preset(fields: Mapping[str, Any], kinds: Sequence[ResourceKind]) -> dict[str, Any]:
    """With one of each unit's own resource, where the pool counts whole workers and parameter servers."""
    takes = {
        f"{unit}_takes_{kind.name}": 1 if kind.name.startswith(unit) and _first(kinds, unit) == kind.name else ""
        for unit in ("worker", "ps")
        for kind in kinds
    }
    return {name: plain(value) for name, value in fields.items()} | takes


def _first(kinds: Sequence[ResourceKind], unit: str) -> str | None:
    return next((kind.name for kind in kinds if kind.name.startswith(unit)), None)

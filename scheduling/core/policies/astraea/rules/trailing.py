"""The price base that follows what recent jobs were worth (L7). It changes between batches only.

The figures are kept in the policy's memory, so a stored interval holds all that its price base came from: for each of
the last batches, by resource, how many jobs were new in it and what a unit-slot was worth to them. A job counts once,
in the batch that first collects it, so no job influences the prices of the batch it comes with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from scheduling.core.policies.astraea.rules.estimates import values_per_unit_slot
from scheduling.core.types import Cluster, Job, View

KEY = "trailing"  # the key of the figures in the memory
MOST_KEPT = 64  # figures kept of one batch and resource; of more jobs, those of evenly spaced ranks stand for all
THETA_LEAST = 2.0  # R28
MEDIAN = 0.5


class Trailing(TypedDict):
    """The setting: theta = 1 + factor * quantile of the figures of the last `batches` batches with new jobs."""

    batches: int
    factor: float
    quantile: float
    least_jobs: int  # a resource with fewer figures keeps the configured theta: the cold start


DEFAULTS: Trailing = {"batches": 16, "factor": 0.8, "quantile": 0.9, "least_jobs": 20}


def price_base(theta: Mapping[str, float], trailing: Trailing | None, memory: Mapping[str, Any]) -> dict[str, float]:
    """Return theta by resource for the next batch. The argument `theta` is the configured one."""
    if trailing is None:
        return dict(theta)
    batches = memory.get(KEY, {}).get("batches", ())
    return {resource: _base(amount, trailing, resource, batches) for resource, amount in theta.items()}


def usual_value(
    unit_value: Mapping[str, float], trailing: Trailing | None, memory: Mapping[str, Any]
) -> dict[str, float]:
    """Return, by resource, the median of the same figures (K8). `unit_value` is the configured value."""
    if trailing is None:
        return dict(unit_value)
    batches = memory.get(KEY, {}).get("batches", ())
    return {
        resource: amount if (median := _quantile(trailing, resource, batches, MEDIAN)) is None else median
        for resource, amount in unit_value.items()
    }


def price_base_of(settings: Mapping[str, Any], memory: Mapping[str, Any]) -> dict[str, float]:
    """Return theta by resource for the next batch, from settings as a pool keeps them; empty if they have no theta."""
    theta, trailing = settings.get("theta"), settings.get("trailing")
    if not isinstance(theta, Mapping):
        return {}
    return price_base(theta, None if trailing is None else Trailing(**{**DEFAULTS, **trailing}), memory)


def remembered(
    trailing: Trailing, memory: Mapping[str, Any], view: View, jobs: Sequence[Job], *, exact: bool
) -> dict[str, Any]:
    """Return the memory after a batch that dealt with `jobs` at the view's slot. Jobs that came since the last batch
    count as new."""
    before = memory.get(KEY, {"slot": 0, "batches": []})
    new = [job for job in jobs if job.arrival >= before["slot"]]
    batches = list(before["batches"])
    if new:
        batches.append(_figures(view.cluster, new, exact=exact))
    return {**memory, KEY: {"slot": view.slot, "batches": batches[-trailing["batches"] :]}}


def _base(start: float, trailing: Trailing, resource: str, batches: Sequence[Mapping[str, Any]]) -> float:
    figure = _quantile(trailing, resource, batches, trailing["quantile"])
    return start if figure is None else max(THETA_LEAST, 1.0 + trailing["factor"] * figure)


def _quantile(trailing: Trailing, resource: str, batches: Sequence[Mapping[str, Any]], part: float) -> float | None:
    """Return the least figure that the given part of the jobs does not exceed; None where too few jobs are known. The
    figures of a batch have equal weights, which sum to its jobs."""
    counted = [batch[resource] for batch in batches if resource in batch]
    if sum(batch["jobs"] for batch in counted) < trailing["least_jobs"]:
        return None
    figures = np.concatenate([batch["figures"] for batch in counted])
    weights = np.concatenate([np.full(len(b["figures"]), b["jobs"] / len(b["figures"])) for b in counted])
    order = np.argsort(figures, kind="stable")
    reached = np.cumsum(weights[order])
    place = int(np.searchsorted(reached, part * reached[-1] * (1.0 - 1e-12)))
    return float(figures[order][place])


def _figures(cluster: Cluster, jobs: Sequence[Job], *, exact: bool) -> dict[str, Any]:
    """Return, by resource, the number of jobs and their figures in order. Resources without figures are left out."""
    figures_by_resource = {}
    for resource, figures in zip(cluster.resources, values_per_unit_slot(cluster, jobs, exact=exact), strict=True):
        if count := len(figures):
            length = min(count, MOST_KEPT)
            ranks = (2 * np.arange(length) + 1) * count // (2 * length)
            figures_by_resource[resource] = {"jobs": count, "figures": np.sort(figures)[ranks].tolist()}
    return figures_by_resource

"""Read what programs measured of their own speed, so that the next job of the same kind need not guess it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.core.speed import exchange_seconds
from scheduling.models import Run

WORK = ("epochs", "seed", "checkpoint_seconds", "gather_seconds", "patience_seconds", "stragglers")


@dataclass(frozen=True)
class Measured:
    """The speed that a run reported: seconds of a mini-batch and of an exchange, and the size of the gradients."""

    minibatch_seconds: float
    exchange_seconds: float
    gradient_mb: float
    job_id: int
    at: datetime


def measured(*, program: str, parameters: Mapping[str, Any] | None = None) -> Measured | None:
    """Return what the current tenant's newest run of this program measured, with the same parameters of the model if
    `parameters` are given."""
    rows = Run.objects.filter(program=program, progress__has_key="minibatch_seconds").select_related("job")
    for run in rows.order_by("-pk")[:20]:
        if parameters is None or _same_model(run.job.spec, parameters):
            progress = run.progress
            return Measured(
                minibatch_seconds=float(progress["minibatch_seconds"]),
                exchange_seconds=float(progress.get("exchange_seconds", 0.0)),
                gradient_mb=float(progress.get("gradient_mb", 0.0)),
                job_id=run.job_id,
                at=run.ended_at or run.seen_at,
            )
    return None


def offered(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification with measured times in place of its own, or as it is if nothing was measured."""
    return {**spec, **(measurement.times if (measurement := offer(spec)) else {})}


@dataclass(frozen=True)
class MeasuredTimes:
    """Times by the fields of a specification, and the measurement that they come from."""

    times: Mapping[str, Any]
    measured: Measured


def offer(spec: Mapping[str, Any]) -> MeasuredTimes | None:
    """Return measured times for a job with a program; None if nothing was measured, or it has these already."""
    program = spec.get("program")
    if not isinstance(program, Mapping):
        return None
    measurement = measured(program=str(program.get("name")), parameters=program.get("parameters", {}))
    if measurement is None:
        return None
    times = _times(spec, measurement)
    return None if all(spec.get(name) == value for name, value in times.items()) else MeasuredTimes(times, measurement)


def _times(spec: Mapping[str, Any], measured: Measured) -> dict[str, Any]:
    """Return times by fields. An exchange that took E seconds with gradients of G MB is a bandwidth of 16 G / E Mbit/s.
    The ratio of the two bandwidths, so how many workers one parameter server serves, stays as it was."""
    times: dict[str, Any] = {"minibatch_seconds": round(measured.minibatch_seconds, 4)}
    if measured.exchange_seconds > 0 and measured.gradient_mb > 0:
        mbps = exchange_seconds(measured.gradient_mb, measured.exchange_seconds)  # the same formula gives the bandwidth
        times |= {"gradient_mb": measured.gradient_mb, "worker_mbps": round(mbps, 6)}
        before = spec.get("worker_mbps"), spec.get("ps_mbps")
        if all(isinstance(number, int | float) and number > 0 for number in before):
            times["ps_mbps"] = round(mbps * before[1] / before[0], 6)  # type: ignore[operator]
    return times


def _same_model(spec: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
    """Return whether both train the same model, so that the speed of one says something about the other."""
    other = spec.get("program", {}).get("parameters", {})
    one = {name: value for name, value in parameters.items() if name not in WORK}
    return one == {name: value for name, value in other.items() if name not in WORK}

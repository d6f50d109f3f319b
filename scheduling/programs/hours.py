"""A job described in hours (how many workers for how long, and how well it scales), and the specification of it.

A run of S seconds on n workers is one epoch of n chunks, each of S mini-batches of a second. So with n workers it takes
S seconds, whatever a slot's length is: ceil(S / slot) slots, never less than the described time and less than a slot
more. The specification has no exchange of gradients: its cost is in the described time already.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scheduling.programs.fields import FieldRefusal, path_of, shown

MOST_WORKERS = 10_000
MOST_SECONDS = 366 * 86_400
LARGEST = 10**12  # the largest coefficient or amount
PERFECT, GOOD, POOR, MEASURED = "perfect", "good", "poor", "measured"
DOUBLING = {PERFECT: 1.0, GOOD: 0.9, POOR: 0.7}  # twice the workers bring this part of twice the speed
COEFFICIENTS = {"sync": 5, "async": 4}


@dataclass(frozen=True)
class InHours:
    """The answers in hours. `worker` is what one worker takes of each resource. With fewer than `most` workers the job
    takes longer, by `scaling`; if that is `measured`, by the coefficients of a speed function and its mode."""

    seconds: int  # the time with `most` workers
    most: int
    least: int
    worker: tuple[tuple[str, float], ...]  # (resource, amount), in order of the names
    scaling: str = PERFECT
    mode: str = "sync"
    speed: tuple[float, ...] = ()


def read(answers: Mapping[str, Any], resources: Sequence[str]) -> InHours | tuple[FieldRefusal, ...]:
    """Read the answers of a form or a program: `hours`, `most` and `worker`; and, if given, `least` (else the same as
    `most`), `scaling`, `mode` and `speed`.

    `resources` are those of the pool.
    """
    refusals = [
        FieldRefusal(path_of(name), "is no answer that is asked for")
        for name in answers
        if name not in ("hours", "most", "least", "worker", "scaling", "mode", "speed")
    ]
    seconds = _seconds(answers.get("hours"))
    most = _count(answers.get("most"), "most")
    least = most if answers.get("least") is None else _count(answers["least"], "least")
    worker = _worker(answers.get("worker"), resources)
    scaling = answers.get("scaling") or PERFECT
    if scaling not in (*DOUBLING, MEASURED):
        refusals.append(FieldRefusal("scaling", f"must be one of {', '.join((*DOUBLING, MEASURED))}"))
    mode, speed = answers.get("mode") or "sync", answers.get("speed") or ()
    refusals += _speed(scaling, mode, speed)
    refusals += [each for each in (seconds, most, worker) if isinstance(each, FieldRefusal)]
    refusals += [least] if isinstance(least, FieldRefusal) and least is not most else []
    if isinstance(most, int) and isinstance(least, int) and least > most:
        refusals.append(FieldRefusal("least", f"must be at most {most}, the most workers, not {least}"))
    if refusals:
        return tuple(refusals)
    return InHours(seconds, most, least, worker, scaling, mode, tuple(speed))  # type: ignore[arg-type]


def specification(job: InHours, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job's specification in this order of fields. `value` is the value function."""
    fields: dict[str, Any] = {
        "epochs": 1,
        "chunks": job.most,
        "minibatches": job.seconds,
        "minibatch_seconds": 1,
        "worker_demand": {resource: _plain(amount) for resource, amount in job.worker},
        "ps_demand": [],
        "min_workers": job.least,
        "max_workers": job.most,
    }
    if speed := curve(job):
        fields |= {"mode": job.mode if job.scaling == MEASURED else "sync", "speed": list(speed)}
    return fields | {"value": dict(value)}


def _without_value(job: InHours) -> dict[str, Any]:
    return {name: entry for name, entry in specification(job, {}).items() if name != "value"}


def curve(job: InHours) -> tuple[float, ...]:
    """Return the coefficients of a speed function, for policies that use one; none if workers scale perfectly.

    A step is a mini-batch of each of n chunks, M = n, and takes a second with n workers: 1 / f = t0 n / w + t1. With
    `least` workers it takes (n / least)^a seconds, a = 1 + log2 of what a doubling brings; t0 + t1 = 1.
    """
    if job.scaling == MEASURED:
        return job.speed
    if job.scaling == PERFECT or job.least == job.most:
        return ()
    times = job.most / job.least
    part = (times ** (1.0 + math.log2(DOUBLING[job.scaling])) - 1.0) / (times - 1.0)
    return (round(part, 9), round(1.0 - part, 9), 0.0, 0.0, 0.0)


def answers_of(specification: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the answers that give a specification; None if no answers in hours give it.

    `worth.answers_of` does the same for what it is worth.
    """
    spec = {name: entry for name, entry in specification.items() if name != "value"}
    least, most, seconds = (spec.get(name) for name in ("min_workers", "max_workers", "minibatches"))
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in (least, most, seconds)):
        return None
    hours = f"{seconds * 1_000_000 // 3600 / 1_000_000:.6f}".rstrip("0").rstrip(".")  # type: ignore[operator]
    answers = {"hours": hours, "most": most, "least": least, "worker": spec.get("worker_demand")}
    worker = answers["worker"]
    for scaling in DOUBLING:
        job = read({**answers, "scaling": scaling}, list(worker) if isinstance(worker, Mapping) else [])
        if isinstance(job, InHours) and _without_value(job) == spec:
            return {**answers, "scaling": scaling}
    return None


def to_bytes(specification: Mapping[str, Any]) -> bytes:
    """Return the specification in canonical JSON: equal specifications have equal bytes."""
    return json.dumps(specification, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _plain(amount: float) -> float | int:
    return int(amount) if float(amount).is_integer() else amount


def _seconds(hours: object) -> int | FieldRefusal:
    """Return hours as whole seconds, rounded up."""
    if hours is None:
        return FieldRefusal("hours", "is missing")
    text = str(hours).strip()
    if isinstance(hours, bool) or not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,12})?", text, re.ASCII):
        return FieldRefusal("hours", f"must be a number of hours, not {shown(text)}")
    seconds = math.ceil(Fraction(text) * 3600)
    if not 0 < seconds <= MOST_SECONDS:
        return FieldRefusal("hours", f"must be above 0 and at most {MOST_SECONDS // 3600:,}, not {shown(text)}")
    return seconds


def _count(value: object, field: str) -> int | FieldRefusal:
    if value is None:
        return FieldRefusal(field, "is missing")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_WORKERS:
        return FieldRefusal(field, f"must be a whole number from 1 to {MOST_WORKERS:,}, not {shown(str(value))}")
    return value


def _worker(value: object, resources: Sequence[str]) -> tuple[tuple[str, float], ...] | FieldRefusal:
    if not isinstance(value, Mapping) or not value:
        return FieldRefusal("worker", "must say what a worker takes of at least one resource")
    for resource, amount in value.items():
        if resource not in resources:
            names = ", ".join(resources)
            return FieldRefusal(f"worker.{path_of(resource)}", f"is no resource of the pool; there are {names}")
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount <= LARGEST:
            return FieldRefusal(f"worker.{path_of(resource)}", "must be a number, 0 or more")
    if not any(value.values()):
        return FieldRefusal("worker", "must say what a worker takes of at least one resource")
    return tuple(sorted((str(resource), amount) for resource, amount in value.items() if amount))


def _speed(scaling: object, mode: object, speed: object) -> list[FieldRefusal]:
    if not isinstance(speed, list | tuple):
        return [FieldRefusal("speed", "must be a list of numbers")]
    if scaling != MEASURED:
        return [FieldRefusal("speed", "belongs to a measured curve alone")] if speed else []
    if not isinstance(mode, str) or mode not in COEFFICIENTS:
        return [FieldRefusal("mode", f"must be one of {', '.join(COEFFICIENTS)}")]
    numbers = [each for each in speed if isinstance(each, int | float) and not isinstance(each, bool)]
    if not len(numbers) == len(speed) == COEFFICIENTS[mode] or not all(0 <= each <= LARGEST for each in numbers):
        return [FieldRefusal("speed", f"must be {COEFFICIENTS[mode]} numbers, 0 or more, for the mode {mode}")]
    return []

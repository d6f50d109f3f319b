"""The worth of jobs. A log does not say it, so it is assumed in three ways, and every table says which it uses.

A job of u units and r whole slots does w = u r h unit-hours, h the hours of a slot. With x the slots from its arrival
to its end and P the slots of fourteen days:

- `by_hour`: c w (1 - (x - r) / P), c credits for each unit-hour, alike for everybody, gone fourteen days too late.
- `heavy_tail`: the same with c times an owner's own factor, drawn from a Pareto distribution with exponent 1.5 and
  median 1, so that a few owners' hours are worth much more.
- `deadline`: c w / (1 + exp(8 (x - 2 r - 1) / r)): full until twice the run time after the arrival, then next to none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduling.core.workload.document import short
from scheduling.lab.histories.history import DAY, HOUR, History

PATIENCE_DAYS = 14
EXPONENT = 1.5
STEEPNESS = 8.0
DIGITS = 9  # significant digits

WORTHS = {
    "by_hour": "every unit-hour is worth the same to everybody, and nothing is left of it fourteen days too late",
    "heavy_tail": "as before, but a few owners' hours are worth much more, drawn with the seed",
    "deadline": "full worth until twice the run time after the submission, then next to nothing",
}


def value_rows(history: History, worth: str, rate: float, seed: int) -> list[dict[str, Any]]:
    """Return the value functions of the jobs, as scenario files have them. Owners are drawn in their order, never by
    name."""
    factors = dict.fromkeys(history.owners, 1.0)
    if worth == "heavy_tail":
        draws = 1.0 + np.random.default_rng(seed).pareto(EXPONENT, len(history.owners))
        factors = dict(zip(history.owners, (draws / 2 ** (1 / EXPONENT)).tolist(), strict=True))
    patience = PATIENCE_DAYS * DAY / history.slot_seconds
    hours = history.slot_seconds / HOUR
    rows: list[dict[str, Any]] = []
    for job in history.jobs:
        slots = history.run_slots(job)
        full = rate * factors[job.owner] * job.units * slots * hours
        if worth == "deadline":
            decay = short(STEEPNESS / slots, DIGITS)
            rows.append({"kind": "sigmoid", "priority": short(full, DIGITS), "decay": decay, "target": 2 * slots + 1})
        else:
            slope, base = short(-full / patience, DIGITS), short(full * (1.0 + slots / patience), DIGITS)
            rows.append({"kind": "linear", "slope": slope, "base": base})
    return rows

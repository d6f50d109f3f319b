"""The form's fields for how long a job trains: a number of epochs, or until its loss has stopped falling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.market.elastic import LEAST_THRESHOLD, MOST_THRESHOLD, PATIENCE, THRESHOLD
from scheduling.models import UNTIL

PER_CENT = 100.0
FIELDS = {"threshold": "threshold", "patience": "patience"}  # field of the specification -> field of the form


def threshold_flaw(per_cent: float | None) -> str:
    """Return what is wrong with a threshold, in the unit of the form, or an empty text."""
    least, most = PER_CENT * LEAST_THRESHOLD, PER_CENT * MOST_THRESHOLD
    return "" if per_cent is None or least <= per_cent <= most else f"Must be from {least:g} to {most:g} per cent."


def target_asked(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the fields of a valid form mean, as part of a specification; nothing where the box is not ticked."""
    if not answers.get("until_converged"):
        return {}
    target: dict[str, Any] = {}
    if answers.get("threshold") is not None:
        target["threshold"] = float(f"{answers['threshold'] / PER_CENT:.12g}")
    if answers.get("patience") is not None:
        target["patience"] = answers["patience"]
    return {UNTIL: {"threshold": THRESHOLD, "patience": PATIENCE, **target}}


def target_values(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields that mean the target of a specification, or None where they cannot say it."""
    target = spec.get(UNTIL)
    if target is None:
        return {}
    if not isinstance(target, Mapping) or set(target) - set(FIELDS):
        return None
    values = {"threshold": target.get("threshold", THRESHOLD), "patience": target.get("patience", PATIENCE)}
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values.values()):
        return None
    per_cent = float(f"{values['threshold'] * PER_CENT:.12g}")
    return values | {"until_converged": "on", "threshold": int(per_cent) if per_cent.is_integer() else per_cent}

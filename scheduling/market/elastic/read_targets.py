"""Read the target of a job that trains until its loss has stopped falling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.core.estimates.live import LossTarget
from scheduling.core.scenario import BadScenario
from scheduling.core.scenario.fields import Section
from scheduling.core.types import Job
from scheduling.models import UNTIL

THRESHOLD, PATIENCE = 0.01, 3  # used where a job does not set them
LEAST_THRESHOLD, MOST_THRESHOLD = 1e-6, 0.5
MOST_PATIENCE = 100
MOST_EPOCHS = 2_000  # for a job that ends by its loss


def target_of(spec: Mapping[str, Any], epochs: int) -> LossTarget | None:
    """Return the target that a specification sets, or None if the job trains a fixed number of epochs. With a target,
    the job's `epochs` are the most that it may train. Raises `BadScenario` at the field that is wrong."""
    if spec.get(UNTIL) is None:
        return None
    section = Section(spec[UNTIL], UNTIL, ("threshold", "patience"))
    threshold = section.number("threshold", THRESHOLD, least=LEAST_THRESHOLD, most=MOST_THRESHOLD)
    patience = section.whole("patience", PATIENCE, most=MOST_PATIENCE)
    if epochs > MOST_EPOCHS:
        raise BadScenario("epochs", f"must be at most {MOST_EPOCHS:,} where the loss says when the job ends")
    if patience >= epochs:
        raise BadScenario(f"{UNTIL}.patience", f"must be less than the job's most epochs ({epochs})")
    return LossTarget(threshold, epochs, patience)


def target_check(spec: Mapping[str, Any], job: Job, *, elastic: bool, has_program: bool) -> None:
    """Raise `BadScenario` if the job has a target but could not be ended by its loss."""
    if target_of(spec, job.epochs) is None:
        return
    if not elastic:
        raise BadScenario(UNTIL, "needs an elastic pool: elsewhere a job pays for all of what it reserved")
    if not has_program:
        raise BadScenario(UNTIL, "needs a program: its loss is what says when the job ends")

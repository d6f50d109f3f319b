"""Reading the files of weights that settings name. A file's content takes the place of its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduling.core.policies.dl2.files import LARGEST, WeightFile, shipped_bytes
from scheduling.core.scenario import BadScenario
from scheduling.lab.files import reason

LEARNED = ("dl2", "offline_rl")
SHIPPED = {"shipped:measured": "dl2_measured"}  # besides those that each policy has by itself


def with_weights(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a policy with its weights read, or those of the policy within; all others stay as they
    are. Paths count from the current folder."""
    if isinstance(within := settings.get("policy"), Mapping):
        return {**settings, "policy": with_weights(within)}
    named = settings.get("weights")
    if settings.get("name") not in LEARNED or not isinstance(named, str):
        return settings
    return {**settings, "weights": WeightFile(named, weights_read(named, "policy.weights"))}


def weights_read(named: str, place: str) -> bytes:
    """Return the content of a file of weights, or of what is shipped under that name. `place` is where it was named."""
    if named in SHIPPED and (shipped := shipped_bytes(SHIPPED[named])) is not None:
        return shipped
    try:
        with Path(named).open("rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise BadScenario(place, f"{named} cannot be read ({reason(error)})") from None
    if len(content) > LARGEST:
        raise BadScenario(place, f"{named} is larger than {LARGEST:,} bytes")
    return content

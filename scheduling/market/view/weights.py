"""Policies of live pools, built from their settings: where these name trained weights, the stored ones are meant."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from scheduling.core import policies
from scheduling.core.policies.dl2.files import WeightFile
from scheduling.core.scenario import BadScenario
from scheduling.core.types import Cluster, Policy
from scheduling.models import PolicyWeights

Settings = Mapping[str, Any]


def policy_built(settings: Settings, cluster: Cluster) -> Policy:
    """The policy of a lane. No jobs are named: no setting may depend on those of the day. Raises `BadScenario`."""
    return policies.build(with_stored_weights(settings), cluster, ())


def with_stored_weights(settings: Settings) -> Settings:
    """The settings with the content of the weights that they name, their own or those of the policy within."""
    if isinstance(settings.get("policy"), Mapping):
        return {**settings, "policy": with_stored_weights(settings["policy"])}
    if not isinstance(named := settings.get("weights"), str):
        return settings
    return {**settings, "weights": WeightFile(named, weights_stored(named))}


def weights_stored(name: str) -> bytes:
    """The content of the weights of that name. Raises `BadScenario` where there are none."""
    digest = PolicyWeights.objects.filter(name=name).values_list("digest", flat=True).first()
    if digest is None:
        known = ", ".join(PolicyWeights.objects.values_list("name", flat=True)) or "none"
        raise BadScenario("policy.weights", f"no weights are stored as {name}; there are: {known}")
    return _content(digest)


@lru_cache(maxsize=8)
def _content(digest: str) -> bytes:
    """The same digest is the same bytes, so that they are read once."""
    return bytes(PolicyWeights.objects.filter(digest=digest).values_list("content", flat=True)[0])

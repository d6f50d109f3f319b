"""Weights of live pools: which of them are in use, and their content where settings name them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from scheduling.core.policies.dl2.files import WeightFile
from scheduling.core.scenario import BadScenario
from scheduling.models import PolicyWeights, Pool, WeightsPromotion

Settings = Mapping[str, Any]
LEARNED = ("dl2", "offline_rl")


def is_learned(pool: Pool) -> bool:
    """Whether a network with weights decides its slots."""
    return pool.batch_policy.get("name") in LEARNED


def settings_in_use(pool: Pool, slot: int) -> dict[str, Any]:
    """The settings of an elastic pool's policy in a slot: as the pool was made, with the weights that were put in place
    by then. The interval that is decided with them names these weights, their digest and since when they serve."""
    settings = dict(pool.batch_policy)
    promotion = promotion_by(pool, slot) if is_learned(pool) else None
    if promotion is None:
        return settings
    settings["since"] = promotion.from_slot
    if promotion.weights is not None:
        settings |= {"weights": promotion.weights.name, "digest": promotion.weights.digest}
    return settings


def promotion_by(pool: Pool, slot: int) -> WeightsPromotion | None:
    """The one that holds in the slot; None where the pool decides with what it was made with."""
    rows = WeightsPromotion.objects.filter(pool=pool, from_slot__lte=slot).order_by("-from_slot", "-pk")
    return rows.select_related("weights").defer("weights__content").first()


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
        names = ", ".join(PolicyWeights.objects.values_list("name", flat=True)) or "none"
        raise BadScenario("policy.weights", f"no weights are stored as {name}; there are: {names}")
    return _content(digest)


@lru_cache(maxsize=8)
def _content(digest: str) -> bytes:
    """The same digest is the same bytes, so that they are read once."""
    return bytes(PolicyWeights.objects.filter(digest=digest).values_list("content", flat=True)[0])

"""Read the weights of live pools: which ones are in use, and the content of those that settings name."""

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
    """Return whether a network with trained weights decides the pool's slots."""
    return pool.batch_policy.get("name") in LEARNED


def settings_in_use(pool: Pool, slot: int) -> dict[str, Any]:
    """Return the settings of an elastic pool's policy in a slot: those of its creation, with the weights that were put
    in place by then. The interval decided with them names these weights, their digest, and the slot since which they
    hold.
    """
    settings = dict(pool.batch_policy)
    promotion = promotion_by(pool, slot) if is_learned(pool) else None
    if promotion is None:
        return settings
    settings["since"] = promotion.from_slot
    if promotion.weights is not None:
        settings |= {"weights": promotion.weights.name, "digest": promotion.weights.digest}
    return settings


def promotion_by(pool: Pool, slot: int) -> WeightsPromotion | None:
    """Return the promotion of weights that holds in the slot, or None if the pool still decides with its first
    settings.
    """
    rows = WeightsPromotion.objects.filter(pool=pool, from_slot__lte=slot).order_by("-from_slot", "-pk")
    return rows.select_related("weights").defer("weights__content").first()


def with_stored_weights(settings: Settings) -> Settings:
    """Return the settings with the content of the weights that they name, in themselves or in the policy inside
    them."""
    if isinstance(settings.get("policy"), Mapping):
        return {**settings, "policy": with_stored_weights(settings["policy"])}
    if not isinstance(named := settings.get("weights"), str):
        return settings
    return {**settings, "weights": WeightFile(named, weights_stored(named))}


def weights_stored(name: str) -> bytes:
    """Return the content of the weights of that name. Raises `BadScenario` if there are none."""
    digest = PolicyWeights.objects.filter(name=name).values_list("digest", flat=True).first()
    if digest is None:
        names = ", ".join(PolicyWeights.objects.values_list("name", flat=True)) or "none"
        raise BadScenario("policy.weights", f"no weights are stored as {name}; there are: {names}")
    return _content(digest)


@lru_cache(maxsize=8)
def _content(digest: str) -> bytes:
    """Read the content of weights by digest. The same digest means the same bytes, so the content is cached."""
    return bytes(PolicyWeights.objects.filter(digest=digest).values_list("content", flat=True)[0])

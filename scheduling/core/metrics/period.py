"""Compute how far apart tenants are over a period, from their sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduling.core.metrics.figures import dispersion, jain_index


@dataclass(frozen=True)
class PeriodSpread:
    """How far apart tenants are over a period; a figure is None if there is nothing to compare."""

    ratio_variance: float | None
    jain_index: float | None  # of the rewards
    reward_dispersion: float | None  # standard deviation of the rewards over their mean
    worst_off: int | None  # the contributing tenant with the smallest reward, if rewards differ
    lowest_ratio: float | None


def period_ratio(gain: float, even: float) -> float | None:
    """Return a tenant's fairness ratio of a period: its gain over what that would be if all gains followed the quotas,
    interval by interval (`even`).

    For one interval that is R25. Return None if the tenant has no part of the quotas, or if all value together is not
    above 0.
    """
    return gain / even if even > 0 else None


def period_reward(earned: float, contributed: float) -> float | None:
    """Return the credits earned from others over what was contributed; None if nothing was contributed."""
    return earned / contributed if contributed > 0 else None


def spread(ratios: Mapping[int, float | None], rewards: Mapping[int, float | None]) -> PeriodSpread:
    """Return the spread of ratios and rewards, both by tenant. Tenants without a figure do not count."""
    known_ratios = [ratio for ratio in ratios.values() if ratio is not None]
    paid = {tenant: reward for tenant, reward in rewards.items() if reward is not None}
    amounts = np.array(list(paid.values()))
    worst = min(paid, key=lambda tenant: (paid[tenant], tenant)) if len(set(paid.values())) > 1 else None
    return PeriodSpread(
        ratio_variance=float(np.var(known_ratios)) if known_ratios else None,
        jain_index=jain_index(amounts),
        reward_dispersion=dispersion(amounts),
        worst_off=worst,
        lowest_ratio=min(known_ratios, default=None),
    )

"""How far apart tenants are over a period, from their sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduling.core.metrics.figures import jain_index


@dataclass(frozen=True)
class PeriodSpread:
    """None where there is nothing to compare."""

    ratio_variance: float | None
    jain_index: float | None  # of the rewards
    reward_dispersion: float | None  # standard deviation of the rewards over their mean
    worst_off: int | None  # tenant: the contributor with the smallest reward, where rewards differ
    lowest_ratio: float | None


def period_ratio(gain: float, even: float) -> float | None:
    """A period's fairness ratio: its gain over what it would be if all gains followed the quotas, interval by interval.

    Of one interval that is R25. None for who has no part of the quotas, or where all value together is not above 0.
    """
    return gain / even if even > 0 else None


def period_reward(earned: float, contributed: float) -> float | None:
    """Credits earned from others by what was contributed; None for who contributed nothing."""
    return earned / contributed if contributed > 0 else None


def spread(ratios: Mapping[int, float | None], rewards: Mapping[int, float | None]) -> PeriodSpread:
    """By tenant. Those without a figure do not count."""
    known_ratios = [ratio for ratio in ratios.values() if ratio is not None]
    paid = {tenant: reward for tenant, reward in rewards.items() if reward is not None}
    amounts = np.array(list(paid.values()))
    worst = min(paid, key=lambda tenant: (paid[tenant], tenant)) if len(set(paid.values())) > 1 else None
    return PeriodSpread(
        ratio_variance=float(np.var(known_ratios)) if known_ratios else None,
        jain_index=jain_index(amounts),
        reward_dispersion=float(amounts.std() / amounts.mean()) if amounts.any() else None,
        worst_off=worst,
        lowest_ratio=min(known_ratios, default=None),
    )

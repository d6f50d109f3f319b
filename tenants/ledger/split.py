"""The rule for dividing money that the book already counts: largest remainder over whole weights. Pure.

`scheduling.core.settlement` turns a policy's fractions into whole micro-credits by the same rule. It may not import
this application, and this one may not import it.
"""

from __future__ import annotations

from collections.abc import Sequence


def split(amount: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Divide `amount` micro-credits in proportion to integer `weights`, exactly.

    Part i is floor(amount * w_i / W); the micro-credits left over go one each to the largest remainders,
    ties to the lowest index. Parts sum to `amount`, each is within one micro-credit of its exact share, and
    a zero weight gets zero. Weights are integers (unit-slots), so no share is ever rounded twice.
    """
    total = sum(weights)
    if amount < 0 or total <= 0 or min(weights) < 0:
        raise ValueError(f"cannot split {amount} by weights {list(weights)}")
    parts = [amount * weight // total for weight in weights]
    remainders = [amount * weight % total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda index: -remainders[index])  # stable: ties stay in order
    for index in by_remainder[: amount - sum(parts)]:
        parts[index] += 1
    return tuple(parts)

"""Astraea, as in the paper and as a market that guarantees each job what it would get if its owner were alone."""

from scheduling.core.policies.astraea.moves import MoveCause, why_moved
from scheduling.core.policies.astraea.policy import Astraea, build
from scheduling.core.policies.astraea.what_if import OpenDecision

__all__ = ["Astraea", "MoveCause", "OpenDecision", "build", "why_moved"]

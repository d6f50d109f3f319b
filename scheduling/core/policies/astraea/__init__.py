"""Astraea, in the reading of the paper and as a market that guarantees every job what its owner has alone."""

from scheduling.core.policies.astraea.moves import MoveCause, why_moved
from scheduling.core.policies.astraea.policy import Astraea, build
from scheduling.core.policies.astraea.what_if import OpenDecision

__all__ = ["Astraea", "MoveCause", "OpenDecision", "build", "why_moved"]

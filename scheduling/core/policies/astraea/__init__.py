"""Astraea, in the reading of the paper and as a market that guarantees every job what its owner has alone."""

from scheduling.core.policies.astraea.policy import Astraea, build

__all__ = ["Astraea", "build"]

"""OASiS: an answer at once. Each job is admitted with a schedule and a price, or refused, when it arrives."""

from scheduling.core.policies.oasis.policy import Oasis, build

__all__ = ["Oasis", "build"]

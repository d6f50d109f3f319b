"""OASiS: each job is answered when it arrives. It is admitted with a schedule and a price, or refused."""

from scheduling.core.policies.oasis.policy import Oasis, build

__all__ = ["Oasis", "build"]

"""The lab, which needs no live market: runs, comparisons, repeated figures of papers, training of networks."""

from scheduling.lab.reproduction.describing import Claim
from scheduling.lab.reproduction.judging import HELD, INCOMPARABLE, NO_DIFFERENCE, ClaimVerdict, judge

__all__ = ["HELD", "INCOMPARABLE", "NO_DIFFERENCE", "Claim", "ClaimVerdict", "judge"]

"""Judging whether what a paper claims came out, and writing the line that says so in numbers.

A claim has a direction (who is better, whether something rises) and, where the paper prints a figure, a size. The
size came out if ours differs from the paper's by no more than a quarter of the figure, or, for an advantage such as
1.58 times, if our advantage is at least half and at most twice the paper's.

Every line runs the same draws, so a claim's number has a paired spread: twice its standard error over the draws, found
by leaving out one draw of all lines at a time (the jackknife; of a difference of means it is the usual paired error). A
number that is no further than that from where there would be no difference shows none, in either direction.

Makespans, completion times and utilisations are those of a set of jobs. Where not all jobs of every draw ended, they
are not comparable, and there is no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from scheduling.lab.reproduction.describing import Claim
from scheduling.lab.tables import figure

HELD, DIRECTION, NOT_HELD, UNKNOWN = "held", "direction only", "not held", "not measured"
NO_DIFFERENCE, INCOMPARABLE = "no difference seen", "not comparable"
NEAR = 0.25  # relative
EQUAL = 1e-9  # relative
AS_GOOD = 0.1  # relative

ERRORS = 2.0  # standard errors to each side
LARGEST = 1e6  # times the number; one that a draw moves further has no bound, as a quotient by almost nothing
STEADY = 1.5  # a curve is steady if its largest over its smallest is at most this

Runs = Mapping[str, Sequence[Sequence[float | None]]]  # by line: at each swept value, the figure of each draw
Ended = Mapping[str, Sequence[Sequence[tuple[float, float]]]]  # likewise: (jobs that the figure is about, all jobs)
Means = Mapping[str, Sequence[float]]  # by line: the mean at each swept value


@dataclass(frozen=True)
class ClaimVerdict:
    """The outcome of one claim."""

    claim: Claim
    outcome: str
    ours: float | None
    line: str
    spread: float | None = None  # twice the paired standard error; None for one draw, or without a bound

    @property
    def came_out(self) -> bool:
        """Return whether both direction and size came out."""
        return self.outcome == HELD


@dataclass(frozen=True)
class ClaimFinding:
    """The numbers for one claim: direction, our number, and whether the size is the paper's, or None where it prints
    none. At `neutral` there would be no difference; it is None where the claim is a size alone."""

    direction: bool
    ours: float
    size: bool | None = None
    neutral: float | None = None


def judge(claim: Claim, runs: Runs, values: Sequence[float], ended: Ended | None = None) -> ClaimVerdict:
    """Return the verdict on one claim, from the runs of its measure over the swept values. `ended` is given where the
    measure is about jobs that ended."""
    needed = [name for name in (claim.line, claim.other, *(claim.beside or ())) if name]
    places = list(range(len(values)))
    if claim.at is not None:
        places = [min(places, key=lambda index: abs(values[index] - (claim.at or 0.0)))]
    values = [values[place] for place in places]
    if ended is not None and (words := _apart(needed, places, ended)):
        return ClaimVerdict(claim, INCOMPARABLE, None, f"{INCOMPARABLE}: {claim.words} - {words}")
    curves: dict[str, list[list[float]]] = {name: [] for name in needed}
    for name in needed:
        for place in places:
            figures = [figure for figure in runs[name][place] if figure is not None]
            if not figures or len(figures) < len(runs[name][place]):
                return ClaimVerdict(claim, UNKNOWN, None, f"{UNKNOWN}: {claim.words} - a line has no figure")
            curves[name].append(figures)
    value = _finding(claim, curves, values)
    if not math.isfinite(value.ours):
        return ClaimVerdict(claim, UNKNOWN, None, f"{UNKNOWN}: {claim.words} - a line reaches nothing")
    spread = _spread(claim, curves, values)
    outcome = _outcome(value, spread)
    draws = max(len(figures) for curve in curves.values() for figures in curve)
    return ClaimVerdict(claim, outcome, value.ours, _line(claim, outcome, value, spread, draws), spread)


def _apart(lines: Sequence[str], places: Sequence[int], ended: Ended) -> str:
    """Return why the runs of lines cannot be compared: jobs that did not end, or other jobs. Return an empty text if
    they can."""
    for place in places:
        for name in lines:
            for (some, jobs), (_, first) in zip(ended[name][place], ended[lines[0]][place], strict=True):
                if some < jobs:
                    return f"{name} ends {some:,g} of {jobs:,g} jobs"
                if jobs != first:
                    return f"the lines have {first:,g} and {jobs:,g} jobs"
    return ""


def _finding(claim: Claim, curves: Mapping[str, Sequence[Sequence[float]]], values: Sequence[float]) -> ClaimFinding:
    means = {name: [fmean(figures) for figures in curve] for name, curve in curves.items()}
    return KINDS[claim.kind](claim, means, values)


def _spread(claim: Claim, curves: Mapping[str, Sequence[Sequence[float]]], values: Sequence[float]) -> float | None:
    """Return twice the standard error of the claim's number, or None with one draw, or where the number has no
    bound."""
    draws = min(len(figures) for curve in curves.values() for figures in curve)
    if draws < 2:
        return None
    without = []
    for left_out in range(draws):
        rest = {
            name: [[*figures[:left_out], *figures[left_out + 1 :]] for figures in curve]
            for name, curve in curves.items()
        }
        without.append(_finding(claim, rest, values).ours)
    whole = abs(_finding(claim, curves, values).ours)
    if not all(math.isfinite(each) and abs(each) <= LARGEST * max(whole, 1.0) for each in without):
        return None
    middle = fmean(without)
    spread = ERRORS * math.sqrt((draws - 1) / draws * sum((each - middle) ** 2 for each in without))
    return spread if spread > EQUAL * abs(middle) else 0.0  # a smaller spread is rounding


def _outcome(claim_finding: ClaimFinding, spread: float | None) -> str:
    if claim_finding.neutral is not None:
        if spread is None:
            return NO_DIFFERENCE
        apart = abs(claim_finding.ours - claim_finding.neutral)
        if apart <= spread and (spread > 0 or not claim_finding.direction):
            return NO_DIFFERENCE
    if not claim_finding.direction:
        return NOT_HELD
    return DIRECTION if claim_finding.size is False else HELD


def _line(claim: Claim, outcome: str, claim_finding: ClaimFinding, spread: float | None, draws: int) -> str:
    paper = f"paper {figure(claim.number)}, " if claim.number is not None else ""
    unknown = ", one draw" if draws == 1 else ", by how much depends on one draw"
    error = f" ± {figure(float(f'{spread:.2g}'))}" if spread is not None else unknown
    because = f"; {claim.unless}" if outcome != HELD and claim.unless else ""
    return f"{outcome}: {claim.words} ({paper}ours {figure(round(claim_finding.ours, 4))}{error}){because}"


def _near(ours: float, paper: float | None) -> bool | None:
    return None if paper is None else abs(ours - paper) <= NEAR * abs(paper)


def _advantage(ours: float, paper: float | None) -> bool | None:
    """Return whether the advantage over 1 is between half and twice the paper's, on either side of 1."""
    if paper is None:
        return None
    mine, theirs = (max(ratio, 1.0 / ratio) - 1.0 if ratio > 0 else 0.0 for ratio in (ours, paper))
    return theirs / 2 <= mine <= 2 * theirs


def _ratio(curve: Sequence[float], other: Sequence[float]) -> float:
    """Return how many times as much the curve has as the other, over the whole curve."""
    below = sum(other)
    return sum(curve) / below if below > 0 else float("inf")


def _more(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    ratio = _ratio(curves[claim.line], curves[claim.other])
    return ClaimFinding(ratio > 1.0 + EQUAL, ratio, _advantage(ratio, claim.number), 1.0)


def _less(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    ratio = _ratio(curves[claim.line], curves[claim.other])
    return ClaimFinding(ratio < 1.0 - EQUAL, ratio, _advantage(ratio, claim.number), 1.0)


def _rises(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    first, last = curves[claim.line][0], curves[claim.line][-1]
    return ClaimFinding(last > first, last - first, _near(last - first, claim.number), 0.0)


def _falls(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    rise = _rises(claim, curves, values)
    return ClaimFinding(rise.ours < 0, rise.ours, _near(rise.ours, claim.number), 0.0)


def _at_least(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    least = min(curves[claim.line])
    return ClaimFinding(least >= (claim.number or 0.0), least, None, claim.number or 0.0)


def _at_most(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    most = max(curves[claim.line])
    return ClaimFinding(most <= (claim.number or 0.0) * (1.0 + EQUAL), most, None, claim.number or 0.0)


def _mean_is(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    mean = fmean(curves[claim.line])
    return ClaimFinding(bool(_near(mean, claim.number)), mean)


def _steady(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    """Check that the largest of a curve over its smallest is steady. The size came out if that ratio is no more than
    the paper's, or if its advantage over 1 is within half and twice the paper's."""
    least = min(curves[claim.line])
    ratio = max(curves[claim.line]) / least if least > 0 else float("inf")
    if claim.number is None:
        return ClaimFinding(ratio <= STEADY, ratio, None, STEADY)
    return ClaimFinding(ratio <= STEADY, ratio, _advantage(ratio, claim.number) or ratio <= claim.number, STEADY)


def _widens(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    gaps = [mine - theirs for mine, theirs in zip(curves[claim.line], curves[claim.other], strict=True)]
    return ClaimFinding(gaps[-1] > gaps[0], gaps[-1] - gaps[0], None, 0.0)


def _narrows(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    wider = _widens(claim, curves, values)
    return ClaimFinding(wider.ours < 0, wider.ours, None, 0.0)


def _pulls_away(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    """Check that the other's figure as a multiple of the line's rises and ends above 1, for a measure that should be
    small."""
    first, last = (curves[claim.other][at] / max(curves[claim.line][at], EQUAL) for at in (0, -1))
    return ClaimFinding(last > max(first, 1.0), last - first, None, 0.0)


def _as_good(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    """Check that the line is no more than a tenth above the other, for a measure that should be small."""
    ratio = _ratio(curves[claim.line], curves[claim.other])
    return ClaimFinding(ratio <= 1.0 + AS_GOOD, ratio, None, 1.0 + AS_GOOD)


def _peak_at(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    """Check at which swept value the curve is highest."""
    curve = curves[claim.line]
    place = values[curve.index(max(curve))]
    return ClaimFinding(place == claim.number, place)


def _leads_by_more(claim: Claim, curves: Means, values: Sequence[float]) -> ClaimFinding:
    """Compare two ratios: that of the line to the other, and that of the pair of lines in `beside`."""
    line, other = claim.beside or (claim.line, claim.other)
    more = _ratio(curves[claim.line], curves[claim.other]) - _ratio(curves[line], curves[other])
    return ClaimFinding(more > EQUAL, more, None, 0.0)


KINDS: Mapping[str, Callable[[Claim, Means, Sequence[float]], ClaimFinding]] = {
    "more": _more,
    "less": _less,
    "rises": _rises,
    "falls": _falls,
    "at least": _at_least,
    "at most": _at_most,
    "mean is": _mean_is,
    "steady": _steady,
    "widens": _widens,
    "narrows": _narrows,
    "pulls away": _pulls_away,
    "as good": _as_good,
    "peak at": _peak_at,
    "leads by more": _leads_by_more,
}

"""Whether what a paper claims came out, and the line that says so in numbers.

A claim has a direction (who is better, whether something rises) and, where the paper prints a figure, a size. The
size came out if ours differs from the paper's by no more than a quarter of the figure, or, for an advantage such as
1.58 times, if our advantage is at least half and at most twice the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from scheduling.management.reproduction.describing import Claim
from scheduling.management.tables import figure

HELD, DIRECTION, NOT_HELD, UNKNOWN = "held", "direction only", "not held", "not measured"
NEAR = 0.25  # relative
EQUAL = 1e-9  # relative
AS_GOOD = 0.1  # relative

Curves = Mapping[str, Sequence[float | None]]  # by line, the mean at each swept value
Known = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Verdict:
    """What became of a claim."""

    claim: Claim
    outcome: str
    ours: float | None
    line: str

    @property
    def came_out(self) -> bool:
        """Direction and size."""
        return self.outcome == HELD


@dataclass(frozen=True)
class Finding:
    """Direction, our number, and whether the size is the paper's; None where it prints none."""

    direction: bool
    ours: float
    size: bool | None = None


def judge(claim: Claim, curves: Curves, values: Sequence[float]) -> Verdict:
    """The verdict on one claim, from the curves of its measure over the swept values."""
    needed = [name for name in (claim.line, claim.other) if name]
    if any(None in curves[name] or not curves[name] for name in needed):
        return Verdict(claim, UNKNOWN, None, f"{UNKNOWN}: {claim.words} - a line has no figure")
    known = {name: [float(y or 0.0) for y in curves[name]] for name in needed}
    if claim.at is not None:
        place = min(range(len(values)), key=lambda index: abs(values[index] - (claim.at or 0.0)))
        known, values = {name: [curve[place]] for name, curve in known.items()}, [values[place]]
    found = KINDS[claim.kind](claim, known, values)
    with_size = DIRECTION if found.size is False else HELD
    outcome = with_size if found.direction else NOT_HELD
    return Verdict(claim, outcome, found.ours, _line(claim, outcome, found))


def _line(claim: Claim, outcome: str, found: Finding) -> str:
    paper = f"paper {figure(claim.number)}, " if claim.number is not None else ""
    because = f"; {claim.unless}" if outcome != HELD and claim.unless else ""
    return f"{outcome}: {claim.words} ({paper}ours {figure(round(found.ours, 4))}){because}"


def _near(ours: float, paper: float | None) -> bool | None:
    return None if paper is None else abs(ours - paper) <= NEAR * abs(paper)


def _advantage(ours: float, paper: float | None) -> bool | None:
    """Whether the advantage over 1 is within half and twice the paper's, on either side of 1."""
    if paper is None:
        return None
    mine, theirs = (max(ratio, 1.0 / ratio) - 1.0 if ratio > 0 else 0.0 for ratio in (ours, paper))
    return theirs / 2 <= mine <= 2 * theirs


def _ratio(curve: Sequence[float], other: Sequence[float]) -> float:
    """How many times as much, over the whole curve."""
    below = sum(other)
    return sum(curve) / below if below > 0 else float("inf")


def _more(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    ratio = _ratio(curves[claim.line], curves[claim.other])
    return Finding(ratio > 1.0 + EQUAL, ratio, _advantage(ratio, claim.number))


def _less(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    ratio = _ratio(curves[claim.line], curves[claim.other])
    return Finding(ratio < 1.0 - EQUAL, ratio, _advantage(ratio, claim.number))


def _rises(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    first, last = curves[claim.line][0], curves[claim.line][-1]
    return Finding(last > first, last - first, _near(last - first, claim.number))


def _falls(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    rise = _rises(claim, curves, values)
    return Finding(rise.ours < 0, rise.ours, _near(rise.ours, claim.number))


def _at_least(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    least = min(curves[claim.line])
    return Finding(least >= (claim.number or 0.0), least)


def _at_most(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    most = max(curves[claim.line])
    return Finding(most <= (claim.number or 0.0) * (1.0 + EQUAL), most)


def _mean_is(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    mean = fmean(curves[claim.line])
    return Finding(bool(_near(mean, claim.number)), mean)


def _steady(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    """The largest of a curve over its smallest is no more than halfway from the paper's figure to twice it."""
    least = min(curves[claim.line])
    ratio = max(curves[claim.line]) / least if least > 0 else float("inf")
    if claim.number is None:
        return Finding(ratio <= 1.5, ratio)
    return Finding(ratio <= 1.5, ratio, _advantage(ratio, claim.number) or ratio <= claim.number)


def _widens(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    gaps = [mine - theirs for mine, theirs in zip(curves[claim.line], curves[claim.other], strict=True)]
    return Finding(gaps[-1] > gaps[0], gaps[-1] - gaps[0])


def _narrows(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    wider = _widens(claim, curves, values)
    return Finding(wider.ours < 0, wider.ours)


def _pulls_away(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    """How many times as much the other has rises, of what should be small, and is more in the end."""
    first, last = (curves[claim.other][at] / max(curves[claim.line][at], EQUAL) for at in (0, -1))
    return Finding(last > max(first, 1.0), last - first)


def _as_good(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    """No more than a tenth above the other, of what should be small."""
    ratio = _ratio(curves[claim.line], curves[claim.other])
    return Finding(ratio <= 1.0 + AS_GOOD, ratio)


def _peak_at(claim: Claim, curves: Known, values: Sequence[float]) -> Finding:
    """The swept value at which the curve is highest."""
    curve = curves[claim.line]
    place = values[curve.index(max(curve))]
    return Finding(place == claim.number, place)


KINDS: Mapping[str, Callable[[Claim, Known, Sequence[float]], Finding]] = {
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
}

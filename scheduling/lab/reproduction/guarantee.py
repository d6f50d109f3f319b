"""Measurements of the guarantee's second edition: what renewed plans, a searched price and a dividend are worth, and to
whom.

There are three loads of small markets and the full cluster of Astraea's section 5.1, in windows of up to 32 slots. All
rules see the same draws. "Surplus" is all value less what everybody would have alone. Then come the same loads, and one
with guests, with jobs that rent in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.lab.reproduction.describing import Adjustment, Claim, Figure, FigureLine, RunCheck, Scale

GUARANTEE: Mapping[str, Any] = {"name": "astraea", "mode": "guarantee"}
PAPER: Mapping[str, Any] = {"name": "astraea", "mode": "paper", "value_from": "arrival"}
HALF = {"price": "searched", "dividend": 0.5}
RENEWED = (("renewed", 1.0),)
KEEP, RENEW, RENEW_SEARCHED = "kept, posted", "renewed, posted", "renewed, searched"
RENEW_HALF, KEEP_HALF = "renewed, searched, dividend 1/2", "kept, searched, dividend 1/2"


def _lines(first: int, paper: Mapping[str, Any]) -> tuple[FigureLine, ...]:
    """Return the lines of our rules, with windows that grow from `first` to 32 slots, and of the paper's, with values
    as they are realised."""
    rules = {**GUARANTEE, "clock": {"first": first, "cap": 32, "restart": True}}
    return (
        FigureLine(KEEP, rules),
        FigureLine(RENEW, rules, RENEWED),
        FigureLine(RENEW_SEARCHED, {**rules, "price": "searched"}, RENEWED),
        FigureLine(RENEW_HALF, {**rules, **HALF}, RENEWED),
        FigureLine(KEEP_HALF, {**rules, **HALF}),
        FigureLine("paper, realised values", {**PAPER, **paper}),
    )


STEADY = _lines(32, {"clock": {"first": 32, "cap": 32, "restart": True}})
GROWING = _lines(1, {})  # the paper's windows grow without end: few of its jobs fit in 32 slots
MEASURES = ("revenue", "owners_share", "fairness_variance", "least_gain", "median_gain")


def _figure(
    name: str,
    title: str,
    jobs: int,
    world: Mapping[str, Any],
    shares: Mapping[str, float],
    value: float,
    gain: float,
    lines: tuple[FigureLine, ...] = STEADY,
) -> Figure:
    """Return a figure of the rules. `value` was measured under kept floors and posted prices; `gain` is what renewed
    plans reach as a multiple of it; `shares` is the owners' part of the surplus, by line."""
    return Figure(
        name=name,
        paper="our own measurement",
        title=title,
        swept="jobs",
        axis="jobs",
        lines=lines,
        measures=MEASURES,
        claims=(
            Claim("mean is", "all value with kept floors", KEEP, number=value),
            Claim(
                "more" if gain > 1 else "as good",
                f"all value, {RENEW}",
                *_order(gain),
                number=gain if gain > 1 else None,
            ),
            *(Claim("mean is", f"owners' share, {line}", line, "", "owners_share", n) for line, n in shares.items()),
        ),
        checks=tuple(RunCheck("nobody is below alone", line.label, "least_gain", -1e-6) for line in lines[:-1]),
        world={"preset": "astraea", **world},
        full=Scale((jobs,), 10),
        small=Scale((max(6, jobs // 10),), 2, {"tenants": 3, "servers": 6}),
    )


def _order(gain: float) -> tuple[str, str]:
    """Return the line that is larger, then the other. Without a gain the other is the one that should be no more than a
    tenth larger."""
    return (RENEW, KEEP) if gain > 1 else (KEEP, RENEW)


def _small_market(load: float) -> dict[str, Any]:
    return {"tenants": 8, "servers": 24, "load": load, "longest": 8}


def _uneven_market(load: float) -> dict[str, Any]:
    """Return a world with jobs of all lengths, a tenth of section 5.1's, and tenants that own much and ask for little,
    or the reverse."""
    return {"tenants": 8, "servers": 24, "load": load, "shorter": 10, "apart": True}


# Long jobs that rent in pieces (D1 to D10); a save loses a quarter of a slot. In lines named "whole" they do not.
WHOLE_32, PIECES_32, PIECES_16 = "whole, windows of 32", "pieces, windows of 32", "pieces, windows of 16"
WHOLE_8, PIECES_8 = "whole, windows of 8", "pieces, windows of 8"
IN_PIECES = (*RENEWED, ("divisible", 0.25))


def _windows(slots: int) -> Mapping[str, Any]:
    return {**GUARANTEE, "clock": {"first": slots, "cap": slots, "restart": True}}


PIECES = (
    FigureLine(WHOLE_32, _windows(32), RENEWED),
    FigureLine(PIECES_32, _windows(32), IN_PIECES),
    FigureLine(PIECES_16, _windows(16), IN_PIECES),
    FigureLine(WHOLE_8, _windows(8), RENEWED),
    FigureLine(PIECES_8, _windows(8), IN_PIECES),
)


def _in_pieces(
    name: str,
    title: str,
    jobs: int,
    load: float,
    claims: tuple[Claim, ...],
    adjust: tuple[Adjustment, ...] = (),
) -> Figure:
    """Return the figure of one world of small markets, in which either all jobs can be saved or none."""
    return Figure(
        name=name,
        paper="our own measurement",
        title=title,
        swept="jobs",
        axis="jobs",
        lines=PIECES,
        measures=("revenue", "owners_share", "idle_in_use", "guests_served", "least_gain"),
        claims=claims,
        checks=tuple(RunCheck("nobody is below alone", line.label, "least_gain", -1e-6) for line in PIECES),
        world={"preset": "astraea", **_uneven_market(load)},
        adjust=adjust,
        full=Scale((jobs,), 10),
        small=Scale((max(6, jobs // 10),), 2, {"tenants": 3, "servers": 6}),
    )


def _loaded(name: str, jobs: int, load: float, more: tuple[float, float], shares: Mapping[str, float]) -> Figure:
    """Return the figure of one load. `more` is all value with pieces in windows of 16 and of 8, times that without in
    windows of 32; `shares` is the owners' part of the surplus, by line."""
    return _in_pieces(
        name,
        f"A load of {load:.0%}, whole and in pieces",
        jobs,
        load,
        (
            Claim("as good", "all value in pieces, windows of 32", WHOLE_32, PIECES_32),
            Claim("more", "all value in pieces, windows of 16", PIECES_16, WHOLE_32, number=more[0]),
            Claim("more", "all value in pieces, windows of 8", PIECES_8, WHOLE_32, number=more[1]),
            *(Claim("mean is", f"owners' share, {line}", line, "", "owners_share", n) for line, n in shares.items()),
        ),
    )


SERVED = {WHOLE_32: 7.2, PIECES_32: 16.3, WHOLE_8: 3.8, PIECES_8: 16.7}  # of the 17 jobs of guests

FIGURES = (
    _figure(
        "guarantee-1",
        "A load of 60 %",
        30,
        _small_market(0.6),
        {KEEP: 0.43, RENEW: 0.38, RENEW_SEARCHED: 0.37, RENEW_HALF: 0.54, KEEP_HALF: 0.61},
        14_872,
        0.997,
    ),
    _figure(
        "guarantee-2",
        "A load of 100 %",
        50,
        _small_market(1.0),
        {KEEP: 0.46, RENEW: 0.41, RENEW_SEARCHED: 0.44, RENEW_HALF: 0.55, KEEP_HALF: 0.61},
        24_405,
        0.995,
    ),
    _figure(
        "guarantee-3",
        "A load of 200 %",
        100,
        _small_market(2.0),
        {KEEP: 0.52, RENEW: 0.51, RENEW_SEARCHED: 0.53, RENEW_HALF: 0.70, KEEP_HALF: 0.71},
        46_652,
        0.999,
    ),
    _figure(
        "guarantee-4",
        "The overloaded cluster of Astraea's section 5.1",
        300,
        {"tenants": 14, "servers": 100},
        {KEEP: 0.16, RENEW: 0.10, RENEW_SEARCHED: 0.55, RENEW_HALF: 0.61, KEEP_HALF: 0.84},
        46_096,
        1.394,
        GROWING,
    ),
    _loaded("guarantee-5-60", 30, 0.6, (1.024, 1.046), {PIECES_32: 0.38, PIECES_8: 0.20}),
    _loaded("guarantee-5-100", 50, 1.0, (1.026, 1.048), {PIECES_32: 0.42, PIECES_8: 0.24}),
    _loaded("guarantee-5-200", 100, 2.0, (1.037, 1.073), {PIECES_32: 0.53, WHOLE_8: 0.20, PIECES_8: 0.34}),
    _in_pieces(
        "guarantee-5-guests",
        "A tenant without cells has a third of the jobs, half of which are longer than any window",
        50,
        1.0,
        tuple(
            Claim("mean is", f"guests' jobs served, {line}", line, "", "guests_served", number)
            for line, number in SERVED.items()
        ),
        (("guests", 33.0),),
    ),
)

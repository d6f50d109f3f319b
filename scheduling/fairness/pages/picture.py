"""The few pictures that answer "is it fair?", which need no script. x is in per cent of the drawing, y in pixels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from scheduling.fairness.read_values import TenantPeriod
from tenants.ledger.amounts import rounded

MOST = 14  # most tenants in a picture: those at both ends; the table has them all
MOST_LINES = 7
ROW, HEAD, FOOT = 40.0, 6.0, 24.0
LEFT, RIGHT = 2.0, 98.0  # per cent: room for half a dot
BAND = 0.1
STEPS = (0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0)


@dataclass(frozen=True)
class PictureTick:
    x: float
    label: str


@dataclass(frozen=True)
class Dot:
    """One tenant's ratio. `kind` is "mine", "worst" or ""."""

    name: str
    y: float
    x: float
    low: float
    high: float
    ratio: float
    kind: str

    @property
    def text_y(self) -> float:
        return self.y - 14


@dataclass(frozen=True)
class Dots:
    dots: tuple[Dot, ...]
    ticks: tuple[PictureTick, ...]
    one: float
    band_x: float
    band_width: float
    height: float
    bottom: float
    left_out: int
    summary: str


@dataclass(frozen=True)
class ShareBar:
    """One row with its parts, in per cent of the widest row."""

    name: str
    y: float
    text: str
    parts: tuple[tuple[str, float, float], ...]  # class, x, width
    is_worst: bool = False

    @property
    def text_y(self) -> float:
        return self.y - 6

    @property
    def end(self) -> float:
        """Return where the mark of the mean ends, a little below the bar."""
        return self.y + 14


@dataclass(frozen=True)
class ShareBars:
    bars: tuple[ShareBar, ...]
    height: float
    mean: float | None
    left_out: int
    summary: str


@dataclass(frozen=True)
class PictureLine:
    key: str
    name: str
    short: str
    mark: str


@dataclass(frozen=True)
class Trend:
    """Lines over days. Each of `rows` is one day, with the values in the order of the lines."""

    lines: tuple[PictureLine, ...]
    rows: tuple[tuple[date, int, tuple[float | None, ...]], ...]
    left_out: int

    @property
    def keys(self) -> str:
        return ",".join(line.key for line in self.lines)


def dots_of(tenants: Sequence[TenantPeriod], *, worst: int | None, mine: int | None = None) -> Dots | None:
    """Return the picture of ratios. `tenants` are all that the reader may see; `mine` is a tenant that reads about
    itself."""
    rows = [one for one in tenants if one.ratio is not None]
    view = _ends(rows)
    if not view:
        return None
    ratios = [one.ratio or 0.0 for one in view]
    low, high, step = _scale([*ratios, 1.0 - BAND, 1.0 + BAND])

    def at(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (min(max(value, low), high) - low) / (high - low)

    dots = []
    for place, one in enumerate(view):
        kind = "mine" if one.tenant_id == mine else "worst" if one.tenant_id == worst else ""
        ratio = one.ratio or 0.0
        ends = (
            at(one.lowest if one.lowest is not None else ratio),
            at(one.highest if one.highest is not None else ratio),
        )
        dots.append(Dot(one.name, HEAD + ROW * place + 28, at(ratio), *ends, ratio, kind))
    bottom = HEAD + ROW * len(view)
    count = round((high - low) / step)
    ticks = tuple(PictureTick(at(low + step * place), _tick(low + step * place)) for place in range(count + 1))
    return Dots(
        dots=tuple(dots),
        ticks=ticks,
        one=at(1.0),
        band_x=at(1.0 - BAND),
        band_width=at(1.0 + BAND) - at(1.0 - BAND),
        height=bottom + FOOT,
        bottom=bottom,
        left_out=len(rows) - len(view),
        summary=_dots_summary(rows, mine),
    )


def rewards_of(tenants: Sequence[TenantPeriod], *, worst: int | None) -> ShareBars | None:
    """Return the picture of what each owner earned by what it contributed, for the whole cluster and a slot."""
    rows = sorted((one for one in tenants if one.reward is not None), key=lambda one: -(one.reward or 0.0))
    view = _ends(rows)
    most = max((one.reward or 0.0 for one in rows), default=0.0)
    if not view or most <= 0:
        return None
    bars = tuple(
        ShareBar(
            one.name,
            HEAD + ROW * place + 20,
            rounded(one.reward or 0.0, 4),
            (("u-lend", 0.0, 100 * (one.reward or 0.0) / most),),
            one.tenant_id == worst,
        )
        for place, one in enumerate(view)
    )
    mean = sum(one.reward or 0.0 for one in rows) / len(rows)
    sentence = f"{rows[0].name} has the highest reward, {rows[-1].name} the lowest; {len(rows)} owners."
    return ShareBars(bars, HEAD + ROW * len(view), 100 * mean / most, len(rows) - len(view), sentence)


def idle_of(tenants: Sequence[TenantPeriod]) -> ShareBars | None:
    """Return the picture of idle unit-slots: sold, offered and unsold, kept."""
    rows = [one for one in tenants if one.offered_units + one.kept_units > 0]
    rows.sort(key=lambda one: -(one.offered_units + one.kept_units))
    view = rows[:MOST]
    most = max((one.offered_units + one.kept_units for one in rows), default=0.0)
    if not view:
        return None
    bars = []
    for place, one in enumerate(view):
        sold, unsold, kept = (100 * units / most for units in (one.sold_units, _unsold(one), one.kept_units))
        parts = (("u-lend", 0.0, sold), ("u-idle", sold, unsold), ("u-other", sold + unsold, kept))
        sold_part = one.sold_part
        text = "nothing offered" if sold_part is None else f"{100 * sold_part:.0f} % sold"
        bars.append(ShareBar(one.name, HEAD + ROW * place + 20, text, tuple(part for part in parts if part[2] > 0)))
    sentence = (
        f"{_whole(one.sold_units for one in rows)} of {_whole(one.offered_units for one in rows)} idle unit-slots "
        f"offered were sold; {_whole(one.kept_units for one in rows)} were kept."
    )
    return ShareBars(tuple(bars), HEAD + ROW * len(view), None, len(rows) - len(view), sentence)


def _whole(units: Iterable[float]) -> str:
    return rounded(sum(units), 0)


def trend_of(tenants: Sequence[TenantPeriod], *, worst: int | None, mine: int | None = None) -> Trend | None:
    """Return the ratios by day, or None where there are not two days to draw a line between."""
    rows = [one for one in tenants if one.ratio is not None]
    view = _ends(rows, MOST_LINES)
    days = sorted({day for one in view for day, ratio in one.by_day.items() if ratio is not None})
    if len(days) < 2:
        return None
    lowest = view[-1].tenant_id if mine is None else None
    lines = tuple(
        PictureLine(
            f"t{one.tenant_id}",
            one.name,
            "".join(word[0] for word in one.name.split())[:2].upper() if " " in one.name else one.name[:2].upper(),
            "mine" if one.tenant_id == mine else "worst" if one.tenant_id == lowest else "",
        )
        for one in view
    )
    points = tuple((day, _seconds(day), tuple(one.by_day.get(day) for one in view)) for day in days)
    return Trend(lines, points, len(rows) - len(view))


def _ends(rows: Sequence[TenantPeriod], most: int = MOST) -> list[TenantPeriod]:
    """Return all rows, or the first and the last few."""
    return list(rows) if len(rows) <= most else [*rows[: most // 2], *rows[-(most - most // 2) :]]


def _scale(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lowest value, the highest value and the step of an axis with five to eight marks."""
    low, high = min(values), max(values)
    step = next((step for step in STEPS if (high - low) / step <= 6), (high - low) / 6)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, step


def _tick(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) > 1e-9 else "0"


def _unsold(one: TenantPeriod) -> float:
    return max(one.offered_units - one.sold_units, 0.0)


def _seconds(day: date) -> int:
    return (day - date(1970, 1, 1)).days * 86_400


def _dots_summary(rows: Sequence[TenantPeriod], mine: int | None) -> str:
    first, last = rows[0], rows[-1]
    if mine is not None:
        return f"Yours is {first.ratio:.3f}."
    if len(rows) == 1:
        return f"{first.name} is the only one: {first.ratio:.3f}."
    inside = sum(1 for one in rows if abs((one.ratio or 0.0) - 1.0) <= BAND)
    within = f"{inside} of {len(rows)} tenants lie within 10 % of even"
    return f"{within}; highest {first.name} {first.ratio:.3f}, lowest {last.name} {last.ratio:.3f}."

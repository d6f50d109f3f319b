"""Compute the shapes of the market's board: step lines of prices, slots of the interval, squares of units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.market.reads.market import MyUnits, PriceHistory
from scheduling.market.reads.now import MarketNow, ResourceNow
from scheduling.market.reads.windows import WindowSpan
from scheduling.models import Pool
from tenants.ledger.amounts import price_digits

MOST_SQUARES = 48
MOST_BARS = 16
_COLUMNS, _STEP = 12, 24


@dataclass(frozen=True)
class Tile:
    resource: ResourceNow
    first: bool
    then: float | None  # the next slot's price
    then_at: datetime
    line: str  # path of a 100 x 40 picture
    low: float
    high: float
    peak: float | None  # the highest price to come, where it is above that of now and of the last slot decided
    last: float | None  # the price of the last slot decided, if that is to come

    @property
    def area(self) -> str:
        return f"{self.line}V40H0Z" if self.line else ""

    @property
    def prices(self) -> tuple[float | None, ...]:
        """The prices that people read on the tile and above it. The lowest and highest are read out alone."""
        return self.resource.price, self.then, self.peak, self.last

    @property
    def same(self) -> bool:
        return self.then == self.resource.price


@dataclass(frozen=True)
class BoardSquare:
    kind: str  # own | lent | idle | rent
    x: int
    y: int


@dataclass(frozen=True)
class SlotBar:
    x: float
    width: float
    state: str  # gone | now | ""


@dataclass(frozen=True)
class PriceTiles:
    """A tile for each resource. They are side by side, so their prices have the same number of digits."""

    each: tuple[Tile, ...]
    digits: int


def tiles(pool: Pool, now: MarketNow, history: PriceHistory) -> PriceTiles:
    each = tuple(_tile(pool, now, history, index) for index in range(len(now.resources)))
    return PriceTiles(each, price_digits(price for tile in each for price in tile.prices if price is not None))


def _tile(pool: Pool, now: MarketNow, history: PriceHistory, index: int) -> Tile:
    past = [one.prices[index] for one in history.slots if one.slot <= now.slot]
    following = next((one.prices[index] for one in history.slots if one.slot == now.slot + 1), None)
    last = next((one.prices[index] for one in reversed(history.slots) if one.slot > now.slot), None)
    prices = [price for price in past if price is not None]
    coming = [one.prices[index] or 0.0 for one in history.slots if one.slot >= now.slot]
    peak = max(coming, default=0.0)
    return Tile(
        resource=now.resources[index],
        first=index == 0,
        then=following,
        then_at=pool.slot_start(now.slot + 1),
        line=step_line(past, width=100, height=40),
        low=min(prices, default=0.0),
        high=max(prices, default=0.0),
        peak=peak if coming and peak > max(coming[0], coming[-1], now.resources[index].price or 0.0) else None,
        last=last,
    )


def step_line(prices: Sequence[float | None], *, width: int, height: int) -> str:
    """Return prices as a path of steps, since a price holds for its whole slot. A slot without a price shows the last
    one."""
    highest = max((price for price in prices if price is not None), default=0.0)
    if not prices or highest <= 0.0:
        return ""
    step, path, last = width / len(prices), [], next(price for price in prices if price is not None)
    for number, price in enumerate(prices):
        last = last if price is None else price
        y = round(height - 1 - last / highest * (height - 5), 2)
        path.append(f"{'M0 ' if number == 0 else 'V'}{y:g}H{round((number + 1) * step, 2):g}")
    return "".join(path)


def slot_bars(span: WindowSpan | None, now: MarketNow) -> tuple[SlotBar, ...]:
    """Return the slots of the running interval as bars, or none if there are too many to count."""
    if span is None or not 0 < span.end - span.start <= MOST_BARS:
        return ()
    width = 100 / (span.end - span.start)
    return tuple(
        SlotBar(
            round((slot - span.start) * width + 0.3, 2),
            round(width - 0.8, 2),
            "gone" if slot < now.slot else "now" if slot == now.slot else "",
        )
        for slot in range(span.start, span.end)
    )


def squares(units: MyUnits) -> tuple[BoardSquare, ...]:
    """Return one square for each unit, or none if there are too many to tell apart."""
    counts = (("own", units.used), ("lent", units.lent), ("idle", units.idle), ("rent", units.rented))
    kinds = [kind for kind, count in counts for _ in range(count)]
    if len(kinds) > MOST_SQUARES:
        return ()
    return tuple(
        BoardSquare(kind, number % _COLUMNS * _STEP, number // _COLUMNS * _STEP) for number, kind in enumerate(kinds)
    )


def square_rows(board_squares: Sequence[BoardSquare]) -> int:
    return (max((square.y for square in board_squares), default=0) + 20) if board_squares else 0

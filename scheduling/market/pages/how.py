"""The page "How it works", with an example that the reader can change, and the glossary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from scheduling.market.reads.example import (
    BOUNDS,
    BUSY_HOURS,
    EARLIER,
    NOON,
    TARNS,
    Bound,
    Example,
    ExampleJob,
    ExampleNumbers,
    ExampleOwner,
    clock_of,
    example,
    numbers_read,
)
from scheduling.reasons import reason_few
from tenants.access import AccessRequest
from tenants.roles import Permission
from tenants.views.gate import requires
from tenants.views.parts import part_or_page
from tenants.words import WORDS

PARTS = {"lessons": "market/how_lessons.html"}
LEAST_SPAN = 12  # hours that a picture shows at least
CURVE_HEIGHT, CURVE_TOP = 190.0, 12.0
BAR_HEIGHT, BAR_TOP = 110.0, 24.0
ROW_HEIGHT = 38
SQUARE = 13  # width with the gap to the next one


@dataclass(frozen=True)
class OwnerRow:
    owner: ExampleOwner
    y: int
    squares: tuple[tuple[int, bool], ...]  # x, busy


@dataclass(frozen=True)
class StayBar:
    """One bar of a timeline. `x` and `width` are per cent."""

    name: str
    y: int
    x: float
    width: float
    planned: bool


@dataclass(frozen=True)
class Timeline:
    bars: tuple[StayBar, ...]
    ticks: tuple[tuple[float, str], ...]
    never: tuple[str, ...]  # jobs that have no place at home


@dataclass(frozen=True)
class CurveDot:
    x: float
    y: float
    price: float
    label: str
    anchor: str


@dataclass(frozen=True)
class SplitPart:
    name: str
    x: float
    width: float
    amount: int
    units: float
    fill: str


@dataclass(frozen=True)
class HourBar:
    starts: str
    x: float
    middle: float
    y: float
    height: float
    sold: float
    price: float


@dataclass(frozen=True)
class NumberAsked:
    name: str
    bound: Bound
    value: int
    flaw: str


@require_safe
def how(request: HttpRequest) -> HttpResponse:
    """Show the page to everybody who is logged in, without any permission. The numbers are in the address;
    `?part=lessons` returns only the steps."""
    numbers, flaws = numbers_read(request.GET.dict())
    answer = example(numbers)
    context = {
        "example": answer,
        "flaws": flaws,
        "fields": [
            NumberAsked(field.name, BOUNDS[field.name], getattr(numbers, field.name), flaws.get(field.name, ""))
            for field in fields(ExampleNumbers)
        ],
        "owners": _owners(answer.owners),
        "owners_height": ROW_HEIGHT * sum(owner.units > 0 for owner in answer.owners),
        "alone": _alone(answer),
        "curve": _curve_path(answer),
        "dots": _dots(answer),
        "hour_bars": _hour_bars(answer),
        "split": _split(answer.mine),
        "why_not": reason_few(answer.mine.code) if answer.mine.code else "",
    }
    return part_or_page(request, "market/how.html", PARTS, context)


@require_safe
@requires(Permission.TENANT_VIEW)
def tenant_how(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    return how(request)


@require_safe
def glossary(request: HttpRequest) -> HttpResponse:
    return render(request, "market/glossary.html", {"words": sorted(WORDS.items())})


@require_safe
@requires(Permission.TENANT_VIEW)
def tenant_glossary(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    return glossary(request)


def _owners(owners: Sequence[ExampleOwner]) -> list[OwnerRow]:
    present = [owner for owner in owners if owner.units]
    return [
        OwnerRow(
            owner, number * ROW_HEIGHT, tuple((118 + SQUARE * unit, unit < owner.busy) for unit in range(owner.units))
        )
        for number, owner in enumerate(present)
    ]


def _alone(example: Example) -> Timeline:
    """Return the timeline of each tenant's cells as it would be if that tenant were alone."""
    rows = [
        (EARLIER if example.numbers.busy else "", NOON + BUSY_HOURS, example.mine),
        (TARNS, NOON + 2 * BUSY_HOURS, example.storms),
    ]
    last = max([NOON + LEAST_SPAN, *(job.alone.end for _, _, job in rows if job.alone)])
    span = last - NOON

    def bar(name: str, row: int, start: int, end: int, *, planned: bool) -> StayBar:
        x, width = 100 * (start - NOON) / span, 100 * (end - start) / span
        return StayBar(name, 8 + 46 * row, round(x + 0.15, 2), round(width - 0.3, 2), planned)

    bars = []
    for row, (earlier, until, job) in enumerate(rows):
        if earlier:
            bars.append(bar(earlier, row, NOON, until, planned=False))
        if job.alone:
            bars.append(bar(job.name, row, job.alone.start, job.alone.end, planned=True))
    step = 4 if span <= 24 else 12
    ticks = tuple((round(100 * hour / span, 2), clock_of(NOON + hour)[:5]) for hour in range(0, span + 1, step))
    return Timeline(tuple(bars), ticks, tuple(job.name for _, _, job in rows if job.alone is None))


def _y(part: float) -> float:
    """Return the y of a point at `part` of the height of the curve."""
    return round(CURVE_TOP + CURVE_HEIGHT * (1 - part), 1)


def _curve_path(example: Example) -> str:
    highest = example.curve[-1][1]
    points = ((100 * sold, _y(price / highest)) for sold, price in example.curve)
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def _dots(example: Example) -> list[CurveDot]:
    """Return the dots of the curve: with none, a quarter, half, three quarters and all of the units sold."""
    highest = example.curve[-1][1]
    step = (len(example.curve) - 1) // 4
    dots = []
    for number in range(5):
        part, price = example.curve[number * step]
        anchor = "start" if number == 0 else "end"
        dots.append(CurveDot(100 * part, _y(price / highest), price, f"{part * example.for_sale:g}", anchor))
    return dots


def _hour_bars(example: Example) -> list[HourBar]:
    width = 100 / len(example.hours)
    bars = []
    for number, hour in enumerate(example.hours):
        height = round(BAR_HEIGHT * hour.sold / example.for_sale, 1) if example.for_sale else 0.0
        x = number * width
        y = BAR_TOP + BAR_HEIGHT - height
        bars.append(HourBar(hour.starts, x + 1, x + width / 2, y, height, hour.sold, hour.price))
    return bars


def _split(job: ExampleJob) -> list[SplitPart]:
    """Return the parts of one payment, in per cent."""
    fills, at, parts = ("f2", "f4", "f5", "f6"), 0.0, []
    for number, payee in enumerate(job.payees):
        width = 100 * payee.amount / job.paid
        parts.append(
            SplitPart(payee.name, at, max(width - 0.6, 0.1), payee.amount, payee.units, fills[number % len(fills)])
        )
        at += width
    return parts

"""The worked example of "How it works": one interval of a small market with the reader's own numbers.

The core decides it as it decides a live market: a scenario is made and simulated, and the result is read. No price and
no split is computed here. It takes some hundredths of a second, since every number has a bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from scheduling.core.policies import build
from scheduling.core.prices import scarcity
from scheduling.core.scenario import read
from scheduling.core.settlement import micro, split_exactly
from scheduling.core.simulation import Track, simulate
from scheduling.core.types import BATCH, INSTANT, OWN

ME, CASTOR, PELICAN, TARN, QUARRY, OPERATOR = (
    "My lab",
    "Castor Vision",
    "Pelican Bio",
    "Tarn Climate",
    "Quarry",
    "Operator",
)
SLUGS = {"me": ME, "castor": CASTOR, "pelican": PELICAN, "tarn": TARN, "quarry": QUARRY, "operator": OPERATOR}
HOURS = 4  # length of the interval; a slot is an hour
NOON = 4  # the slot that begins at 12:00, and the interval with it
LAST = 76  # slots
BASE, FLOOR_PRICE = 16.0, 0.5  # constants of the price curve
OPERATOR_UNITS, TARN_UNITS, BUSY_HOURS = 4, 2, 4
EARLIER, SWEEP, TARNS, STORMS, SMOKE = "ranker", "sweep", "reanalysis", "storms", "smoke"
SMOKE_ARRIVES = NOON + 1.4  # 13:24


@dataclass(frozen=True)
class ExampleNumbers:
    """The numbers that the reader may change: workers, hours, credits."""

    mine: int = 4
    busy: int = 4
    castor: int = 4
    pelican: int = 4
    workers: int = 4
    hours: int = 2
    worth: int = 40
    fades: int = 5


@dataclass(frozen=True)
class Bound:
    label: str
    unit: str
    least: int
    most: int


BOUNDS: Mapping[str, Bound] = {
    "mine": Bound("My workers", "workers", 1, 16),
    "busy": Bound("Of them busy until 16:00", "workers", 0, 16),
    "castor": Bound("Idle at Castor Vision", "workers", 0, 16),
    "pelican": Bound("Idle at Pelican Bio", "workers", 0, 16),
    "workers": Bound("My job’s workers", "workers", 1, 16),
    "hours": Bound("It runs for", "hours", 1, 12),
    "worth": Bound("Worth if it ended at 12:00", "credits", 0, 1_000),
    "fades": Bound("Less for each hour", "credits", 0, 100),
}


@dataclass(frozen=True)
class ExampleOwner:
    name: str
    units: int
    busy: int

    @property
    def idle(self) -> int:
        return self.units - self.busy


@dataclass(frozen=True)
class Stay:
    """The slots [start, end), at home or rented. `value` is what it is worth to end then, in credits."""

    start: int
    end: int
    value: float

    @property
    def starts(self) -> str:
        return clock_of(self.start)

    @property
    def ends(self) -> str:
        return clock_of(self.end)


@dataclass(frozen=True)
class ExamplePayee:
    """An owner that is paid. `amount` is micro-credits; `units` are those that it had for sale when the job began."""

    name: str
    units: float
    amount: int


@dataclass(frozen=True)
class ExampleJob:
    name: str
    tenant: str
    workers: int
    lane: str
    alone: Stay | None  # its floor
    award: Stay | None
    rents: bool
    payees: tuple[ExamplePayee, ...]
    code: str  # the reason why it got nothing
    numbers: Mapping[str, Any]

    @property
    def paid(self) -> int:
        return sum(payee.amount for payee in self.payees)

    @property
    def surplus(self) -> int:
        """What the job is worth, less what it pays."""
        return micro(self.award.value) - self.paid if self.award else 0

    @property
    def per_worker_hour(self) -> int:
        """What it pays for a worker and hour on average, in whole micro-credits, rounded down."""
        return self.paid // (self.workers * (self.award.end - self.award.start)) if self.award else 0


@dataclass(frozen=True)
class ExampleHour:
    starts: str
    sold: float
    price: float  # price of one more worker, once the plan is made


@dataclass(frozen=True)
class Example:
    numbers: ExampleNumbers
    owners: tuple[ExampleOwner, ...]
    for_sale: int  # units for sale when the interval begins
    curve: tuple[tuple[float, float], ...]  # pairs (sold part of the units for sale, price)
    mine: ExampleJob
    storms: ExampleJob
    smoke: ExampleJob
    hours: tuple[ExampleHour, ...]

    @property
    def jobs(self) -> tuple[ExampleJob, ...]:
        return self.mine, self.storms, self.smoke

    @property
    def earned(self) -> tuple[tuple[str, tuple[tuple[str, int], ...], int], ...]:
        """For each payee its name, what each job pays it (by the job's name), and the sum."""
        names = [
            name for name in SLUGS.values() if any(name == payee.name for job in self.jobs for payee in job.payees)
        ]
        rows = []
        for name in names:
            parts = tuple(
                (job.name, sum(payee.amount for payee in job.payees if payee.name == name)) for job in self.jobs
            )
            rows.append((name, parts, sum(amount for _, amount in parts)))
        return tuple(rows)

    @property
    def together(self) -> tuple[tuple[tuple[str, int], ...], int]:
        return tuple((job.name, job.paid) for job in self.jobs), sum(job.paid for job in self.jobs)


def clock_of(slot: int) -> str:
    days, hour = divmod(12 - NOON + slot, 24)
    return f"{hour:02}:00" + ("" if not days else " the next day" if days == 1 else f" after {days} days")


def numbers_read(query: Mapping[str, str]) -> tuple[ExampleNumbers, dict[str, str]]:
    """Return the reader's numbers, and by name what is wrong with those that cannot be used. In place of these the
    usual numbers are returned."""
    values, flaws = {}, {}
    for field in fields(ExampleNumbers):
        text, bound = query.get(field.name, ""), BOUNDS[field.name]
        if not text:
            continue
        if text.isascii() and text.isdigit() and len(text) < 6 and bound.least <= int(text) <= bound.most:
            values[field.name] = int(text)
        else:
            flaws[field.name] = f"A whole number from {bound.least} to {bound.most}."
    numbers = ExampleNumbers(**values)
    if numbers.busy > numbers.mine:
        if "busy" in values:
            flaws["busy"] = "No more than there are."
        numbers = ExampleNumbers(**(values | {"busy": numbers.mine}))
    return numbers, flaws


def example(numbers: ExampleNumbers) -> Example:
    """Decide the interval, and read the result."""
    scenario = read(_document(numbers))
    policies = {
        BATCH: build(scenario.policy, scenario.cluster, scenario.jobs),
        INSTANT: build(scenario.instant or {}, scenario.cluster, scenario.jobs),
    }
    outcome = simulate(scenario, policies)
    tracks = {track.job.name: track for track in outcome.tracks}
    names = [SLUGS[tenant.name] for tenant in scenario.cluster.tenants] + [OPERATOR]
    window = next(iter(outcome.windows))
    idle = window.idle[0]  # (owners, slots)
    for_sale = int(idle[:, 0].sum())
    parts = np.linspace(0.0, 1.0, 41)
    prices = FLOOR_PRICE + scarcity(np.array(BASE), parts, np.array(1.0))
    return Example(
        numbers=numbers,
        owners=(
            ExampleOwner(ME, numbers.mine, numbers.busy),
            ExampleOwner(CASTOR, numbers.castor, 0),
            ExampleOwner(PELICAN, numbers.pelican, 0),
            ExampleOwner(TARN, TARN_UNITS, TARN_UNITS),
            ExampleOwner(OPERATOR, OPERATOR_UNITS, 0),
        ),
        for_sale=for_sale,
        curve=tuple(zip(parts.tolist(), prices.tolist(), strict=True)),
        mine=_example_job(ME, numbers.workers, tracks[SWEEP], names, idle[:, 0]),
        storms=_example_job(TARN, 2, tracks[STORMS], names, idle[:, 0]),
        smoke=_example_job(QUARRY, 2, tracks[SMOKE], names, np.zeros(len(names))),
        hours=tuple(
            ExampleHour(clock_of(window.start + slot), float(window.rented[0, slot]), float(window.prices[0, slot]))
            for slot in range(HOURS)
        ),
    )


def _example_job(tenant: str, workers: int, track: Track, names: Sequence[str], idle: Any) -> ExampleJob:
    floor, booking = track.floor, next(iter(track.bookings), None)
    amounts: Sequence[int] = ()
    if booking is not None and booking.payouts is not None and booking.paid:
        amounts = split_exactly(micro(booking.paid), booking.payouts.tolist())
    return ExampleJob(
        name=track.job.name,
        tenant=tenant,
        workers=workers,
        lane=track.job.lane,
        alone=Stay(floor.start, floor.end, floor.value) if floor is not None and floor.allocation else None,
        award=None if booking is None else Stay(booking.start, booking.end, booking.value),
        rents=booking is not None and booking.phase != OWN,
        payees=tuple(
            ExamplePayee(owner, float(units), amount)
            for owner, amount, units in zip(names, amounts, idle, strict=False)
            if amount
        ),
        code=track.reason.code if track.reason else "",
        numbers=dict(track.reason.numbers) if track.reason else {},
    )


def _document(numbers: ExampleNumbers) -> dict[str, Any]:
    """Return the example as a scenario file (see `docs/guide/scenario-files.md`), without parameter servers."""
    servers = [
        _server("s1", numbers.mine, "me"),
        _server("s2", numbers.castor, "castor"),
        _server("s3", numbers.pelican, "pelican"),
        _server("s4", OPERATOR_UNITS),
        _server("s5", TARN_UNITS, "tarn"),
    ]
    urgent: dict[str, Any] = {"priority": 1, "worth": 1_000, "fades": 5}
    jobs = [
        *([_job(EARLIER, "me", numbers.busy, BUSY_HOURS, **urgent)] if numbers.busy else []),
        _job(TARNS, "tarn", TARN_UNITS, 2 * BUSY_HOURS, **urgent),
        _job(SWEEP, "me", numbers.workers, numbers.hours, worth=numbers.worth, fades=numbers.fades),
        _job(STORMS, "tarn", 2, 3, worth=30, fades=2),
        _job(SMOKE, "quarry", 2, 1, worth=20, fades=2, lane=INSTANT, arrival=SMOKE_ARRIVES),
    ]
    bounds = {"floor": FLOOR_PRICE, "ceiling": {"worker": FLOOR_PRICE + BASE - 1}}
    return {
        "format": "scenario/1",
        "slot_seconds": 3600,
        "slots": LAST,
        "servers": [server for server in servers if server["capacity"]["worker"]],
        "tenants": [{"name": name} for name in SLUGS if name != "operator"],
        "jobs": jobs,
        "policy": {
            "name": "astraea",
            "mode": "guarantee",
            "theta": {"worker": BASE},
            "price_floor": {"worker": FLOOR_PRICE},
            "clock": {"first": HOURS, "cap": HOURS, "restart": False},
        },
        "instant": {"name": "oasis", "worker_price": bounds, "ps_price": bounds},
    }


def _server(name: str, units: int, owner: str = "") -> dict[str, Any]:
    cells = {"cells": {owner: {"worker": units}}} if owner and units else {}
    return {"name": name, "capacity": {"worker": units}, **cells}


def _job(
    name: str,
    tenant: str,
    workers: int,
    hours: int,
    *,
    worth: int,
    fades: int,
    lane: str = BATCH,
    arrival: float = NOON - 1.0,
    priority: int = 0,
) -> dict[str, Any]:
    """Return a job with exactly this number of workers and hours. Its value counts from the arrival, an hour before the
    interval begins; `worth` is what it would be worth to end when the interval begins."""
    return {
        "name": name,
        "tenant": tenant,
        "lane": lane,
        "arrival": arrival,
        "priority": priority,
        "epochs": hours,
        "chunks": workers,
        "minibatches": 1,
        "minibatch_seconds": 3600,
        "worker_demand": {"worker": 1},
        "ps_demand": [],
        "min_workers": workers,
        "max_workers": workers,
        "value": {"kind": "linear", "slope": -fades, "base": worth + fades if lane == BATCH else worth},
    }

"""The contents of the demonstration: five tenants, twelve servers of a market, three of an elastic pool, a person for
every role; and eight servers of a pool of long runs, which has a past. This is data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER

PASSWORD = "bourse-demo-only"  # noqa: S105  printed on the screen, and refused wherever DEBUG is off


@dataclass(frozen=True)
class DemoTenant:
    slug: str
    name: str
    credits: int  # credits brought in from outside at the start
    keeps: bool = False  # whether its jobs keep their places at home once planned; those of others are planned anew


@dataclass(frozen=True)
class DemoPerson:
    email: str
    name: str
    roles: Mapping[str, str] = field(default_factory=dict)  # tenant slug -> role
    staff: str = ""  # or a role over all tenants


@dataclass(frozen=True)
class DemoServer:
    name: str
    workers: int
    ps: int
    cells: Mapping[str, tuple[int, int]]  # tenant slug -> (workers, ps); the rest is the operator's

    def units(self) -> dict[str, int]:
        return {"worker": self.workers, "ps": self.ps}


LUMEN, CASTOR, ORRIN, PELICAN, TARN = (
    "lumen-lab",
    "castor-vision",
    "orrin-speech",
    "pelican-bio",
    "tarn-climate",
)

TENANTS = (
    DemoTenant(LUMEN, "Lumen Lab", 600),
    DemoTenant(CASTOR, "Castor Vision", 900, keeps=True),
    DemoTenant(ORRIN, "Orrin Speech", 450),
    DemoTenant(PELICAN, "Pelican Bio", 750),
    DemoTenant(TARN, "Tarn Climate", 300),
)

# Lumen Lab has someone in every role; Sam works for three tenants, with another role in each.
PEOPLE = (
    DemoPerson("owner@lumen.example", "Mira Osei", {LUMEN: OWNER}),
    DemoPerson("submitter@lumen.example", "Jonas Vik", {LUMEN: SUBMITTER}),
    DemoPerson("viewer@lumen.example", "Lin Sato", {LUMEN: VIEWER}),
    DemoPerson("billing@lumen.example", "Clara Hahn", {LUMEN: BILLING}),
    DemoPerson("owner@castor.example", "Tomas Reyes", {CASTOR: OWNER}),
    DemoPerson("submitter@castor.example", "Anna Kovac", {CASTOR: SUBMITTER}),
    DemoPerson("owner@orrin.example", "Noor Haddad", {ORRIN: OWNER}),
    DemoPerson("owner@pelican.example", "Ilse Brandt", {PELICAN: OWNER}),
    DemoPerson("owner@tarn.example", "Rui Tavares", {TARN: OWNER}),
    DemoPerson("sam@bourse.example", "Sam Keller", {LUMEN: SUBMITTER, CASTOR: VIEWER, ORRIN: BILLING}),
    DemoPerson("auditor@bourse.example", "Edda Lund", staff=AUDITOR),
    DemoPerson("operator@bourse.example", "Piet Moor", staff=OPERATOR),
)

POOL: dict[str, Any] = {
    "slug": "main",
    "name": "Main pool",
    "slot_seconds": 10,
    "clock_first": 1,
    "clock_cap": 8,  # an interval closes at least every 80 seconds, so that a visitor sees one
    "clock_restart": True,
    "batch_policy": {"name": "astraea", "mode": "guarantee", "price_floor": {"worker": 0.05, "ps": 0.05}},
    "instant_policy": {
        "name": "oasis",
        "worker_price": {"floor": 0.05, "ceiling": {"worker": 2.0}},
        "ps_price": {"floor": 0.05, "ceiling": {"ps": 2.0}},
    },
    "resources": {"worker": "worker", "ps": "parameter server"},
}

# Whole servers at home, shared servers, servers of the operator: 100 workers and 28 parameter servers.
SERVERS = (
    DemoServer("s01", 8, 2, {LUMEN: (8, 2)}),
    DemoServer("s02", 8, 2, {LUMEN: (8, 2)}),
    DemoServer("s03", 8, 2, {CASTOR: (8, 2)}),
    DemoServer("s04", 8, 2, {CASTOR: (4, 1), ORRIN: (4, 1)}),
    DemoServer("s05", 8, 2, {ORRIN: (8, 2)}),
    DemoServer("s06", 8, 2, {PELICAN: (8, 2)}),
    DemoServer("s07", 8, 2, {TARN: (8, 2)}),
    DemoServer("s08", 8, 2, {}),
    DemoServer("s09", 12, 3, {CASTOR: (6, 1), ORRIN: (4, 1)}),
    DemoServer("s10", 12, 3, {PELICAN: (6, 2), TARN: (4, 1)}),
    DemoServer("s11", 4, 4, {TARN: (2, 1), PELICAN: (1, 1)}),
    DemoServer("s12", 8, 2, {}),
)

# Jobs are sized anew in every slot and pay for what they use. By name it comes after the main pool, which pages open.
ELASTIC_POOL: dict[str, Any] = {
    "slug": "sweeps",
    "name": "Sweeps (elastic)",
    "slot_seconds": 10,
    "clock_first": 1,
    "clock_cap": 1,
    "clock_restart": True,
    "batch_policy": {"name": "optimus", "restart": 1},
    "instant_policy": None,
    "resources": POOL["resources"],
    "use_prices": {"worker": 50_000, "ps": 20_000},  # micro-credits
}

# 24 workers and 12 parameter servers; tenants that have cells here lend them.
ELASTIC_SERVERS = (
    DemoServer("e01", 8, 4, {LUMEN: (4, 2)}),
    DemoServer("e02", 8, 4, {CASTOR: (4, 2)}),
    DemoServer("e03", 8, 4, {}),
)

# The pool with the past, whose slots are long. Its short name comes first, so pages open on it.
SLOT_HOURS = 3  # so that a month is made in seconds; a day is a whole number of slots
LONG_POOL: dict[str, Any] = POOL | {
    "slug": "long-runs",
    "name": "Long runs",
    "slot_seconds": SLOT_HOURS * 3600,
    "clock_cap": 4,  # slots: an interval has half a day at most
}

# 48 workers and 16 parameter servers. Pelican Bio has most of them and Tarn Climate none: `habits` says who does what.
LONG_SERVERS = (
    DemoServer("h01", 6, 2, {PELICAN: (6, 2)}),
    DemoServer("h02", 6, 2, {PELICAN: (6, 2)}),
    DemoServer("h03", 6, 2, {PELICAN: (6, 2)}),
    DemoServer("h04", 6, 2, {LUMEN: (6, 2)}),
    DemoServer("h05", 6, 2, {LUMEN: (6, 2)}),
    DemoServer("h06", 6, 2, {ORRIN: (6, 2)}),
    DemoServer("h07", 6, 2, {CASTOR: (6, 2)}),
    DemoServer("h08", 6, 2, {}),
)

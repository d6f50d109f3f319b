"""The end of a slot in which 50,000 awards run, each paying ten owners; and of the slot in which all of them end.

A tenth has as many tenants and servers, since the cost of a settlement depends on its awards. Beside the seconds stands
the processor time of the two processes that work at once, ours and the database's. It shows what each of them does,
also on a busy machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db import connection

from scheduling.common.measured import STEP_SECONDS
from scheduling.market.settle.slots import Settled, slot_settle
from scheduling.models import Lane, LaneClock, Pool
from tenants.scoping import scope_disabled
from tests.bench.bench_settle import SLOTS, awards_running, market
from tests.bench.owned import analyze
from tests.bench.scale.memory import peak_forget, peak_mib

SIZES = (5_000, 50_000)  # running awards
SERVERS, TENANTS = 5_000, 500
STEPS = ("gather", "move", "pay", "tell")
TICK = os.sysconf("SC_CLK_TCK")


def measure(size: int) -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills a whole market"):
        pool, tenants = market(servers=SERVERS, tenants=TENANTS)
        awards_running(pool, tenants, number=size)
        analyze()
        yield _settled(pool, 0, "settle a slot, all running and paying 10 owners each", "< 6")
        yield _settled(pool, SLOTS - 1, "settle a slot in which all end", "none set")


def _settled(pool: Pool, slot: int, name: str, target: str) -> dict[str, Any]:
    LaneClock.objects.update_or_create(pool=pool, lane=Lane.BATCH, defaults={"settled_slot": slot - 1})
    before, database_before = _spent(), database_seconds()
    peak_forget()
    began, own_began = time.perf_counter(), time.process_time()
    settled = slot_settle(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot + 1))
    seconds, own = time.perf_counter() - began, time.process_time() - own_began
    assert isinstance(settled, Settled), settled
    after = _spent()
    parts = {step: round(after[step] - before[step], 2) for step in STEPS}
    detail = {
        **parts,
        "commit and the rest": round(seconds - sum(parts.values()), 2),
        "own_processor_time": round(own, 2),
        "database_processor_time": round(database_seconds() - database_before, 2),
        "paid": settled.paid,
        "ended": settled.ended,
        "peak_mib": peak_mib(),
    }
    return {"name": name, "value": round(seconds, 2), "unit": "s", "target": target, "detail": detail}


def _spent() -> dict[str, float]:
    """Return the seconds of each step of all settlements so far."""
    return {step: float(STEP_SECONDS.labels("settlement", step)._sum.get()) for step in STEPS}


def database_seconds() -> float:
    """Return the processor time of the process of PostgreSQL that serves this one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [process] = cursor.fetchone()
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK

"""The loss of a server on which all of 5,000 running awards have units, which is the worst case. The awards are
refunded, and their jobs are queued again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from scheduling.market.calendar.units import UnitReader
from scheduling.models import Award, CalendarCell, JobState, Pool, Server, TrainingJob
from scheduling.runs.failures import ServerLost, server_lose
from tenants.access import access_of_system
from tenants.scoping import scope_disabled
from tests.bench import bench_settle
from tests.bench.bench_settle import AWARDS, SLOTS
from tests.bench.owned import analyze

NEEDS_DATABASE = True


def measure() -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills a whole market"):
        pool, tenants = bench_settle.market()
        server = Server.objects.filter(pool=pool).order_by("pk")[0]
        bench_settle.awards_running(pool, tenants, [[server.pk, 0, SLOTS, 4, 1]])
        _enter(pool)
        analyze()
        at = pool.slot_start(0)
        started, processor = time.perf_counter(), time.process_time()
        lost = server_lose(server=server, by=access_of_system("the benchmark"), reason="measured", at=at)
        seconds, busy = time.perf_counter() - started, time.process_time() - processor
        assert isinstance(lost, ServerLost), lost
        assert lost.awards == AWARDS, lost
        queued = TrainingJob.objects.filter(pool=pool, state=JobState.QUEUED).count()
        detail = {"own_processor_time": round(busy, 2), "awards": lost.awards, "queued_again": queued}
        name = "lose a server with units of 5,000 awards"
        yield {"name": name, "value": round(seconds, 3), "unit": "s", "target": "-", "detail": detail}


def _enter(pool: Pool) -> None:
    """Enter into the calendar what the awards hold. All of them hold the same units."""
    award = Award.objects.filter(pool=pool).select_related("job")[0]
    held = {unit: AWARDS * amount for unit, amount in UnitReader(pool).units_of(award, award.job, since=0).items()}
    CalendarCell.objects.bulk_create(
        CalendarCell(
            pool=pool,
            server_id=unit.server_id,
            resource_id=unit.resource_id,
            part=unit.part,
            slot=unit.slot,
            capacity=amount,
            batch=amount,
        )
        for unit, amount in held.items()
    )

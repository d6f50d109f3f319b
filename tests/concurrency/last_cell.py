"""A market with room for one more job, and many who submit at the same moment."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from django.db import connection

from scheduling.jobs.submission import Submitted
from scheduling.models import Pool
from tenants.models import Tenant
from tests.patience import PATIENCE
from tests.scheduling.builders import make_server, make_tenant
from tests.scheduling.live import BOUNDS, fund, make_live_pool, submit

# Worth something at the end of the slot in which it arrives only, and in it all of the server.
NOW_OR_NEVER = {"value": {"kind": "deadline", "base": 100.0, "deadline": 1.0}}


def last_cell() -> tuple[Pool, list[Tenant]]:
    """One server of the operator, room for one job in one slot, and five tenants who can all pay."""
    pool = make_live_pool(instant_policy={"name": "oasis", "worker_price": BOUNDS, "ps_price": BOUNDS})
    make_server(pool, worker=4, ps=1)
    tenants = [make_tenant(f"tenant-{number}") for number in range(5)]
    for tenant in tenants:
        fund(tenant)
    return pool, tenants


def ask(pool: Pool, tenant: Tenant, key: str) -> str:
    """What became of one submission: its job's state and reason, or the name of the error."""
    try:
        answer = submit(pool, tenant, key=key, **NOW_OR_NEVER)
    except Exception as error:  # the unlocked variant must be seen to fail, however it does
        return type(error).__name__
    finally:
        connection.close()
    assert isinstance(answer, Submitted), answer
    return f"{answer.job.state} {answer.job.reason_code}".strip()


def submit_all(pool: Pool, tenants: list[Tenant], numbers: range) -> list[str]:
    """One thread for each submission, let go together."""
    start = threading.Barrier(len(numbers))

    def one(number: int) -> str:
        start.wait(PATIENCE)
        return ask(pool, tenants[number % len(tenants)], f"key-{number}")

    with ThreadPoolExecutor(max_workers=len(numbers)) as threads:
        return [future.result(PATIENCE) for future in [threads.submit(one, number) for number in numbers]]

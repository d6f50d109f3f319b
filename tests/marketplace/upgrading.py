"""What is done to a database of its own in the tests of upgrades, each by a process of its own:

python -m tests.marketplace.upgrading make            a small market at work, by the services, committed
python -m tests.marketplace.upgrading back            today's tables as they were before
python -m tests.marketplace.upgrading go-on SLOT      new jobs, and the clock up to this slot
python -m tests.marketplace.upgrading scans           each migration that is left, with the tables that it scanned
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any
from unittest import mock

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")

# The tables of version 1.0.0.
BEFORE = (("scheduling", "0001_initial"), ("tenants", "0006_join_requests"))


def make() -> None:
    """Both lanes, jobs that are over, that run and that wait, and everything sealed."""
    from scheduling.app.clock import pool_advance
    from scheduling.fairness.intervals import fairness_catch_up
    from scheduling.market.decide import interval
    from scheduling.money.credits import credits_grant
    from tenants.ledger.amounts import MICRO
    from tests.audit.proven import BY, LONG, PRICED, WHY, accepted, make_pool, moment, submit
    from tests.scheduling.builders import NOON, make_tenant
    from tests.scheduling.live import INSTANT

    # Version 1.0.0 knew no intervals that are told by others.
    mock.patch.object(interval, "base_for", return_value=None).start()
    castor, lumen = make_tenant("castor"), make_tenant("lumen")
    for tenant in (castor, lumen):
        accepted(credits_grant(tenant=tenant, amount=1_000 * MICRO, key=tenant.slug, by=BY, reason=WHY, at=NOON))
    cells = {"castor": {"worker": 4, "ps": 2}}
    clock = {"clock_first": 4, "clock_cap": 4, "clock_restart": False, "outage_grace_seconds": None}
    pool = make_pool("main", {"s01": cells, "s02": cells}, batch_policy=PRICED, instant_policy=INSTANT, **clock)
    submit(pool, lumen, 0.2, "batch")
    submit(pool, castor, 0.5)
    pool_advance(pool_id=pool.pk, at=moment(6))
    submit(pool, lumen, 6.5, "batch", **LONG)
    submit(pool, castor, 6.6, "batch", **LONG)
    pool_advance(pool_id=pool.pk, at=moment(9))
    submit(pool, lumen, 9.5, "batch")
    fairness_catch_up(most=1_000)
    _seal(9.9)


def back() -> None:
    """The way back of the migrations."""
    from django.core.management import call_command

    for app, name in BEFORE:
        call_command("migrate", app, name, verbosity=0)


def go_on(slot: str) -> None:
    from scheduling.app.clock import pool_advance
    from scheduling.fairness.intervals import fairness_catch_up
    from scheduling.models import Pool
    from tenants.models import Tenant
    from tests.audit.proven import moment, submit

    pool, last = Pool.objects.get(slug="main"), int(slot)
    for number, tenant in enumerate(Tenant.objects.order_by("slug")):
        submit(pool, tenant, 10.1 + number / 10, "batch")
    pool_advance(pool_id=pool.pk, at=moment(last))
    fairness_catch_up(most=1_000)
    _seal(last)


def _seal(slot: float) -> None:
    from marketplace.upkeep.sealing import seal_everything
    from tests.audit.proven import moment, seal_feed

    seal_feed(moment(slot))
    seal_everything(at=moment(slot))


def scans() -> None:
    """JSON: migration -> table that was there before -> what was done to it. By the owning role."""
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    from tenants.common.ownership import as_owner

    with as_owner():
        from django.db import connections

        owning = connections[connection.alias]
        executor = MigrationExecutor(owning)
        changes: dict[str, dict[str, Any]] = {}
        for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes()):
            before = _tables(owning)
            executor.loader.build_graph()
            executor.migrate([(migration.app_label, migration.name)])
            after = _tables(owning)
            changes[f"{migration.app_label}.{migration.name}"] = {
                table: done for table, was in before.items() if (done := _difference(was, after.get(table, was)))
            }
    sys.stdout.write(json.dumps(changes))


def _tables(connection: Any) -> dict[str, tuple[int, int, int]]:
    """Table -> its file, and how often rows of it were all read, and written."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT pg_class.relname, relfilenode, seq_scan, n_tup_upd + n_tup_del FROM pg_stat_user_tables"
            " JOIN pg_class ON pg_class.oid = relid"
        )
        return {name: (file, scanned, writes) for name, file, scanned, writes in cursor.fetchall()}


def _difference(was: tuple[int, int, int], now: tuple[int, int, int]) -> list[str]:
    kinds = ("rewritten", "scanned", "changed")
    return [kind for kind, before, after in zip(kinds, was, now, strict=True) if before != after]


if __name__ == "__main__":
    django.setup()
    name, *rest = sys.argv[1:]
    {"make": make, "back": back, "go-on": go_on, "scans": scans}[name](*rest)

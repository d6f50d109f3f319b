"""Builds the database once: people, servers and credits by the services, and the past year by `build.sql`."""

from __future__ import annotations

import json
import shutil
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from django.core.management import call_command

from marketplace.embedded import Servers, State
from scheduling.models import Lane, LaneClock, Pool, Pulse, ResourceKind
from scheduling.operator.cells import cells_change_on_server
from scheduling.operator.pools import PoolTerms, pool_create
from scheduling.operator.servers import server_add
from tenants.access import Refused, access_of_system
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import OUTSIDE, Posting, available
from tenants.ledger.services import post_many
from tenants.models import Tenant, User
from tenants.roles import OPERATOR, OWNER
from tenants.scoping import scope_disabled
from tenants.services import member_add, person_create, staff_grant, tenant_create
from tests.scheduling.live import INSTANT, SPEC

JOBS, TENANTS, SERVERS, DAYS, SLOT_SECONDS = 1_000_000, 50, 16, 365, 300
NEEDED_BYTES = 16 * 2**30
# Speed before safety while it is made: what is cut off is made anew.
WHILE_BUILDING = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_wal_size=8GB",
    "wal_level=minimal",
    "max_wal_senders=0",
    "shared_buffers=1GB",
    "autovacuum=off",
)
BY, WHY = access_of_system("the bench"), "bench"


def build(state: State, *, jobs: int, at: datetime) -> None:
    """Build everything in an empty database. The note is written last: without it the folder is built anew."""
    free = shutil.disk_usage(state.folder.parent).free
    if free < NEEDED_BYTES:
        raise SystemExit(f"The database needs {NEEDED_BYTES >> 30} GiB, and {free >> 30} GiB are free.")
    shutil.rmtree(state.data, ignore_errors=True)
    note(state).unlink(missing_ok=True)
    began = time.monotonic()
    with Servers(state, settings=WHILE_BUILDING):
        call_command("migrate", verbosity=0)
        pool, person = _market(at)
        _year(state, pool, person, jobs, at)
        Pulse.objects.create(pool=pool, alive_at=at)
    note(state).write_text(json.dumps({"jobs": jobs, "seconds": round(time.monotonic() - began)}), encoding="utf-8")


def note(state: State) -> Path:
    return state.folder / "built.json"


def _market(at: datetime) -> tuple[Pool, User]:
    tenants = [
        _done(tenant_create(slug=f"t{n:02}", name=f"Tenant {n}", by=BY, reason=WHY, at=at)) for n in range(TENANTS)
    ]
    owner = _person("owner@example.org", at)
    member_add(tenant=tenants[0], user=owner, role=OWNER, by=BY, reason=WHY, at=at)
    staff_grant(user=_person("operator@example.org", at), role=OPERATOR, by=BY, reason=WHY, at=at)
    epoch = datetime.combine(at.date(), datetime.min.time(), UTC) - timedelta(days=DAYS)
    pool = _done(
        pool_create(
            terms=PoolTerms(
                slug="main",
                name="Main",
                slot_seconds=SLOT_SECONDS,
                clock_first=1,
                clock_cap=8,
                clock_restart=True,
                batch_policy={"name": "astraea", "mode": "guarantee"},
                instant_policy=INSTANT,
                resources={"worker": "worker", "ps": "parameter server"},
                epoch_at=epoch,
            ),
            by=BY,
            reason=WHY,
            at=at,
        )
    )
    for number in range(SERVERS):
        _server(pool, number, tenants, at)
    _funds(tenants, epoch)
    for lane in Lane:
        LaneClock.objects.get_or_create(pool=pool, lane=lane)
    return pool, owner


def _person(email: str, at: datetime) -> User:
    return _done(
        person_create(email=email, name="A person", password="correct horse battery 7", by=BY, reason=WHY, at=at)
    )


def _server(pool: Pool, number: int, tenants: list[Tenant], at: datetime) -> None:
    capacity = {"worker": 24, "ps": 6}
    server = _done(server_add(pool=pool, name=f"s{number:02}", capacity=capacity, by=BY, reason=WHY, at=at))
    owners = [tenants[(3 * number + place) % TENANTS].slug for place in range(2)]
    cells = {slug: {"worker": 8, "ps": 2} for slug in owners}
    _done(cells_change_on_server(server=server, cells=cells, by=BY, reason=WHY, at=at))


def _funds(tenants: list[Tenant], at: datetime) -> None:
    amount = 1_000_000 * MICRO
    postings = [
        Posting(f"funds:{tenant.pk}", "grant", ((OUTSIDE, -amount), (available(tenant.pk), amount)), at)
        for tenant in tenants
    ]
    with scope_disabled("the bench funds everybody"):
        assert isinstance(post_many(postings=postings), tuple)


def _year(state: State, pool: Pool, person: User, jobs: int, at: datetime) -> None:
    settings = {
        "jobs": jobs,
        "pool": pool.pk,
        "epoch": pool.epoch_at.isoformat(),
        "slot_seconds": pool.slot_seconds,
        "slots": pool.slot_at(at),
        "person": person.pk,
        "spec": json.dumps(SPEC),
    }
    assert ResourceKind.objects.filter(pool=pool).count() == 2
    script = Path(__file__).with_name("build.sql").read_text(encoding="utf-8")
    with psycopg.connect(state.superuser_url, dbname="bourse", autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (f"bench.{name}", str(value)))
        for statement in statements(script):
            began = time.monotonic()
            connection.execute(statement)
            print(f"{time.monotonic() - began:8.1f} s  {' '.join(statement.split())[:80]}", file=sys.stderr, flush=True)
            if " put_off " in statement:
                for (index,) in connection.execute("SELECT name FROM put_off").fetchall():
                    connection.execute(f"DROP INDEX {index}")
        for (definition,) in connection.execute("SELECT definition FROM put_off").fetchall():
            connection.execute(definition)
        connection.execute("VACUUM ANALYZE")


def statements(script: str) -> list[str]:
    """Return the statements of an SQL script whose comments are whole lines and whose texts hold no semicolon."""
    lines = [line for line in script.splitlines() if not line.startswith("--")]
    return [statement.strip() for statement in "\n".join(lines).split(";") if statement.strip()]


def _done(outcome: Any) -> Any:
    assert not isinstance(outcome, Refused), outcome
    return outcome

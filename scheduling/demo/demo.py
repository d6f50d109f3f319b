"""Load the demonstration: once, whole, into an empty database, and only where DEBUG is on.

Everything goes through the services that the pages use, so it is in the history and the book. The same moment gives the
same rows, apart from ids and password salts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from scheduling.catalogue import program_register, programs_allow
from scheduling.demo import content
from scheduling.demo.programs import PROGRAMS
from scheduling.models import AlonePlan, Pool, Server
from scheduling.operator import PoolTerms, cells_change_on_server, pool_create, server_add
from scheduling.sharing import Sharing, sharing_change
from tenants import history
from tenants.access import Access, Refused, access_of_system
from tenants.common.ownership import as_owner
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import OUTSIDE, InsufficientFunds, Posting, available
from tenants.ledger.services import post_many
from tenants.models import Tenant, User
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tenants.selectors import access_of
from tenants.services import member_add, person_create, staff_grant, tenant_create

ONLY_DEBUG = Refused("not_debug", "The demo has known passwords, so it loads only where DEBUG is on.")
NOT_EMPTY = Refused(
    "not_empty", "The demo loads into an empty database, and this one has people or tenants of its own."
)
NOT_MIGRATED = Refused("not_migrated", "The database has no tables yet: run manage.py migrate first.")
IN_USE = Refused("in_use", "Somebody has an open transaction on the database, so nothing was removed. Try again.")
NOT_DEMO = Refused("not_demo", "This database does not hold the demo, so nothing of it is removed.")

T = TypeVar("T")

_REASON = "demonstration"
PATIENCE = "10s"  # how long a wipe waits for somebody else's open transaction
_LOCK = 0x64656D6F  # any number that nothing else locks


class DemoBroken(RuntimeError):
    """The demo's own content was refused: that is its author's mistake, not the reader's."""


@dataclass(frozen=True)
class DemoLoaded:
    already: bool


@transaction.atomic
def demo_load(*, at: datetime, since: datetime | None = None) -> DemoLoaded | Refused:
    """Load the demonstration. `at` is now: a pool whose clock began long ago would have to catch up with its past. If
    `since` is given, everything begins then, and only the pool of long runs is made; the others follow with
    `demo_open`, once its past is made."""
    if not settings.DEVELOPMENT:
        return ONLY_DEBUG
    if not _is_migrated():
        return NOT_MIGRATED
    _wait_for_other_loads()
    if demo_is_loaded():
        return DemoLoaded(already=True)
    if not database_is_empty():
        return NOT_EMPTY
    by, begun = access_of_system("the demo"), since or at
    tenants = {
        tenant.slug: _done(tenant_create(slug=tenant.slug, name=tenant.name, by=by, reason=_REASON, at=begun))
        for tenant in content.TENANTS
    }
    _people(tenants, by, begun)
    if since is None:
        demo_open(at=at)
    else:
        _pool(content.LONG_POOL, content.LONG_SERVERS, since, by, since)
    _programs(tenants, by, begun)
    _credits(tenants, by, begun)
    return DemoLoaded(already=False)


@transaction.atomic
def demo_open(*, at: datetime) -> bool:
    """Begin the two pools with slots of seconds now. Return False if they have begun before."""
    if demo_is_open():
        return False
    by, round_time = access_of_system("the demo"), at.replace(second=at.second - at.second % 10, microsecond=0)
    _pool(content.POOL, content.SERVERS, round_time, by, at)
    _pool(content.ELASTIC_POOL, content.ELASTIC_SERVERS, round_time, by, at)
    return True


def demo_wipe() -> Refused | None:
    """Remove every table of a database that holds the demo, or nothing; the caller migrates again.

    Rows cannot be deleted one by one: the history and the book refuse to forget, and should not learn an exception.
    """
    if not settings.DEVELOPMENT:
        return ONLY_DEBUG
    if not _may_be_wiped():
        return NOT_DEMO
    try:
        _drop_everything()
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            return IN_USE
        raise
    return None


def database_is_empty() -> bool:
    """Return whether nobody has put anything into the migrated database yet."""
    return not (User.objects.exists() or Tenant.objects.exists() or Pool.objects.exists())


def demo_is_loaded() -> bool:
    """Return whether the demo is loaded. It loads into an empty database alone, and all of it or nothing; so any one of
    its people is proof."""
    return User.objects.filter(email=content.PEOPLE[0].email).exists()


def demo_is_open() -> bool:
    return Pool.objects.filter(slug=content.POOL["slug"]).exists()


def _wait_for_other_loads() -> None:
    """Let other loads wait until this transaction ends; the second of two at once then finds the demo loaded."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


def _drop_everything() -> None:
    with as_owner(), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", (PATIENCE,))
        cursor.execute("SELECT quote_ident(current_schema())")
        (schema,) = cursor.fetchone()
        cursor.execute(f"DROP SCHEMA {schema} CASCADE")
        cursor.execute(f"CREATE SCHEMA {schema}")


def _may_be_wiped() -> bool:
    """Return whether the database may be wiped. Tables that are not ours belong to another program: a wrong address
    must not cost its data."""
    if not connection.introspection.table_names():
        return True
    return _is_migrated() and (demo_is_loaded() or database_is_empty())


def _is_migrated() -> bool:
    return User._meta.db_table in connection.introspection.table_names()


def _people(tenants: Mapping[str, Tenant], by: Access, at: datetime) -> None:
    for person in content.PEOPLE:
        user = _done(
            person_create(email=person.email, name=person.name, password=content.PASSWORD, by=by, reason=_REASON, at=at)
        )
        for slug, role in person.roles.items():
            _done(member_add(tenant=tenants[slug], user=user, role=role, by=by, reason=_REASON, at=at))
        if person.staff:
            _done(staff_grant(user=user, role=person.staff, by=by, reason=_REASON, at=at))


def _pool(
    wanted: Mapping[str, Any], servers: Sequence[content.DemoServer], epoch_at: datetime, by: Access, at: datetime
) -> None:
    pool = _done(pool_create(terms=PoolTerms(**wanted, epoch_at=epoch_at), by=by, reason=_REASON, at=at))
    for server in servers:
        _server(pool, server, by, at)
    _sharing(pool, at)


def _sharing(pool: Pool, at: datetime) -> None:
    """Let some tenants keep the places that their jobs were given; the others choose nothing."""
    owners = {slug: person.email for person in content.PEOPLE for slug, role in person.roles.items() if role == OWNER}
    for wanted in content.TENANTS:
        if wanted.keeps and pool.usual_plan != AlonePlan.KEEP:
            owner, tenant = User.objects.get(email=owners[wanted.slug]), Tenant.objects.get(slug=wanted.slug)
            keeping = Sharing(plan=AlonePlan.KEEP.value)
            _done(sharing_change(pool=pool, sharing=keeping, by=access_of(owner, tenant), reason=_REASON, at=at))


def _server(pool: Pool, wanted: content.DemoServer, by: Access, at: datetime) -> None:
    server: Server = _done(
        server_add(pool=pool, name=wanted.name, capacity=wanted.units(), by=by, reason=_REASON, at=at)
    )
    cells = {slug: {"worker": workers, "ps": ps} for slug, (workers, ps) in wanted.cells.items()}
    _done(cells_change_on_server(server=server, cells=cells, by=by, reason=_REASON, at=at))


def _programs(tenants: Mapping[str, Tenant], by: Access, at: datetime) -> None:
    """Register the operator's programs for everybody, and let tenants bring their own."""
    for document in PROGRAMS:
        _done(program_register(document=document, archive=None, by=by, at=at, reason=_REASON))
    for tenant in tenants.values():
        _done(programs_allow(tenant=tenant, may_bring=True, by=by, at=at, reason=_REASON))


def _credits(tenants: Mapping[str, Tenant], by: Access, at: datetime) -> None:
    """Bring in money from outside, under fixed keys: could this ever run twice, it would still pay once."""
    amounts = {tenant.slug: tenant.credits * MICRO for tenant in content.TENANTS}
    postings = [
        Posting(
            key=f"demo:top-up:{slug}",
            kind="top_up",
            entries=((OUTSIDE, -amount), (available(tenants[slug].pk), amount)),
            at=at,
            facts={"reason": _REASON},
        )
        for slug, amount in amounts.items()
    ]
    with scope_disabled("an operator's top-up for several tenants at once"):
        _done(post_many(postings=postings))
    for slug, amount in amounts.items():
        history.append(
            at=at,
            by=by,
            tenant=tenants[slug],
            action="credits_grant",
            subject=f"available credits of {slug}",
            reason=_REASON,
            after={"amount": amount},
        )


def _done(outcome: T | Refused | InsufficientFunds) -> T:
    if isinstance(outcome, Refused | InsufficientFunds):
        raise DemoBroken(str(outcome))
    return outcome

"""Count how all units were used, once their slots are settled: sums by hour, for charts of use over time.

This never runs in the transaction that pays, so that it does not slow the settlement. What an award held in a settled
slot no longer changes, so the count may come late. Servers and cells are counted as they are at that time, usually
seconds after the slot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F, OuterRef, Q, QuerySet, Subquery

from scheduling.common import alone
from scheduling.core.types import OWN
from scheduling.market.reads.share_units import demand_of
from scheduling.market.reads.use import hour_of
from scheduling.market.settle.use_sums import MILLIONTHS, OPERATOR, UsePiece, UsePlace, UseSums, use_sums
from scheduling.models import (
    Award,
    Cell,
    Lane,
    LaneClock,
    Outage,
    Pool,
    PoolHour,
    PriceTick,
    ResourceKind,
    Server,
    ServerCapacity,
    ServerHour,
    ServerState,
)
from scheduling.models.market import span_of
from tenants.scoping import scope_disabled

HOUR = timedelta(hours=1)
DAYS_BACK = 31  # how many days back a first count begins
SERVER_DAYS = 8  # how many days the sums of single servers are kept
MOST_SLOTS = 1_000  # counted in one transaction
MOST_ROUNDS = 20  # transactions for one pool in one call
_LOCK = 0x626F757273650005  # a lock of the database: "bourse", 5

_POOL = """
INSERT INTO scheduling_poolhour AS kept
 (pool_id, resource_id, hour, until_slot, slots, capacity, used, rented, unsold, down, priced_slots, price_sum)
SELECT %s, * FROM unnest(%s::bigint[], %s::timestamptz[], %s::bigint[], %s::int[], %s::bigint[], %s::bigint[],
 %s::bigint[], %s::bigint[], %s::bigint[], %s::int[], %s::float8[])
ON CONFLICT (pool_id, hour, resource_id) DO UPDATE SET
 until_slot = EXCLUDED.until_slot, slots = kept.slots + EXCLUDED.slots,
 capacity = kept.capacity + EXCLUDED.capacity, used = kept.used + EXCLUDED.used,
 rented = kept.rented + EXCLUDED.rented, unsold = kept.unsold + EXCLUDED.unsold, down = kept.down + EXCLUDED.down,
 priced_slots = kept.priced_slots + EXCLUDED.priced_slots, price_sum = kept.price_sum + EXCLUDED.price_sum
 WHERE kept.until_slot = EXCLUDED.until_slot - EXCLUDED.slots
"""
_TENANTS = """
INSERT INTO scheduling_tenanthour AS kept
 (pool_id, resource_id, hour, tenant_id, capacity, used, lent, unsold, down, rented)
SELECT %s, * FROM unnest(%s::bigint[], %s::timestamptz[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
 %s::bigint[], %s::bigint[], %s::bigint[])
ON CONFLICT (tenant_id, pool_id, hour, resource_id) DO UPDATE SET
 capacity = kept.capacity + EXCLUDED.capacity, used = kept.used + EXCLUDED.used, lent = kept.lent + EXCLUDED.lent,
 unsold = kept.unsold + EXCLUDED.unsold, down = kept.down + EXCLUDED.down, rented = kept.rented + EXCLUDED.rented
"""
_SERVERS = """
INSERT INTO scheduling_serverhour AS kept (pool_id, resource_id, hour, server_id, capacity, taken, down)
SELECT %s, * FROM unnest(%s::bigint[], %s::timestamptz[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
ON CONFLICT (pool_id, hour, resource_id, server_id) DO UPDATE SET
 capacity = kept.capacity + EXCLUDED.capacity, taken = kept.taken + EXCLUDED.taken, down = kept.down + EXCLUDED.down
"""


class CountedTwice(RuntimeError):
    """Another process has counted these slots meanwhile. Nothing was written."""


@dataclass(frozen=True)
class Hours:
    """The slots of one count. `edges` has the slot with which each hour begins, and the end; `hours` has these
    hours."""

    edges: Sequence[int]
    hours: Sequence[datetime]


def use_in_turn(*, at: datetime) -> int:
    """Count every pool up to its last settled slot, and return the number of slots counted. Do nothing while another
    process is counting. A pool that cannot be counted holds up no other; its error is raised at the end."""
    counted, errors = 0, list[Exception]()
    with alone(_LOCK) as ours:
        for pool in _pools_behind() if ours else ():
            try:
                counted += _pool_count(pool, at)
            except Exception as error:
                errors.append(error)
    if errors:
        raise ExceptionGroup("the use of some pools could not be counted", errors)
    return counted


def _pools_behind() -> QuerySet[Pool]:
    """Return the pools that have settled slots which are not counted yet. It is one statement, because of many pools
    only few have such slots."""
    counted = PoolHour.objects.filter(pool=OuterRef("pool")).order_by("-hour").values("until_slot")[:1]
    clocks = LaneClock.objects.filter(lane=Lane.BATCH).annotate(counted=Subquery(counted))
    behind = clocks.filter(Q(counted=None, settled_slot__gte=0) | Q(settled_slot__gte=F("counted")))
    return Pool.objects.filter(pk__in=behind.values("pool")).order_by("pk")


def _pool_count(pool: Pool, at: datetime) -> int:
    done = 0
    for _ in range(MOST_ROUNDS):
        counted = use_count(pool=pool, at=at)
        if not counted:
            break
        done += counted
    return done


@transaction.atomic
def use_count(*, pool: Pool, at: datetime, most: int = MOST_SLOTS) -> int:
    """Count the next slots of the pool, at most `most`, and return how many slots were counted."""
    # 1. Choose the slots: from the end of the last count up to the last settled slot.
    settled = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).values_list("settled_slot", flat=True).first()
    before = PoolHour.objects.filter(pool=pool).order_by("-hour").values_list("until_slot", flat=True).first()
    usual = max(pool.slot_at(at - timedelta(days=DAYS_BACK)), 0)
    first = usual if before is None else before
    end = min(-1 if settled is None else settled + 1, first + most)
    if first >= end:
        return 0
    hours = hours_of(pool, first, end)

    # 2. Gather the units that there were, and who held them.
    with scope_disabled("what became of the units is counted for all owners at once"):
        places = list(_places(pool, first, end))
        pieces = list(_pieces(pool, first, end))
    prices = _prices(pool, hours)

    # 3. Add up, and write the sums.
    sums = use_sums(places, pieces, hours.edges, parts_are_told=pool.instant_policy is not None)
    _write(pool, hours, sums, prices)
    ServerHour.objects.filter(pool=pool, hour__lt=at - timedelta(days=SERVER_DAYS)).delete()
    return end - first


def hours_of(pool: Pool, first: int, end: int) -> Hours:
    """Return the hours of the slots [first, end). A slot belongs to the hour in which it begins. Where slots are longer
    than an hour, some hours have none."""
    edges, hours = [first], [hour_of(pool.slot_start(first))]
    while (following := _first_slot_from(pool, hours[-1] + HOUR)) < end:
        edges.append(following)
        hours.append(hour_of(pool.slot_start(following)))
    return Hours((*edges, end), tuple(hours))


def _first_slot_from(pool: Pool, moment: datetime) -> int:
    slot = pool.slot_at(moment)
    return slot if pool.slot_start(slot) == moment else slot + 1


def _places(pool: Pool, first: int, end: int) -> Iterator[UsePlace]:
    cells: dict[tuple[int, int], dict[int, int]] = {}
    for server, resource, tenant, units in Cell.objects.filter(server__pool=pool).values_list(
        "server", "resource", "tenant", "units"
    ):
        cells.setdefault((server, resource), {})[tenant] = units * MILLIONTHS
    stood = list(Outage.objects.filter(pool=pool, start__lt=end, end__gt=first).values_list("start", "end"))
    lost = Server.objects.filter(pool=pool, state=ServerState.LOST).values_list("pk", "lost_from")
    down = {server: [*stood, (first if since is None else since, end)] for server, since in lost}
    for server, resource, units in ServerCapacity.objects.filter(pool=pool).values_list("server", "resource", "units"):
        owned = cells.get((server, resource), {})
        yield UsePlace(server, resource, units * MILLIONTHS, owned, tuple(down.get(server, stood)))


def _pieces(pool: Pool, first: int, end: int) -> Iterator[UsePiece]:
    """Yield what awards held in these slots; an award that was cut short counts up to its cut. Of jobs only the demand
    of a unit is read."""
    names = dict(ResourceKind.objects.filter(pool=pool).values_list("name", "pk"))
    rows = Award.objects.alias(span=span_of()).filter(pool=pool, span__overlap=(first, end))
    rows = rows.exclude(cut_at__lte=F("start")).order_by("pk")
    for tenant, phase, cut_at, worker_type, ps_type, allocation, on_operator, worker, ps in rows.values_list(
        "tenant_id", "phase", "cut_at", "worker_type", "ps_type", "allocation", "on_operator",
        "job__spec__worker_demand", "job__spec__ps_demand",
    ):  # fmt: skip
        demands = demand_of(worker, worker_type), demand_of(ps, ps_type)
        for held, is_operator in ((allocation, False), (on_operator, True)):
            for server_id, start, over, *members in held:
                until = over if cut_at is None else min(over, cut_at)
                if until <= max(start, first) or start >= end:
                    continue  # outside of these slots, or it would have begun after the cut
                units: defaultdict[str, float] = defaultdict(float)
                for demand, number in zip(demands, members, strict=True):
                    for name, amount in demand.items():
                        units[name] += amount * number
                for name, amount in units.items():
                    if (millionths := round(amount * MILLIONTHS)) and name in names:
                        amounts = (0, millionths) if is_operator else (millionths, 0)
                        yield UsePiece(server_id, names[name], tenant, phase == OWN, start, until, *amounts)


def _prices(pool: Pool, hours: Hours) -> Mapping[tuple[int, int], tuple[int, float]]:
    """Map (hour, resource) to the number of slots that had a posted price, and the sum of these prices."""
    prices: dict[tuple[int, int], tuple[int, float]] = {}
    ticks = PriceTick.objects.filter(pool=pool, lane=Lane.BATCH, price__isnull=False)
    ticks = ticks.filter(slot__gte=hours.edges[0], slot__lt=hours.edges[-1]).order_by("slot", "resource")
    hour = 0
    for slot, resource, price in ticks.values_list("slot", "resource", "price"):
        while slot >= hours.edges[hour + 1]:
            hour += 1
        number, total = prices.get((hour, resource), (0, 0.0))
        prices[hour, resource] = number + 1, total + (price or 0.0)
    return prices


def _write(pool: Pool, hours: Hours, sums: UseSums, prices: Mapping[tuple[int, int], tuple[int, float]]) -> None:
    """Write the sums. The pool's rows come first: if they are counted further than expected, another process was
    faster, and nothing is written."""
    whole: list[tuple[object, ...]] = []
    resources = list(ResourceKind.objects.filter(pool=pool).order_by("pk").values_list("pk", flat=True))
    for number, hour in enumerate(hours.hours):
        first, end = hours.edges[number], hours.edges[number + 1]
        for resource in resources:
            rows = [row for place, row in sums.owners.items() if place[:2] == (number, resource)]
            capacity, used, lent, unsold, down, _ = (sum(row[index] for row in rows) for index in range(6))
            price = prices.get((number, resource), (0, 0.0))
            whole.append((resource, hour, end, end - first, capacity, used, lent, unsold, down, *price))
    tenants = [
        (resource, hours.hours[number], owner, *row)
        for (number, resource, owner), row in sorted(sums.owners.items())
        if owner != OPERATOR
    ]
    servers = [
        (resource, hours.hours[number], server, *row)
        for (number, resource, server), row in sorted(sums.servers.items())
    ]
    with connection.cursor() as cursor:
        cursor.execute(_POOL, [pool.pk, *_columns(whole, 11)])
        if cursor.rowcount != len(whole):
            raise CountedTwice(f"pool {pool.slug} from slot {hours.edges[0]} on")
        cursor.execute(_TENANTS, [pool.pk, *_columns(tenants, 9)])
        cursor.execute(_SERVERS, [pool.pk, *_columns(servers, 6)])


def _columns(rows: Sequence[Sequence[object]], number: int) -> list[list[object]]:
    return [[row[column] for row in rows] for column in range(number)]

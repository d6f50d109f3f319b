"""What became of all units adds up to their capacity, in every hour, for every owner, to the millionth of a unit."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError, transaction
from hypothesis import given
from hypothesis import strategies as st

from scheduling.market.settle import use as counting
from scheduling.market.settle.use import use_count, use_in_turn
from scheduling.market.settle.use_sums import (
    CAPACITY,
    DOWN,
    LENT,
    MILLIONTHS,
    OPERATOR,
    RENTED,
    UNSOLD,
    USED,
    UsePiece,
    UsePlace,
    use_sums,
)
from scheduling.models import Award, Lane, LaneClock, Outage, Pool, PoolHour, PriceTick, Server, ServerHour, TenantHour
from tenants.scoping import scope, scope_disabled
from tests.scheduling.builders import NOON, kind, make_cells, make_pool, make_server, make_tenant
from tests.scheduling.live import make_award, make_live_pool, moment

pytestmark = pytest.mark.django_db

TENANTS = (1, 2, 3)
FIRST, LAST = 3, 23
amounts = st.integers(0, 4 * MILLIONTHS)


@st.composite
def worlds(draw):
    """Servers whose cells fit, and jobs that hold something of them: also more than there is, for capacity may be taken
    away under a job."""
    places, pieces = [], []
    for server in range(1, draw(st.integers(1, 3)) + 1):
        cells = draw(st.dictionaries(st.sampled_from(TENANTS), amounts, max_size=3))
        spans = st.tuples(st.integers(0, 25), st.integers(0, 25))
        units = sum(cells.values()) + draw(amounts)
        places.append(UsePlace(server, 1, units, cells, tuple(draw(st.lists(spans, max_size=2)))))
        for _ in range(draw(st.integers(0, 5))):
            start, amount = draw(st.integers(0, 25)), draw(amounts)
            own = draw(st.booleans())
            operator = 0 if own else draw(st.integers(0, amount))
            end = start + draw(st.integers(1, 20))
            pieces.append(UsePiece(server, 1, draw(st.sampled_from(TENANTS)), own, start, end, amount, operator))
    inner = draw(st.sets(st.integers(FIRST + 1, LAST - 1), max_size=3))
    return places, pieces, [FIRST, *sorted(inner), LAST]


@given(worlds(), st.booleans())
def test_every_column_adds_up_to_the_capacity_and_all_that_is_lent_is_rented(world, parts_are_told: bool) -> None:
    places, pieces, edges = world
    sums = use_sums(places, pieces, edges, parts_are_told=parts_are_told)
    assert all(min(row) >= 0 for row in sums.owners.values())
    assert all(row[CAPACITY] == row[USED] + row[LENT] + row[UNSOLD] + row[DOWN] for row in sums.owners.values())
    for hour in range(len(edges) - 1):
        owners = {owner: row for (at, _, owner), row in sums.owners.items() if at == hour}
        assert sum(row[LENT] for row in owners.values()) == sum(row[RENTED] for row in owners.values())
        servers = [row for (at, _, _), row in sums.servers.items() if at == hour]
        slots = edges[hour + 1] - edges[hour]
        capacity = sum(row[CAPACITY] for row in owners.values())
        assert capacity == sum(row[0] for row in servers) >= sum(place.units for place in places) * slots
        assert sum(row[USED] + row[LENT] for row in owners.values()) == sum(row[1] for row in servers)
        held = sum(
            piece.amount * max(min(piece.end, edges[hour + 1]) - max(piece.start, edges[hour]), 0) for piece in pieces
        )
        assert sum(row[USED] + row[RENTED] for row in owners.values()) == held


@given(worlds(), st.booleans())
def test_hours_cut_otherwise_have_the_same_sum(world, parts_are_told: bool) -> None:
    places, pieces, edges = world
    pair = [use_sums(places, pieces, cut, parts_are_told=parts_are_told) for cut in (edges, [FIRST, LAST])]
    totals = [[sum(row[index] for row in sums.owners.values()) for index in range(6)] for sums in pair]
    assert totals[0] == totals[1]


def test_what_is_rented_is_lent_by_whoever_leaves_units_idle_there() -> None:
    place = UsePlace(1, 1, 8, {1: 4, 2: 2})
    pieces = [UsePiece(1, 1, 1, True, 0, 2, 3), UsePiece(1, 1, 3, False, 0, 2, 3, operator=1)]
    parts = use_sums([place], pieces, [0, 2], parts_are_told=True).owners
    assert parts[0, 1, 1] == [8, 6, 2, 0, 0, 0]  # one of its four is idle; a third of the two that are rented of homes
    assert parts[0, 1, 2] == [4, 0, 2, 2, 0, 0]
    assert parts[0, 1, OPERATOR] == [4, 0, 2, 2, 0, 0]
    assert parts[0, 1, 3] == [0, 0, 0, 0, 0, 6]


def settled(pool: Pool, slot: int) -> None:
    LaneClock.objects.update_or_create(pool=pool, lane=Lane.BATCH, defaults={"settled_slot": slot})


def market() -> tuple[Pool, Server]:
    """Ten minutes a slot: lumen has four workers of eight, and uses two of them from slot 0 to 9."""
    pool, lumen, castor = make_live_pool(slot_seconds=600), make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool)
    make_cells(server, lumen, {"worker": 4})
    make_award(pool, lumen, slots=9, phase="own", allocation=[[server.pk, 0, 9, 2, 0]])
    make_award(
        pool, castor, start=3, slots=6, allocation=[[server.pk, 3, 9, 3, 1]], on_operator=[[server.pk, 3, 9, 2, 1]]
    )
    return pool, server


def hours(model: type, pool: Pool, *names: str, resource: str = "worker") -> list[tuple[float, ...]]:
    """Unit-slots."""
    with scope_disabled("the test looks at all rows"):
        rows = model.objects.filter(pool=pool, resource=kind(pool, resource)).order_by("hour", "pk")
        return [tuple(value / MILLIONTHS for value in row) for row in rows.values_list(*names)]


def test_counts_each_settled_slot_once_however_often_it_is_asked() -> None:
    pool, _ = market()
    settled(pool, 7)
    PriceTick.objects.create(
        pool=pool, lane=Lane.BATCH, resource=kind(pool, "worker"), slot=6, price=1.5, offered=4, sold=1
    )
    assert use_count(pool=pool, at=moment(0), most=4) == 4
    assert use_in_turn(at=moment(0)) == 4
    assert use_in_turn(at=moment(0)) == 0
    assert hours(PoolHour, pool, "capacity", "used", "rented", "unsold", "down") == [
        (48, 12, 9, 27, 0),
        (16, 4, 6, 6, 0),
    ]
    assert hours(TenantHour, pool, "capacity", "used", "lent", "unsold", "down", "rented") == [
        (24, 12, 3, 9, 0, 0),
        (0, 0, 0, 0, 0, 9),
        (8, 4, 2, 2, 0, 0),
        (0, 0, 0, 0, 0, 6),
    ]
    assert hours(ServerHour, pool, "capacity", "taken", "down") == [(48, 21, 0), (16, 10, 0)]
    rows = PoolHour.objects.filter(pool=pool, resource=kind(pool, "worker")).order_by("hour")
    assert [(row.hour, row.slots, row.until_slot, row.priced_slots, row.price_sum) for row in rows] == [
        (NOON, 6, 6, 0, 0.0),
        (NOON + timedelta(hours=1), 2, 8, 1, 1.5),
    ]


def test_pools_with_nothing_to_count_cost_no_statement_each(django_assert_num_queries) -> None:
    pool, _ = market()
    settled(pool, 7)
    assert use_in_turn(at=moment(0)) == 8
    for number in range(5):
        LaneClock.objects.create(pool=make_pool(slug=f"idle{number}"), lane=Lane.BATCH)
    make_pool(slug="without-a-clock")
    with django_assert_num_queries(3):  # the lock, who is behind, the lock
        assert use_in_turn(at=moment(0)) == 0
    other = make_pool(slug="other")
    LaneClock.objects.create(pool=other, lane=Lane.BATCH, settled_slot=1)
    LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).update(settled_slot=8)
    assert use_in_turn(at=moment(0)) == 1 + 2


def test_a_pool_that_cannot_be_counted_holds_up_no_other(monkeypatch) -> None:
    pool, _ = market()
    settled(pool, 7)
    other = make_pool(slug="other")
    LaneClock.objects.create(pool=other, lane=Lane.BATCH, settled_slot=1)
    count = counting.use_count

    def broken(*, pool: Pool, at: datetime) -> int:
        if pool != other:
            raise IntegrityError("an hour that does not add up")
        return count(pool=pool, at=at)

    monkeypatch.setattr(counting, "use_count", broken)
    with pytest.raises(ExceptionGroup) as raised:
        use_in_turn(at=moment(0))
    assert [str(error) for error in raised.value.exceptions] == ["an hour that does not add up"]
    assert PoolHour.objects.filter(pool=other).exists()
    assert not PoolHour.objects.filter(pool=pool).exists()


def test_what_was_cut_short_is_unsold_and_a_lost_server_is_down() -> None:
    pool, server = market()
    with scope_disabled("the test cuts awards short"):
        Award.objects.filter(pool=pool).update(cut_at=4)
    Server.objects.filter(pk=server.pk).update(state="lost", lost_from=5)
    settled(pool, 5)
    use_in_turn(at=moment(0))
    assert hours(PoolHour, pool, "used", "rented", "unsold", "down") == [(8, 3, 29, 8)]


def test_what_would_have_begun_after_the_cut_counts_for_nothing() -> None:
    """A job of the instant lane may wait between its slots, and go on elsewhere."""
    pool, castor = make_live_pool(slot_seconds=600), make_tenant("castor")
    server = make_server(pool)
    rows = [[server.pk, 0, 2, 2, 0], [server.pk, 4, 6, 2, 0]]
    award = make_award(pool, castor, slots=6, allocation=rows, on_operator=rows)
    with scope_disabled("the test cuts an award short"):
        Award.objects.filter(pk=award.pk).update(cut_at=3)
    settled(pool, 5)
    use_in_turn(at=moment(0))
    assert hours(TenantHour, pool, "rented") == [(4,)]


def test_while_the_market_stood_still_everything_was_down() -> None:
    pool, _ = market()
    with scope_disabled("the test cuts awards short"):
        Award.objects.filter(pool=pool).update(state="void", cut_at=2)
    Outage.objects.create(pool=pool, start=2, end=6, alive_at=moment(0), noticed_at=moment(1))
    settled(pool, 5)
    use_in_turn(at=moment(0))
    assert hours(PoolHour, pool, "used", "rented", "unsold", "down") == [(4, 0, 12, 32)]


def test_begins_a_month_back_and_keeps_servers_for_some_days() -> None:
    pool = make_pool(slot_seconds=7_200)
    make_server(pool)
    settled(pool, 12 * 40)
    now = pool.slot_start(12 * 40 + 1)
    assert use_in_turn(at=now) == 12 * counting.DAYS_BACK
    rows = PoolHour.objects.filter(pool=pool, resource=kind(pool, "worker"))
    assert {(row.slots, row.capacity) for row in rows} == {(1, 8 * MILLIONTHS)}
    assert ServerHour.objects.filter(pool=pool, resource=kind(pool, "ps")).count() == 12 * counting.SERVER_DAYS


def test_who_counts_the_same_slots_beside_another_writes_nothing(monkeypatch) -> None:
    pool, _ = market()
    settled(pool, 3)
    prices = counting._prices

    def meanwhile(*args):
        monkeypatch.setattr(counting, "_prices", prices)
        assert use_count(pool=pool, at=moment(0)) == 4
        return prices(*args)

    monkeypatch.setattr(counting, "_prices", meanwhile)
    with pytest.raises(counting.CountedTwice):
        use_count(pool=pool, at=moment(0))
    assert hours(PoolHour, pool, "capacity") == []  # the other one was within the same transaction


def test_the_database_keeps_no_hour_that_does_not_add_up() -> None:
    pool, _ = market()
    settled(pool, 3)
    use_in_turn(at=moment(0))
    with pytest.raises(IntegrityError), transaction.atomic():
        PoolHour.objects.filter(pool=pool).update(used=1)
    with pytest.raises(IntegrityError), transaction.atomic(), scope(make_tenant("lumen")):
        TenantHour.objects.filter(pool=pool).update(unsold=1)

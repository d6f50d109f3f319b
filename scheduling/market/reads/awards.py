"""Read awards: those of the open tenant with their terms, those of everybody without names or amounts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import F, QuerySet

from scheduling.models import CHARGES, Award, Pool, Server
from scheduling.models.market import span_of
from tenants.models import Tenant
from tenants.scoping import scope_disabled


@dataclass(frozen=True)
class Placed:
    """Units on one server in the slots [start, end)."""

    server: str
    start: int
    end: int
    workers: int
    ps: int


@dataclass(frozen=True)
class AwardPayee:
    """What one payee gets of an award. `payee` is a tenant's short name, or "operator". `amount` is micro-credits by
    the terms, before any refund."""

    payee: str
    amount: int


@dataclass(frozen=True)
class AwardRow:
    award: Award
    placed: tuple[Placed, ...]
    payees: tuple[AwardPayee, ...]


def award_list() -> QuerySet[Award]:
    """Return the open tenant's awards with what `award_rows` needs: `job_name`, `interval_number`, and the pool, which
    is read once for all."""
    names = {"job_name": F("job__name"), "interval_number": F("interval__number")}
    return Award.objects.annotate(**names).prefetch_related("pool")


def award_by_id(award_id: int) -> Award | None:
    """Return this award of the open tenant, or None."""
    return award_list().filter(pk=award_id).first()


def award_rows(awards: Sequence[Award]) -> list[AwardRow]:
    """Return these awards with their places and payees, in the same order. Takes two more queries."""
    names = _server_names(awards)
    sums = [_sums(award) for award in awards]
    slugs = dict(
        Tenant.objects.filter(pk__in={owner for owner_sums in sums for owner in owner_sums}).values_list("pk", "slug")
    )
    return [
        AwardRow(award, placed(award.allocation, names, until=award.cut_at), _payees(owner_sums, slugs))
        for award, owner_sums in zip(awards, sums, strict=True)
    ]


def touching(pool: Pool, first: int, end: int) -> QuerySet[Award]:
    """Return the pool's awards with a slot in [first, end). The index of spans is used, so this is fast also for one
    day long ago."""
    return Award.objects.alias(span=span_of()).filter(pool=pool, span__overlap=(first, end))


def awards_anonymous(pool: Pool, first: int, end: int) -> QuerySet[Award]:
    """Return everybody's awards with a slot in [first, end). The span must be short, so that the rows are few."""
    with scope_disabled("everybody sees that units are taken, and nobody sees by whose job"):
        rows = touching(pool, first, end).exclude(cut_at__lte=F("start"))
        fields = ("id", "pool_id", "lane", "state", "phase", "start", "end", "workers", "ps", "allocation", "cut_at")
        return rows.only(*fields)


def anonymous_rows(pool: Pool, awards: Sequence[Award]) -> list[AwardRow]:
    """Return these awards of the pool with their places, in the same order. Takes one more query."""
    names = _server_names(awards)
    for award in awards:
        award.pool = pool
    return [AwardRow(award, placed(award.allocation, names, until=award.cut_at), ()) for award in awards]


def placed(
    allocation: Iterable[Sequence[int]], names: dict[int, str], *, until: int | None, first: int = 0
) -> tuple[Placed, ...]:
    """Return the rows of an allocation with the servers' names. Rows that end before `first`, and everything from
    `until` on, are left out."""
    rows = []
    for server_id, start, end, workers, ps in allocation:
        last = end if until is None else min(end, until)
        if last > max(start, first):
            rows.append(Placed(names[server_id], start, last, workers, ps))
    return tuple(rows)


@dataclass(frozen=True)
class OwnBooking:
    """What one of the tenant's awards holds on one server."""

    server: str
    award: Award
    placed: Placed


def own_bookings(pool: Pool, first: int, end: int, *, most: int) -> list[OwnBooking] | None:
    """Return the open tenant's bookings by server and slot, or None if more than `most` awards touch the slots
    [first, end)."""
    rows = touching(pool, first, end).select_related("job")
    rows = rows.defer("job__spec", "job__reason_numbers", *CHARGES).order_by("start", "pk")
    awards = list(rows[: most + 1])
    if len(awards) > most:
        return None
    names = _server_names(awards)
    bookings = [
        OwnBooking(piece.server, award, piece)
        for award in awards
        for piece in placed(award.allocation, names, until=award.cut_at, first=first)
        if piece.start < end
    ]
    return sorted(bookings, key=lambda one: (one.server, one.placed.start, one.award.pk))


def _server_names(awards: Iterable[Award]) -> dict[int, str]:
    ids = {row[0] for award in awards for row in award.allocation}
    return dict(Server.objects.filter(pk__in=ids).values_list("pk", "name"))


def _sums(award: Award) -> dict[int, int]:
    """Sum up an award's charges by owner. These are its terms, before any refund, so the sums add up to its price."""
    owners, amounts = award.charges_by_owner()
    return dict(zip(owners, amounts.sum(axis=0).tolist(), strict=True))


def _payees(sums: dict[int, int], slugs: dict[int, str]) -> tuple[AwardPayee, ...]:
    """Return the payees by name, the largest part first."""
    ordered = sorted(sums.items(), key=lambda part: (-part[1], part[0]))
    return tuple(AwardPayee(slugs.get(owner, "operator"), amount) for owner, amount in ordered if amount)

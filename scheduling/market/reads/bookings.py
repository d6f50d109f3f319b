"""Read which awards run on which servers over a span of slots: the reader's own with names, others' without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import F

from scheduling.models import Award, AwardState, Pool, earns
from tenants.models import Tenant
from tenants.scoping import scope_disabled

MOST_AWARDS = 1_500
HOME, RENTED, LENT, OTHER = "home", "rented", "lent", "other"


@dataclass(frozen=True)
class BookedUnits:
    """Units on one server in the slots [start, end). For another tenant's award there is neither job nor name."""

    server_id: int
    start: int
    end: int
    workers: int
    ps: int
    relation: str  # home | rented | lent | other
    job_id: int | None
    name: str
    lane: str
    planned: bool  # the award has not begun


@dataclass(frozen=True)
class BookedSlots:
    rows: tuple[BookedUnits, ...]  # by start, then the reader's own first
    cut: bool  # there are more awards than `MOST_AWARDS`, and the rest is left out


def bookings_between(*, tenant: Tenant, pool: Pool, first: int, last: int, home: Sequence[int]) -> BookedSlots:
    """Read the bookings in the slots [first, last). `home` are the servers on which the tenant has cells. Units for
    which a renter pays the tenant count as lent where they lie on these servers."""
    with scope_disabled("everybody sees that a server is taken, and nobody sees by whose job"):
        rows = Award.objects.filter(pool=pool, end__gt=first, start__lt=last).exclude(start__gte=F("cut_at"))
        rows = rows.annotate(pays_me=earns(tenant.pk))
        awards = list(
            rows.order_by("start", "pk").values_list(
                "tenant_id", "job_id", "job__name", "phase", "lane", "state", "cut_at", "allocation", "pays_me"
            )[: MOST_AWARDS + 1]
        )
    at_home = set(home)
    bookings = [booking for row in awards[:MOST_AWARDS] for booking in _of_award(row, tenant.pk, first, last, at_home)]
    bookings.sort(key=lambda one: (one.start, one.job_id is None, one.server_id))
    return BookedSlots(tuple(bookings), len(awards) > MOST_AWARDS)


def _of_award(row: tuple[object, ...], tenant_id: int, first: int, last: int, home: set[int]) -> list[BookedUnits]:
    owner, job_id, name, phase, lane, state, cut_at, allocation, pays_me = row
    own, rows = owner == tenant_id, []
    for server_id, start, end, workers, ps in allocation:  # type: ignore[attr-defined]
        end = end if cut_at is None else min(end, cut_at)
        if end <= first or start >= last or end <= start:
            continue
        abroad = LENT if pays_me and server_id in home else OTHER
        at_home = HOME if phase == "own" else RENTED
        rows.append(
            BookedUnits(
                server_id=server_id,
                start=start,
                end=end,
                workers=workers,
                ps=ps,
                relation=at_home if own else abroad,
                job_id=job_id if own else None,  # type: ignore[arg-type]
                name=str(name) if own else "",
                lane=str(lane),
                planned=state == AwardState.BOOKED,
            )
        )
    return rows

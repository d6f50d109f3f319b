"""Which floors stand: the latest of their job's latest attempt, but for what was given on a server that was lost since.

A draft is planned anew at every boundary, so that no loss makes it void here.

A floor that a loss made void stays void when the server comes back: its tenant's other cells may be promised to other
jobs by then. Floors themselves are never changed, so a server says from which slot on it was last lost, and after which
decision: a clock that is late may give floors later for slots that had begun by then. Earlier losses need no record:
what they made void and the last one did not was over before it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from django.db.models import Exists, F, OuterRef, Q

from scheduling.models import JobFloor, Server


class StandingFloor(NamedTuple):
    """A row, which never changes, and the slot that was decided when it was given."""

    job_id: int
    tenant_id: int
    value: float
    start: int
    end: int
    worker_type: int
    ps_type: int
    allocation: list[list[int]]  # rows [server id, start, end, workers, parameter servers]
    draft: bool
    given_at: int


COLUMNS = (*StandingFloor._fields[:-1], "interval__slot")


def floors_standing(
    pool_id: int, *among: Q, cache: MutableMapping[int, StandingFloor] | None = None
) -> dict[int, StandingFloor]:
    """Those of a pool that meet one of the conditions, drafts too, by row. Needs the scope of all tenants. `cache`:
    rows that were read before; those that are read now are entered there."""
    servers = Server.objects.filter(pool=pool_id).values_list("pk", "lost_after", "lost_from")
    lost = {number: (after, first) for number, after, first in servers if after is not None and first is not None}
    later = JobFloor.objects.filter(
        job=OuterRef("job"), attempt=OuterRef("attempt"), interval__gt=OuterRef("interval")
    ).order_by()
    latest = JobFloor.objects.filter(~Exists(later), job__pool=pool_id, attempt=F("job__attempt"))
    rows_known = {} if cache is None else cache
    numbers = [number for condition in among for number in latest.filter(condition).values_list("pk", flat=True)]
    if new := [number for number in numbers if number not in rows_known]:
        rows = JobFloor.objects.filter(pk__in=new).values_list("pk", *COLUMNS)
        rows_known.update((number, StandingFloor(*columns)) for number, *columns in rows)
    standing = {number: rows_known[number] for number in numbers}
    return {number: row for number, row in standing.items() if row.draft or not (lost and _is_void(row, lost))}


def _is_void(row: StandingFloor, lost: Mapping[int, tuple[int, int]]) -> bool:
    """`lost`: server's id -> the last slot decided before its loss, and the first that it did not deliver."""
    for server, _, end, *_ in row.allocation:
        after, first = lost.get(server, (-1, end))
        if row.given_at <= after and first < end:
            return True
    return False

"""The floors that are valid: the latest floor of each job's latest attempt, unless it lies on a server lost since then.

A draft is planned anew at every boundary, so no loss makes it void here.

A floor that a loss made void stays void when the server comes back: by then its tenant's other cells may be promised to
other jobs. Rows of floors are never changed. Instead a server's row has the slot from which it was last lost, and the
last slot decided before that: a late clock may give floors after the loss for slots that had begun before it. Earlier
losses need no record: a floor that only an earlier loss made void was over before the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import NamedTuple

from django.db.models import Exists, F, OuterRef, Q

from scheduling.models import JobFloor, Server


class StandingFloor(NamedTuple):
    """The row of a floor, which never changes, and the slot of the interval that gave it."""

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
    """Return by row the valid floors of a pool, drafts too, that meet one of the conditions `among`. Needs the scope of
    all tenants. `cache` has rows that were read before; rows read now are added to it."""
    lost = _losses(pool_id)
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
    return {
        number: row
        for number, row in standing.items()
        if row.draft or not (lost and _is_void(row.allocation, row.given_at, lost))
    }


def floor_stands(floor: JobFloor) -> bool:
    """Return whether the latest floor of a job's latest attempt is valid. Needs its interval."""
    if floor.draft:
        return True
    pool_id, given_at = floor.interval.pool_id, floor.interval.slot
    return not _is_void(floor.allocation, given_at, _losses(pool_id))


def _losses(pool_id: int) -> dict[int, tuple[int, int]]:
    """Map the id of a server that was lost to the last slot decided before that, and the first slot that it did not
    deliver."""
    servers = Server.objects.filter(pool=pool_id).values_list("pk", "lost_after", "lost_from")
    return {number: (after, first) for number, after, first in servers if after is not None and first is not None}


def _is_void(allocation: Sequence[Sequence[int]], given_at: int, lost: Mapping[int, tuple[int, int]]) -> bool:
    """Return whether a loss made a floor void that the interval of the slot `given_at` gave."""
    for server, _, end, *_ in allocation:
        after, first = lost.get(server, (-1, end))
        if given_at <= after and first < end:
            return True
    return False

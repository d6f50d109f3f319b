"""Which floors stand: the latest of their job's latest attempt, but for what was given on a server that was lost since.

A draft is planned anew at every boundary, so that no loss makes it void here.

A floor that a loss made void stays void when the server comes back: its tenant's other cells may be promised to other
jobs by then. Floors themselves are never changed, so a server says from which slot on it was last lost, and after which
decision: a clock that is late may give floors later for slots that had begun by then. Earlier losses need no record:
what they made void and the last one did not was over before it.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import Exists, F, OuterRef, Q

from scheduling.models import JobFloor, Server


def floors_standing(pool_id: int, *among: Q) -> list[JobFloor]:
    """Those of a pool that meet one of the conditions, drafts too. Needs the scope of all tenants."""
    servers = Server.objects.filter(pool=pool_id).values_list("pk", "lost_after", "lost_from")
    lost = {number: (after, first) for number, after, first in servers if after is not None and first is not None}
    later = JobFloor.objects.filter(
        job=OuterRef("job"), attempt=OuterRef("attempt"), interval__gt=OuterRef("interval")
    ).order_by()
    latest = JobFloor.objects.filter(~Exists(later), job__pool=pool_id, attempt=F("job__attempt"))
    dated = latest.annotate(given_at=F("interval__slot")) if lost else latest
    given = {row.pk: row for condition in among for row in dated.filter(condition)}
    return [row for row in given.values() if row.draft or not (lost and _is_void(row, lost))]


def _is_void(row: JobFloor, lost: Mapping[int, tuple[int, int]]) -> bool:
    """`lost`: server's id -> the last slot decided before its loss, and the first that it did not deliver."""
    given_at: int = row.given_at  # type: ignore[attr-defined]
    for server, _, end, *_ in row.allocation:
        after, first = lost.get(server, (-1, end))
        if given_at <= after and first < end:
            return True
    return False

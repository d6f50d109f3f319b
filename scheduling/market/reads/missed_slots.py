"""Read which slots an award does not pay for although it pays on after them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduling.models import Award, Outage


def slots_missed(awards: Iterable[Award]) -> Mapping[int, frozenset[int]]:
    """Map the id of each award that was given up, and goes on paying, to the slots that it does not pay for: an outage
    covers them, or the platform had failed it before it was given up. Slots of an outage are still held for it until
    they are settled."""
    paying = [award for award in awards if award.is_given_up]
    if not paying:
        return {}
    outages = list(Outage.objects.filter(pool__in={award.pool_id for award in paying}))
    return {
        award.pk: frozenset(award.missed).union(
            slot
            for outage in outages
            if outage.pool_id == award.pool_id
            for slot in range(max(outage.start, award.used_until), min(outage.end, award.end))
        )
        for award in paying
    }

"""Verifying what the chains of the market cannot prove by themselves: that they were not cut off, and that the database
only lets them grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from django.db.models import QuerySet

from scheduling.audit.verification.findings import Finding
from scheduling.market.decide import START
from scheduling.models import FeedSeal, InstantAnswer, Interval
from scheduling.models.guards import GUARDS
from tenants.common.guards import flaws
from tenants.ledger.seals import noted_heads

Links = QuerySet[Interval] | QuerySet[InstantAnswer] | QuerySet[FeedSeal]


def noted_verify(chain: str, links: Links, name_of: Callable[[int], str]) -> list[Finding]:
    """Check that each end of the chain that a seal of the ledger noted is a link that is there and has the same digest.
    Only the newest one that is not becomes a finding. `name_of` names a link by its number."""
    noted = noted_heads(chain)
    there = links.filter(number__in=[one.head.height for one in noted]).order_by()
    digests = dict(there.values_list("number", "digest"))
    for one in reversed(noted):
        present = digests.get(one.head.height)
        if present != one.head.digest:
            what = "it is missing" if present is None else "it was rewritten"
            return [Finding(name_of(one.head.height), f"{what}: seal {one.seal} of the ledger noted its digest")]
    return []


def known_verify(pool_ids: Sequence[int], digests: Iterable[str]) -> list[Finding]:
    """Check that digests that somebody noted elsewhere are in a chain of one of the pools, or in that of the feed. (All
    zeros mean that the chain had not begun.)"""
    of_pools = (links.filter(pool__in=pool_ids) for links in (Interval.objects, InstantAnswer.objects))
    chains: tuple[Links, ...] = (*of_pools, FeedSeal.objects.all())
    return [
        Finding(f"head {one}", "was noted earlier and is in no chain: one of them was cut off or rewritten")
        for one in digests
        if one != START and not any(links.filter(digest=one).exists() for links in chains)
    ]


def rules_verify() -> list[Finding]:
    """Check that the triggers that keep what was decided, promised and recorded are there, switched on, and those we
    shipped."""
    return [Finding(f"the rules of the database, {flaw.name}", flaw.what) for flaw in flaws(GUARDS)]

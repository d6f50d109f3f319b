"""Choose the pool that a page is about."""

from __future__ import annotations

from django.http import Http404

from scheduling.models import Pool


def pool_chosen(pools: list[Pool], slug: str | None) -> Pool | None:
    if slug is None:
        return pools[0] if pools else None
    for pool in pools:
        if pool.slug == slug:
            return pool
    raise Http404

"""Choose the pool that a page is about, and remember it for the pages after it."""

from __future__ import annotations

from django.http import Http404, HttpRequest

from scheduling.models import Pool

REMEMBERED = "pool"  # the key in the session of the slug of the pool that the person chose last


def pool_chosen(pools: list[Pool], slug: str) -> Pool:
    """Return the pool with this slug."""
    for pool in pools:
        if pool.slug == slug:
            return pool
    raise Http404


def pool_asked(request: HttpRequest, pools: list[Pool]) -> Pool | None:
    """Return the pool that a page is about: the one that `?pool=` names, else the one that was chosen last, or None if
    there is no pool. The choice is remembered in the session. A part that an open page fetches by itself is no choice:
    two windows may show two pools."""
    slug = request.GET.get("pool")
    if slug is None:
        return pool_remembered(request, pools)
    pool = pool_chosen(pools, slug)
    if "part" not in request.GET and request.session.get(REMEMBERED) != slug:
        request.session[REMEMBERED] = slug
    return pool


def pool_remembered(request: HttpRequest, pools: list[Pool]) -> Pool | None:
    """Return the pool that was chosen last, the first pool if none was or it is gone, or None if there is no pool."""
    slug = request.session.get(REMEMBERED)
    return next((pool for pool in pools if pool.slug == slug), pools[0] if pools else None)

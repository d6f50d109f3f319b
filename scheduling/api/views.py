"""What the views of this app share: the pool that a body or an address names."""

from __future__ import annotations

from scheduling.models import Pool
from tenants.access import Refused

UNKNOWN_POOL = Refused("unknown_pool", "There is no such pool.")


def pool_by_slug(slug: str) -> Pool | None:
    return Pool.objects.filter(slug=slug).first()

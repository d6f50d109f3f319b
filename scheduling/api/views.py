"""What the views of this app share: the pool that a body or an address names."""

from __future__ import annotations

from django.http import Http404

from scheduling.models import Pool
from tenants.access import Access, Refused
from tenants.api.views import CoalitionView
from tenants.models import ApiToken, User

UNKNOWN_POOL = Refused("unknown_pool", "There is no such pool.")


def pool_by_slug(slug: str) -> Pool | None:
    return Pool.objects.filter(slug=slug).first()


class PoolView(CoalitionView):
    """Under pools/<pool_slug>/: what every member of the coalition may see of a pool. `pool` is the row."""

    pool: Pool

    def _admit(self, user: User, token: ApiToken | None) -> Access:
        access = super()._admit(user, token)
        if (found := pool_by_slug(self.kwargs["pool_slug"])) is None:
            raise Http404
        self.pool = found
        return access

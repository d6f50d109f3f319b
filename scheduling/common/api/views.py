"""What the views of this app share: the pool that a body or an address names."""

from __future__ import annotations

from django.http import Http404, HttpResponse

from scheduling.common.api.shown import refusal_numbers
from scheduling.models import Pool
from tenants.access import Access, Refused
from tenants.api.views import CoalitionView, TenantView
from tenants.common.repeated import RepeatedRead, Whose
from tenants.models import ApiToken, User

UNKNOWN_POOL = Refused("unknown_pool", "There is no such pool.")
# The codes with which every change by an operator may be refused.
NO_REASON = ("reason_missing", "reason_too_long")


def pool_by_slug(slug: str) -> Pool | None:
    return next(iter(_of_slug(slug=slug)), None)


_of_slug = RepeatedRead(lambda slug: Pool.objects.filter(slug=slug).order_by(), of=Whose.NONE, slug="a slug")


class PoolView(CoalitionView):
    """Under pools/<pool_slug>/: what every member of the coalition may see of a pool. `pool` is the row."""

    pool: Pool

    def _admit(self, user: User, token: ApiToken | None) -> Access:
        access = super()._admit(user, token)
        self.pool = _pool_or_404(self.kwargs["pool_slug"])
        return access

    def refused_with_numbers(self, refused: Refused) -> HttpResponse:
        return self.refused(refused, refusal_numbers(refused))


class TenantPoolView(TenantView):
    """Under tenants/<slug>/pools/<pool_slug>/: what one tenant has in a pool. `pool` is the row."""

    pool: Pool

    def _admit(self, user: User, token: ApiToken | None) -> Access:
        access = super()._admit(user, token)
        self.pool = _pool_or_404(self.kwargs["pool_slug"])
        return access


def _pool_or_404(slug: str) -> Pool:
    if (pool := pool_by_slug(slug)) is None:
        raise Http404
    return pool

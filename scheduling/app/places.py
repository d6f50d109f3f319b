"""Names and numbers of the reader's own world, to fill in addresses on the page about the interface."""

from __future__ import annotations

from scheduling.models import Interval, Pool, Server, TrainingJob
from tenants.models import User
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.selectors import access_of, tenant_by_slug


def reader_places(user: User, slug: str) -> dict[str, object]:
    """Return those of the first pool, and of the tenant's latest job if the reader may see jobs. What does not exist is
    left out."""
    tenant, pool = tenant_by_slug(slug), Pool.objects.first()
    if tenant is None or pool is None:
        return {}
    server = Server.objects.filter(pool=pool).values_list("name", flat=True).first()
    number = Interval.objects.filter(pool=pool).order_by("-number").values_list("number", flat=True).first()
    job = None
    if access_of(user, tenant).allows(Permission.JOBS_VIEW):
        with scope(tenant):
            job = TrainingJob.objects.order_by("-pk").values_list("pk", flat=True).first()
    places = {"pool_slug": pool.slug, "server_name": server, "number": number, "job_id": job}
    return {name: value for name, value in places.items() if value is not None}

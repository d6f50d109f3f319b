"""What a tenant's units do at this moment: used, lent, idle; and what it rents."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.views import TenantPoolView
from scheduling.market.reads import holdings_in, units_now
from tenants.api.fields import Answer, Moment
from tenants.api.operations import operation
from tenants.roles import Permission


class ResourceQuota(Answer):
    resource = serializers.CharField(source="name")
    units = serializers.IntegerField(help_text="Its cells on all servers.")
    used = serializers.FloatField(help_text="Of them, by its own jobs.")
    lent = serializers.FloatField(help_text="Of them, rented by others.")
    idle = serializers.FloatField(help_text="Of them, by nobody.")
    rented = serializers.FloatField(help_text="Beyond them: what it rents of others and of the operator.")


class ServerQuota(Answer):
    server = serializers.CharField()
    resource = serializers.CharField()
    units = serializers.IntegerField()
    used = serializers.FloatField()
    lent = serializers.FloatField(help_text="What runs in the cells of a server is laid on its owners in proportion.")
    idle = serializers.FloatField()


class RentedUnits(Answer):
    server = serializers.CharField()
    resource = serializers.CharField()
    units = serializers.FloatField()
    whose = serializers.CharField(help_text="`others' cells` or `operator`.")


class QuotaShown(Answer):
    pool = serializers.CharField()
    slot = serializers.IntegerField()
    starts_at = Moment()
    resources = ResourceQuota(many=True)
    servers = ServerQuota(many=True)
    rented = RentedUnits(many=True)


EXAMPLE: dict[str, Any] = {
    "pool": "main",
    "slot": 120,
    "starts_at": "2026-03-02T12:20:00Z",
    "resources": [{"resource": "worker", "units": 8, "used": 4.0, "lent": 2.5, "idle": 1.5, "rented": 4.0}],
    "servers": [{"server": "s01", "resource": "worker", "units": 8, "used": 4.0, "lent": 2.5, "idle": 1.5}],
    "rented": [{"server": "s03", "resource": "worker", "units": 4.0, "whose": "others' cells"}],
}


class Quota(TenantPoolView):
    @operation(
        "quota_read",
        summary="What the tenant's units do now",
        description="In the running slot: used, lent and idle by resource and by server, and what the tenant rents.",
        permission=Permission.QUOTA_VIEW,
        answer=QuotaShown,
        answer_example=EXAMPLE,
        tag="quota",
    )
    def get(self, request: Request, tenant_slug: str, pool_slug: str) -> HttpResponseBase:
        slot = self.pool.slot_at(timezone.now())
        holdings = holdings_in(self.pool, slot, near=self.tenant.pk)
        units = units_now(tenant_id=self.tenant.pk, pool=self.pool, slot=slot, holdings=holdings)
        quota = {
            "pool": self.pool.slug,
            "slot": slot,
            "starts_at": self.pool.slot_start(slot),
            "resources": units.totals,
            "servers": units.rows,
            "rented": units.rented,
        }
        return self.shown(QuotaShown, quota)

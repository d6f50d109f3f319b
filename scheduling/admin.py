"""The cluster in Django's admin, for looking only; changes go through services."""

from __future__ import annotations

from django.contrib import admin

from scheduling.models import Cell, Pool, ResourceKind, Server, ServerCapacity
from tenants.admin import ReadOnlyAdmin, TenantOwnedAdmin


@admin.register(Pool)
class PoolAdmin(ReadOnlyAdmin):
    list_display = ["name", "slug", "slot_seconds", "clock_first", "clock_cap", "clock_restart", "epoch_at"]


@admin.register(ResourceKind)
class ResourceKindAdmin(ReadOnlyAdmin):
    list_display = ["pool", "name", "label"]
    list_select_related = ["pool"]


@admin.register(Server)
class ServerAdmin(ReadOnlyAdmin):
    list_display = ["name", "pool", "hosts_workers", "hosts_ps", "state"]
    list_select_related = ["pool"]
    list_filter = ["pool", "state"]
    search_fields = ["name"]


@admin.register(ServerCapacity)
class ServerCapacityAdmin(ReadOnlyAdmin):
    list_display = ["server", "resource", "units"]
    list_select_related = ["server", "resource"]
    list_filter = ["pool"]


@admin.register(Cell)
class CellAdmin(TenantOwnedAdmin):
    list_display = ["server", "resource", "tenant", "units"]
    list_select_related = ["server", "resource", "tenant"]

"""The pages of cells: every server of a pool with its owners, and the form for one server."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from scheduling.cluster import pool_list, pool_overview
from scheduling.cluster.pages.pools import pool_asked
from scheduling.models import Server
from scheduling.operator.cells import cells_change_on_server
from scheduling.operator.pages.cell_form import CellsForm
from scheduling.operator.pages.changes import answer
from scheduling.operator.read_operator import entries_of, kinds_of, places_of, server_rows
from tenants.access import AccessRequest
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.views.gate import requires
from tenants.views.tables import Column, Table, asks_csv, csv_response, table_of

FEW = 12  # tenants; up to this number all have a row in the form of a server, whether they own cells there or not


@require_safe
@requires(Permission.TENANTS_VIEW)
def operator_cells(request: AccessRequest) -> HttpResponseBase:
    """Show the cells of one pool: `?pool=slug`, or the one chosen last. `?owner=slug` selects servers where this
    tenant has cells."""
    pool = pool_asked(request, pool_list())
    if pool is None:
        return render(request, "operator/no_pool.html", {"heading": "Cells"})
    overview, kinds = pool_overview(pool), kinds_of(pool)
    by_name = {server.name: server.capacities for server in overview.servers}
    owner = request.GET.get("owner", "")
    rows = server_rows(pool, kinds)
    if owner:
        rows = rows.filter(name__in=[name for name, places in by_name.items() if _owns(places, owner)])
    table = _table(pool.slug, by_name)
    if asks_csv(request):
        return csv_response(request, rows, table)
    page = table_of(request, rows, table)
    context = {
        "pool": pool,
        "pools": pool_list(),
        "kinds": kinds,
        "table": page,
        "rows": [(row, list(zip(kinds, by_name[row.name], strict=True))) for row in page.rows],
        "totals": overview.totals,
        "owners": [
            (tenant, [total.units_by_tenant.get(tenant.pk, 0) for total in overview.totals])
            for tenant in Tenant.objects.order_by("name")
        ],
        "owner": owner,
        "entries": entries_of(["cells_change"]),
    }
    return render(request, "operator/cells.html", context)


def _owns(places: Any, slug: str) -> bool:
    return any(cell.slug == slug for place in places for cell in place.cells)


def _table(pool_slug: str, by_name: Any) -> Table:
    def of(row: Server) -> str:
        cells = [(place.resource, cell) for place in by_name[row.name] for cell in place.cells]
        return "; ".join(f"{cell.slug}: {cell.units} {resource}" for resource, cell in cells)

    def rest(row: Server) -> str:
        return "; ".join(f"{place.operator_units} {place.resource}" for place in by_name[row.name])

    columns = (
        Column("name", "Server", order="name"),
        Column("cells", "Cells", value=of),
        Column("left", "Left for the operator", value=rest),
    )
    return Table(columns, sort="name", rows=20, file=f"cells-{pool_slug}")


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.TENANTS_VIEW)
def operator_server_cells(request: AccessRequest, pk: int) -> HttpResponseBase:
    """Show the cells of a server, and change them. `?owner=slug` adds a row for a tenant without cells there. Auditors
    see the cells without the form."""
    server = get_object_or_404(Server.objects.select_related("pool"), pk=pk)
    if request.method == "POST":
        return _change(request, server)
    return _page(request, server, _form(request, server))


@requires(Permission.CLUSTER_CHANGE)
def _change(request: AccessRequest, server: Server) -> HttpResponse:
    form = _form(request, server, request.POST)
    return answer(
        request,
        form,
        name="cells",
        apply=lambda change_form: cells_change_on_server(
            server=server,
            cells=form.cells(),
            by=request.access,
            reason=change_form.cleaned_data["reason"],
            at=timezone.now(),
        ),
        done=f"The cells of {server.name} are as you said. The next interval that is decided counts with them.",
        back=reverse("operator_server_cells", args=[server.pk]),
        page=lambda _: _page(request, server, form),
    )


def _form(request: AccessRequest, server: Server, data: Any = None) -> CellsForm:
    places = places_of(server)
    labels = {kind.name: kind.label for kind in kinds_of(server.pool)}
    tenants = list(Tenant.objects.order_by("name"))
    if len(tenants) > FEW:
        slugs = {cell.slug for place in places for cell in place.cells} | set(request.GET.getlist("owner"))
        numbers = {name.split("-")[1] for name in data or () if name.startswith("cells-")}
        tenants = [tenant for tenant in tenants if tenant.slug in slugs or str(tenant.pk) in numbers]
    return CellsForm(places, labels, tenants, data)


def _page(request: AccessRequest, server: Server, form: CellsForm) -> HttpResponse:
    named = {owner.pk for owner in form.owners}
    context = {
        "server": server,
        "pool": server.pool,
        "form": form,
        "others": Tenant.objects.exclude(pk__in=named).order_by("name"),
        "kinds": kinds_of(server.pool),
    }
    return render(request, "operator/server_cells.html", context)

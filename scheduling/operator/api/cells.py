"""Read and change the owners of units. Everybody of the coalition sees it (decision 0031); an operator changes it."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request

from scheduling.cluster import cell_lines
from scheduling.common.api.views import NO_REASON, PoolView
from scheduling.operator.api.server_fields import (
    CELL_EXAMPLE,
    CHANGES_EXAMPLE,
    OF_TENANT_EXAMPLE,
    ON_SERVER_EXAMPLE,
    CellsChanges,
    CellShown,
    CellsOfServer,
    CellsOfTenant,
)
from scheduling.operator.api.servers import server_or_404
from scheduling.operator.cells import CellsChange, cells_change_of_tenant, cells_change_on_server
from tenants.access import Refused
from tenants.api.listing import Listing, word
from tenants.api.operations import operation
from tenants.roles import Permission
from tenants.selectors import tenant_by_slug

REFUSALS = ("unknown_resource", "invalid_units", "above_capacity", "below_promise", *NO_REASON)
HOLDS = " It holds from the next interval that is not decided yet. The cells of a server never exceed its capacity, "
CELLS = Listing(
    CellShown,
    filters=(
        word("tenant", "Only cells of the tenant with this short name.", ""),
        word("server", "Only cells on the server of this name.", ""),
        word("resource", "Only cells of this resource.", ""),
    ),
)


class Cells(PoolView):
    @operation(
        "cells_list",
        summary="Cells of a pool",
        description="Whose units lie on which server, for every member of the coalition.",
        permission=Permission.QUOTA_VIEW,
        listing=CELLS,
        answer_example=CELL_EXAMPLE,
        tag="cells",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        wanted = {each.name: self.parameters.get(each.name) for each in CELLS.filters}
        lines = cell_lines(self.pool)
        return self.listed_values(
            [line for line in lines if all(value in (None, getattr(line, name)) for name, value in wanted.items())]
        )


class CellsOnServer(PoolView):
    @operation(
        "cells_change_on_server",
        summary="Say whose the units of a server are",
        description="All its cells at once." + HOLDS + "and no change takes away what is promised. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=CellsOfServer,
        answer=CellsChanges,
        request_example=ON_SERVER_EXAMPLE,
        answer_example=CHANGES_EXAMPLE,
        refusals=("unknown_tenant", *REFUSALS),
        tag="cells",
    )
    def put(self, request: Request, pool_slug: str, server_name: str) -> HttpResponseBase:
        server, body = server_or_404(self), self.read(CellsOfServer)
        return _answer(self, cells_change_on_server(server=server, by=self.access, at=timezone.now(), **body))


class CellsOfOneTenant(PoolView):
    @operation(
        "cells_change_of_tenant",
        summary="Say where a tenant has its units",
        description="All its cells in the pool at once." + HOLDS + "and no change takes away what is promised. For "
        "operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=CellsOfTenant,
        answer=CellsChanges,
        request_example=OF_TENANT_EXAMPLE,
        answer_example=CHANGES_EXAMPLE,
        refusals=("unknown_server", *REFUSALS),
        tag="cells",
    )
    def put(self, request: Request, pool_slug: str, owner_slug: str) -> HttpResponseBase:
        if (tenant := tenant_by_slug(owner_slug)) is None:
            raise Http404
        body = self.read(CellsOfTenant)
        outcome = cells_change_of_tenant(pool=self.pool, tenant=tenant, by=self.access, at=timezone.now(), **body)
        return _answer(self, outcome)


def _answer(view: PoolView, outcome: list[CellsChange] | Refused) -> HttpResponse:
    if isinstance(outcome, Refused):
        return view.refused_with_numbers(outcome)
    return view.shown(CellsChanges, {"results": outcome})

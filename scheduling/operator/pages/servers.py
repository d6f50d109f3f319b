"""The pages of servers: list them, add one, change one, and declare one lost after showing what that would refund."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.cluster import pool_list, server_subject
from scheduling.cluster.pages.pools import pool_asked
from scheduling.models import Pool, ResourceKind, Server, ServerState
from scheduling.operator import servers
from scheduling.operator.loss_preview import server_loss_preview
from scheduling.operator.pages.changes import ChangeForm, answer
from scheduling.operator.pages.server_forms import DRAIN, CapacityForm, LoseForm, ServerAddForm, Stakes, StateForm
from scheduling.operator.read_engines import engine_state
from scheduling.operator.read_operator import entries_about, kinds_of, places_of, server_rows
from scheduling.operator.server_states import server_drain, server_return
from scheduling.operator.servers import server_capacity_change
from scheduling.runs import server_lose as lose
from tenants.access import AccessRequest
from tenants.roles import Permission
from tenants.templatetags.look import credits
from tenants.views.gate import posted_from, requires
from tenants.views.tables import Column, Table, asks_csv, csv_response, table_of

Forms = dict[str, ChangeForm]


@require_safe
@requires(Permission.TENANTS_VIEW)
def operator_servers(request: AccessRequest) -> HttpResponseBase:
    """List the servers of one pool: `?pool=slug`, or the one chosen last. `?state=` and `?name=` filter."""
    pool = pool_asked(request, pool_list())
    return _servers_page(request, pool, {})


@posted_from("operator_servers")
@requires(Permission.CLUSTER_CHANGE)
def server_add(request: AccessRequest, pool_slug: str) -> HttpResponseBase:
    pool = get_object_or_404(Pool, slug=pool_slug)
    form = ServerAddForm(kinds_of(pool), request.POST, prefix="add")

    def apply(change_form: ChangeForm) -> object:
        fields = {name: change_form.cleaned_data[name] for name in ("name", "hosts_workers", "hosts_ps", "reason")}
        return servers.server_add(pool=pool, capacity=form.capacity(), by=request.access, at=timezone.now(), **fields)

    return answer(
        request,
        form,
        name="add",
        apply=apply,
        done=f"{form.data.get('add-name')} is in service. Its units are the operator's until cells are given out.",
        back=f"{reverse('operator_servers')}?pool={pool.slug}",
        page=lambda change_form: _servers_page(request, pool, {"add": change_form}),
    )


def _servers_page(request: AccessRequest, pool: Pool | None, forms: Forms) -> Any:
    if pool is None:
        return render(request, "operator/no_pool.html", {"heading": "Servers"})
    kinds = kinds_of(pool)
    table, rows = _table(pool, kinds), server_rows(pool, kinds)
    state, name = request.GET.get("state", ""), request.GET.get("name", "").strip()
    rows = rows.filter(state=state) if state in ServerState.values else rows
    rows = rows.filter(name__icontains=name) if name else rows
    if asks_csv(request):
        return csv_response(request, rows, table)
    page = table_of(request, rows, table)
    context = {
        "pool": pool,
        "pools": pool_list(),
        "kinds": kinds,
        "table": page,
        "rows": [(row, [_numbers(row, kind) for kind in kinds]) for row in page.rows],
        "totals": _totals(pool, kinds),
        "states": ServerState.choices,
        "state": state,
        "name": name,
        "form": forms.get("add") or ServerAddForm(kinds, prefix="add"),
    }
    return render(request, "operator/servers.html", context)


def _table(pool: Pool, kinds: list[ResourceKind]) -> Table:
    columns = [Column("name", "Server", order="name"), Column("state", "State", order="state")]
    for kind in kinds:
        label, capacity, cells = f"{kind.label.capitalize()}s", f"capacity_{kind.pk}", f"cells_{kind.pk}"
        columns += [
            Column(capacity, label, order=capacity, numeric=True),
            Column(cells, "in cells", order=cells, numeric=True),
            Column(f"left_{kind.pk}", "operator's", numeric=True, value=_operator_units(kind)),
        ]
    return Table(tuple(columns), sort="name", rows=50, file=f"servers-{pool.slug}")


def _operator_units(kind: ResourceKind) -> Any:
    return lambda row: getattr(row, f"capacity_{kind.pk}") - getattr(row, f"cells_{kind.pk}")


def _numbers(row: Server, kind: ResourceKind) -> tuple[ResourceKind, int, int, int]:
    """Return the units, those in cells, and those left for the operator."""
    capacity, cells = getattr(row, f"capacity_{kind.pk}"), getattr(row, f"cells_{kind.pk}")
    return kind, capacity, cells, capacity - cells


def _totals(pool: Pool, kinds: list[ResourceKind]) -> list[tuple[ResourceKind, int, int, int]]:
    """Return the sums over the whole pool, whatever the filter."""
    numbers = [[_numbers(row, kind) for kind in kinds] for row in server_rows(pool, kinds)]
    return [
        (
            kind,
            sum(row[index][1] for row in numbers),
            sum(row[index][2] for row in numbers),
            sum(r[index][3] for r in numbers),
        )
        for index, kind in enumerate(kinds)
    ]


@require_safe
@requires(Permission.TENANTS_VIEW)
def operator_server(request: AccessRequest, pk: int) -> HttpResponse:
    return _server_page(request, _server(pk), {})


@posted_from("operator_server")
@requires(Permission.CLUSTER_CHANGE)
def server_capacity(request: AccessRequest, pk: int) -> HttpResponse:
    server = _server(pk)
    form = _capacity_form(server, request.POST)
    return answer(
        request,
        form,
        name="capacity",
        apply=lambda change_form: server_capacity_change(
            server=server,
            capacity=form.capacity(),
            by=request.access,
            reason=change_form.cleaned_data["reason"],
            at=timezone.now(),
        ),
        done=f"{server.name} has these units now. The next decision counts with them.",
        back=reverse("operator_server", args=[pk]),
        page=lambda change_form: _server_page(request, server, {"capacity": change_form}),
    )


@posted_from("operator_server")
@requires(Permission.CLUSTER_CHANGE)
def server_state(request: AccessRequest, pk: int) -> HttpResponse:
    server = _server(pk)
    change = server_drain if request.POST.get("state-action") == DRAIN else server_return
    return answer(
        request,
        StateForm(server, request.POST, prefix="state"),
        name="state",
        apply=lambda change_form: change(
            server=server, by=request.access, reason=change_form.cleaned_data["reason"], at=timezone.now()
        ),
        done=f"{server.name} is {'draining' if change is server_drain else 'in service'} now.",
        back=reverse("operator_server", args=[pk]),
        page=lambda change_form: _server_page(request, server, {"state": change_form}),
    )


@posted_from("operator_server")
@requires(Permission.CLUSTER_CHANGE)
def server_lose(request: AccessRequest, pk: int) -> HttpResponse:
    server = _server(pk)
    return answer(
        request,
        LoseForm(server, _stakes(server), request.POST, prefix="lose"),
        name="lose",
        apply=lambda change_form: lose(
            server=server, by=request.access, reason=change_form.cleaned_data["reason"], at=timezone.now()
        ),
        done=f"{server.name} is lost. What it had not delivered is refunded, and its jobs wait again.",
        back=reverse("operator_server", args=[pk]),
        page=lambda change_form: _server_page(request, server, {"lose": change_form}),
    )


def _server_page(request: AccessRequest, server: Server, forms: Forms) -> HttpResponse:
    server.refresh_from_db()
    labels = {kind.name: kind.label for kind in kinds_of(server.pool)}
    places = places_of(server)
    lost = server.state == ServerState.LOST
    stakes = None if lost else _stakes(server)
    context = {
        "server": server,
        "pool": server.pool,
        "places": [(labels[place.resource], place) for place in places],
        "stakes": stakes,
        "capacity_form": forms.get("capacity") or _capacity_form(server),
        "state_form": forms.get("state") or StateForm(server, prefix="state"),
        "lose_form": forms.get("lose") or (stakes and LoseForm(server, stakes, prefix="lose")),
        "word": engine_state(server.pool.engine, timezone.now()).servers.get(server.name),
        "entries": entries_about(server_subject(server)),
    }
    return render(request, "operator/server.html", context)


def _capacity_form(server: Server, data: Any = None) -> CapacityForm:
    labels = {kind.name: kind.label for kind in kinds_of(server.pool)}
    return CapacityForm(places_of(server), labels, data, prefix="capacity")


def _stakes(server: Server) -> Stakes:
    lost = server_loss_preview(server=server, at=timezone.now())
    return Stakes(lost.awards, credits(lost.refunded), lost.jobs, lost.floors)


def _server(pk: int) -> Server:
    return get_object_or_404(Server.objects.select_related("pool"), pk=pk)

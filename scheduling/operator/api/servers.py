"""Servers of a pool: everybody of the coalition sees them and whose cells they hold; an operator changes them."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request

from scheduling.cluster import pool_overview, server_by_name, server_view
from scheduling.common.api.views import NO_REASON, PoolView
from scheduling.models import Server, ServerState
from scheduling.operator.api.pool_fields import REASON_EXAMPLE, Reason
from scheduling.operator.api.server_fields import (
    CAPACITY_EXAMPLE,
    EXAMPLE,
    LOST_EXAMPLE,
    NEW_EXAMPLE,
    NewCapacity,
    NewServer,
    ServerLostShown,
    ServerShown,
)
from scheduling.operator.server_states import server_drain, server_return
from scheduling.operator.servers import server_add, server_capacity_change
from scheduling.runs import server_lose
from tenants.access import Refused
from tenants.api.listing import Listing, choice
from tenants.api.operations import operation
from tenants.roles import Permission

IN_STATES = choice("state", ServerState.values, "Only servers in one of these states.", "")
SERVERS = Listing(ServerShown, filters=(IN_STATES,))


class Servers(PoolView):
    @operation(
        "servers_list",
        summary="Servers of a pool",
        description="Every server with its units and whose cells they are, for every member of the coalition.",
        permission=Permission.QUOTA_VIEW,
        listing=SERVERS,
        answer_example=EXAMPLE,
        tag="servers",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        states = self.parameters.get("state", ServerState.values)
        return self.listed_values([server for server in pool_overview(self.pool).servers if server.state in states])

    @operation(
        "servers_create",
        summary="Add a server",
        description="In service at once: the next decision of either lane finds it. All of it is the operator's until "
        "cells are given. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=NewServer,
        answer=ServerShown,
        status=HTTPStatus.CREATED,
        request_example=NEW_EXAMPLE,
        answer_example=EXAMPLE,
        refusals=("invalid_server", "unknown_resource", "invalid_units", *NO_REASON),
        tag="servers",
    )
    def post(self, request: Request, pool_slug: str) -> HttpResponseBase:
        outcome = server_add(pool=self.pool, by=self.access, at=timezone.now(), **self.read(NewServer))
        if isinstance(outcome, Refused):
            return self.refused(outcome)
        response = self.shown(ServerShown, server_view(outcome), HTTPStatus.CREATED)
        response.headers["Location"] = reverse("api_server", args=[self.pool.slug, outcome.name])
        return response


class ServerRead(PoolView):
    @operation(
        "servers_read",
        summary="One server",
        description="With its units and whose cells they are.",
        permission=Permission.QUOTA_VIEW,
        answer=ServerShown,
        answer_example=EXAMPLE,
        tag="servers",
    )
    def get(self, request: Request, pool_slug: str, server_name: str) -> HttpResponseBase:
        return self.shown(ServerShown, server_view(server_or_404(self)))


class ServerCapacityView(PoolView):
    @operation(
        "server_capacity_change",
        summary="Change a server's units",
        description="Never below its cells, nor below what is promised there. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=NewCapacity,
        answer=ServerShown,
        request_example=CAPACITY_EXAMPLE,
        answer_example=EXAMPLE,
        refusals=("unknown_resource", "invalid_units", "below_cells", "below_promise", *NO_REASON),
        tag="servers",
    )
    def post(self, request: Request, pool_slug: str, server_name: str) -> HttpResponseBase:
        server, body = server_or_404(self), self.read(NewCapacity)
        outcome = server_capacity_change(server=server, by=self.access, at=timezone.now(), **body)
        return _answer(self, server, outcome)


class _ServerChange(PoolView):
    def change(self, service: Callable[..., Refused | None]) -> HttpResponse:
        server, body = server_or_404(self), self.read(Reason)
        return _answer(self, server, service(server=server, by=self.access, at=timezone.now(), **body))


class ServerDrain(_ServerChange):
    @operation(
        "server_drain",
        summary="Drain a server",
        description="What is promised there is delivered; nothing new is put on it. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=Reason,
        answer=ServerShown,
        request_example=REASON_EXAMPLE,
        answer_example=EXAMPLE | {"state": "draining"},
        refusals=("wrong_state", *NO_REASON),
        tag="servers",
    )
    def post(self, request: Request, pool_slug: str, server_name: str) -> HttpResponseBase:
        return self.change(server_drain)


class ServerReturn(_ServerChange):
    @operation(
        "server_return",
        summary="Return a server to service",
        description="One that is draining or was lost, with the units and cells that it had. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=Reason,
        answer=ServerShown,
        request_example=REASON_EXAMPLE,
        answer_example=EXAMPLE,
        refusals=("wrong_state", *NO_REASON),
        tag="servers",
    )
    def post(self, request: Request, pool_slug: str, server_name: str) -> HttpResponseBase:
        return self.change(server_return)


class ServerLose(PoolView):
    @operation(
        "server_lose",
        summary="Declare a server lost",
        description="From the running slot on it delivers nothing: awards with units there are cut short, what was not "
        "delivered is refunded, and their jobs wait again. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=Reason,
        answer=ServerLostShown,
        request_example={"reason": "Fire in rack 7."},
        answer_example=LOST_EXAMPLE,
        refusals=("already_lost", *NO_REASON),
        tag="servers",
    )
    def post(self, request: Request, pool_slug: str, server_name: str) -> HttpResponseBase:
        server, body = server_or_404(self), self.read(Reason)
        outcome = server_lose(server=server, by=self.access, at=timezone.now(), **body)
        if isinstance(outcome, Refused):
            return self.refused(outcome)
        return self.shown(ServerLostShown, vars(outcome) | {"server": server_view(server)})


def server_or_404(view: PoolView) -> Server:
    if (server := server_by_name(view.pool, view.kwargs["server_name"])) is None:
        raise Http404
    return server


def _answer(view: PoolView, server: Server, outcome: Refused | None) -> HttpResponse:
    if isinstance(outcome, Refused):
        return view.refused_with_numbers(outcome)
    return view.shown(ServerShown, server_view(server))

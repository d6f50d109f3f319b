"""Pools: everybody of the coalition sees them; an operator makes, holds, drains and resumes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request

from scheduling.cluster import pool_states
from scheduling.common.api.views import NO_REASON, PoolView
from scheduling.market.view import ONES
from scheduling.models import Pool
from scheduling.operator.api.pool_fields import (
    EXAMPLE,
    NEW_EXAMPLE,
    REASON_EXAMPLE,
    SERVERS_RETURN_EXAMPLE,
    STEPS_EXAMPLE,
    WHOLE_EXAMPLE,
    NewPool,
    NewServersReturn,
    NewStepsOfResources,
    PoolShown,
    PoolWithSettings,
    Reason,
)
from scheduling.operator.engine_servers import servers_return_set
from scheduling.operator.holds import pool_drain, pool_hold, pool_resume
from scheduling.operator.pools import PoolTerms, pool_create
from scheduling.operator.resource_steps import resource_steps_set
from tenants.access import Refused
from tenants.api.listing import Listing
from tenants.api.operations import operation
from tenants.api.views import ApiView, CoalitionView
from tenants.roles import Permission

POOLS = Listing(PoolShown, orderings=("slug", "-slug"))
TWICE = Refused("invalid_pool", "resources: A resource stands there twice.")


class Pools(CoalitionView):
    @operation(
        "pools_list",
        summary="Pools",
        description="Servers that are sold together, with the slot that is running and how far plans reach.",
        permission=Permission.PRICES_VIEW,
        listing=POOLS,
        answer_example=EXAMPLE,
        tag="pools",
    )
    def get(self, request: Request) -> HttpResponseBase:
        return self.listed(Pool.objects.all(), partial(pool_states, at=timezone.now()))

    @operation(
        "pools_create",
        summary="Make a pool",
        description="Its slot length, its epoch and its resources never change. It has no servers yet. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=NewPool,
        answer=PoolWithSettings,
        status=HTTPStatus.CREATED,
        request_example=NEW_EXAMPLE,
        answer_example=WHOLE_EXAMPLE,
        refusals=("invalid_pool", "invalid_resource", "invalid_step", "not_elastic", "invalid_price", *NO_REASON),
        tag="pools",
    )
    def post(self, request: Request) -> HttpResponseBase:
        body = {"instant_policy": None} | self.read(NewPool)
        reason, rows = body.pop("reason"), body.pop("resources")
        resources = {row["name"]: row["label"] for row in rows}
        if len(resources) < len(rows):
            return self.refused(TWICE)
        steps_of = {row["name"]: {name: row[name] for name in ("least", "step") if name in row} for row in rows}
        steps = {name: replace(ONES, **each) for name, each in steps_of.items() if each}
        terms = PoolTerms(**body, resources=resources, steps=steps)
        outcome = pool_create(terms=terms, by=self.access, reason=reason, at=timezone.now())
        if isinstance(outcome, Refused):
            return self.refused(outcome)
        response = _answer(self, outcome, HTTPStatus.CREATED)
        response.headers["Location"] = reverse("api_pool", args=[outcome.slug])
        return response


class PoolRead(PoolView):
    @operation(
        "pools_read",
        summary="One pool",
        description="With its clock, and the policy of each lane with every constant.",
        permission=Permission.PRICES_VIEW,
        answer=PoolWithSettings,
        answer_example=WHOLE_EXAMPLE,
        tag="pools",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return _answer(self, self.pool)


class PoolSteps(PoolView):
    @operation(
        "resource_steps_set",
        summary="Set the steps of resources",
        description="Which amounts one worker or parameter server may take, from the next submission on: nothing, the "
        "least amount, or some steps more. What was accepted stays as it was accepted. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=NewStepsOfResources,
        answer=PoolWithSettings,
        request_example=STEPS_EXAMPLE,
        answer_example=WHOLE_EXAMPLE,
        refusals=("invalid_step", *NO_REASON),
        tag="pools",
    )
    def post(self, request: Request, pool_slug: str) -> HttpResponseBase:
        body = self.read(NewStepsOfResources)
        outcome = resource_steps_set(pool=self.pool, by=self.access, at=timezone.now(), **body)
        return self.refused(outcome) if isinstance(outcome, Refused) else _answer(self, self.pool)


class PoolServersReturn(PoolView):
    @operation(
        "servers_return_set",
        summary="Set whether lost servers return",
        description="A server that the pool's engine lost, and that was up again for as long as it takes to be lost, "
        "is in service again by itself, or waits for an operator. One that an operator declared lost always waits. "
        "For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=NewServersReturn,
        answer=PoolWithSettings,
        request_example=SERVERS_RETURN_EXAMPLE,
        answer_example=WHOLE_EXAMPLE | {"servers_return": True},
        refusals=NO_REASON,
        tag="pools",
    )
    def post(self, request: Request, pool_slug: str) -> HttpResponseBase:
        body = self.read(NewServersReturn)
        returns, reason = body["servers_return"], body["reason"]
        outcome = servers_return_set(pool=self.pool, returns=returns, by=self.access, reason=reason, at=timezone.now())
        return self.refused(outcome) if outcome else _answer(self, self.pool)


class _Change(PoolView):
    def change(self, service: Callable[..., Refused | None]) -> HttpResponse:
        outcome = service(pool=self.pool, by=self.access, at=timezone.now(), **self.read(Reason))
        return self.refused(outcome) if isinstance(outcome, Refused) else _answer(self, self.pool)


class PoolHold(_Change):
    @operation(
        "pool_hold",
        summary="Hold a pool",
        description="Nothing new is decided until it is resumed; jobs for the batch lane may come, and wait. What was "
        "sold is delivered and paid. Again: nothing happens. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=Reason,
        answer=PoolWithSettings,
        request_example=REASON_EXAMPLE,
        answer_example=WHOLE_EXAMPLE | {"state": "held"},
        refusals=NO_REASON,
        tag="pools",
    )
    def post(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.change(pool_hold)


class PoolDrain(_Change):
    @operation(
        "pool_drain",
        summary="Drain a pool",
        description="Nothing new is decided or accepted until it is resumed, so that it comes to rest. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=Reason,
        answer=PoolWithSettings,
        request_example=REASON_EXAMPLE,
        answer_example=WHOLE_EXAMPLE | {"state": "draining"},
        refusals=NO_REASON,
        tag="pools",
    )
    def post(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.change(pool_drain)


class PoolResume(_Change):
    @operation(
        "pool_resume",
        summary="Resume a pool",
        description="The next boundary decides again; those that passed meanwhile stay undecided. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=Reason,
        answer=PoolWithSettings,
        request_example=REASON_EXAMPLE,
        answer_example=WHOLE_EXAMPLE,
        refusals=NO_REASON,
        tag="pools",
    )
    def post(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.change(pool_resume)


def _answer(view: ApiView, pool: Pool, status: int = 200) -> HttpResponse:
    return view.shown(PoolWithSettings, pool_states([pool], timezone.now())[0], status)

"""The pages of pools and their clocks: the state of each, holding, draining and resuming one, and making another."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from scheduling.market.elastic import is_learned, use_prices_of
from scheduling.market.view import steps_of
from scheduling.models import Pool
from scheduling.operator.engine_servers import servers_return_set
from scheduling.operator.holds import pool_drain, pool_hold, pool_resume
from scheduling.operator.pages.changes import ChangeForm, answer
from scheduling.operator.pages.pool_forms import (
    ACTIONS,
    DRAIN,
    HOLD,
    RESUME,
    HoldForm,
    PoolForm,
    ServersReturnForm,
    StepsForm,
    UsePricesForm,
)
from scheduling.operator.pools import PoolTerms, pool_create
from scheduling.operator.read_choices import choices_of
from scheduling.operator.read_engines import engine_state
from scheduling.operator.read_operator import PoolClock, entries_about, kinds_of, pool_states, unsettled
from scheduling.operator.resource_steps import resource_steps_set
from scheduling.operator.use_prices import use_prices_set
from scheduling.runs import engine_openness
from tenants.access import AccessRequest
from tenants.roles import Permission
from tenants.views.gate import posted_from, requires
from tenants.views.parts import part_or_page
from tenants.views.tables import Column, Table, asks_csv, csv_response, table_of

SERVICES = {HOLD: pool_hold, DRAIN: pool_drain, RESUME: pool_resume}
PARTS = {"clock": "operator/pool_clock.html"}
SETTING_WORDS = {  # of a policy, by the names under which they are stored
    "name": "Policy",
    "mode": "Rules",
    "theta": "Price base of each resource",
    "trailing": "The price base follows recent jobs",
    "clock": "Length of intervals",
    "price_floor": "Lowest price of a unit in a slot",
    "unit_value": "Usual worth of a unit in a slot",
    "worker_price": "Lowest and highest price for workers",
    "ps_price": "Lowest and highest price for parameter servers",
    "units": "What a price counts",
    "prices": "Price of a unit in a slot",
}


@require_safe
@requires(Permission.TENANTS_VIEW)
def operator_pools(request: AccessRequest) -> HttpResponseBase:
    return _pools_page(request, PoolForm(initial={"epoch_at": timezone.localtime().replace(second=0, microsecond=0)}))


@posted_from("operator_pools")
@requires(Permission.CLUSTER_CHANGE)
def operator_pool_create(request: AccessRequest) -> HttpResponseBase:
    def apply(change_form: ChangeForm) -> object:
        terms = dict(change_form.cleaned_data)
        reason = terms.pop("reason")
        return pool_create(terms=PoolTerms(**terms), by=request.access, reason=reason, at=timezone.now())

    return answer(
        request,
        PoolForm(request.POST),
        name="pool",
        apply=apply,
        done="The pool exists. It needs servers next.",
        back=reverse("operator_pools"),
        page=lambda change_form: _pools_page(request, change_form),
    )


def _pools_page(request: AccessRequest, form: ChangeForm) -> Any:
    states = {state.pool.pk: state for state in pool_states(timezone.now())}
    table = _table(states)
    if asks_csv(request):
        return csv_response(request, Pool.objects.all(), table)
    page = table_of(request, Pool.objects.all(), table)
    context = {"table": page, "states": [states[row.pk] for row in page.rows], "form": form, "pools": len(states)}
    return render(request, "operator/pools.html", context)


def _table(states: dict[int, PoolClock]) -> Table:
    def of(name: str) -> Any:
        return lambda row: getattr(states[row.pk], name)

    columns = (
        Column("name", "Pool", order="name"),
        Column("word", "State", value=of("word")),
        Column("slot_seconds", "Seconds in a slot", order="slot_seconds", numeric=True),
        Column("clock_first", "First interval", order="clock_first", numeric=True),
        Column("clock_cap", "Longest", order="clock_cap", numeric=True),
        Column("slot", "Slot now", numeric=True, value=of("slot")),
        Column("frontier", "Next decides from", numeric=True, value=of("frontier")),
        Column("behind", "Behind", numeric=True, value=of("behind")),
        Column("servers", "Servers", numeric=True, value=of("servers")),
    )
    return Table(columns, sort="name", file="pools")


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.TENANTS_VIEW)
def operator_pool(request: AccessRequest, slug: str) -> HttpResponseBase:
    pool = get_object_or_404(Pool, slug=slug)
    (state,) = pool_states(timezone.now(), [pool])
    if request.method == "POST":
        return _hand(request, state)
    return _pool_page(request, state, HoldForm(state))


@posted_from("operator_pool")
@requires(Permission.CLUSTER_CHANGE)
def operator_use_prices(request: AccessRequest, slug: str) -> HttpResponse:
    """Set the price of a unit of an elastic pool from the next slot on."""
    pool = get_object_or_404(Pool, slug=slug)
    (state,) = pool_states(timezone.now(), [pool])

    def apply(change_form: ChangeForm) -> object:
        change = {"prices": change_form.cleaned_data["prices"], "reason": change_form.cleaned_data["reason"]}
        return use_prices_set(pool=pool, by=request.access, at=timezone.now(), **change)

    return answer(
        request,
        UsePricesForm(use_prices_of(pool, timezone.now()), request.POST),
        name="use-prices",
        apply=apply,
        done="The prices hold from the next slot that is not decided.",
        back=reverse("operator_pool", args=[pool.slug]),
        page=lambda change_form: _pool_page(request, state, HoldForm(state), change_form),
    )


@posted_from("operator_pool")
@requires(Permission.CLUSTER_CHANGE)
def operator_pool_steps(request: AccessRequest, slug: str) -> HttpResponse:
    """Set which amounts of a resource a unit may take from the next submission on."""
    pool = get_object_or_404(Pool, slug=slug)
    (state,) = pool_states(timezone.now(), [pool])

    def apply(change_form: ChangeForm) -> object:
        change = {"steps": change_form.cleaned_data["steps"], "reason": change_form.cleaned_data["reason"]}
        return resource_steps_set(pool=pool, by=request.access, at=timezone.now(), **change)

    return answer(
        request,
        StepsForm(steps_of(pool), request.POST),
        name="steps",
        apply=apply,
        done="They hold for what is submitted from now on.",
        back=reverse("operator_pool", args=[pool.slug]),
        page=lambda change_form: _pool_page(request, state, HoldForm(state), steps=change_form),
    )


@posted_from("operator_pool")
@requires(Permission.CLUSTER_CHANGE)
def operator_servers_return(request: AccessRequest, slug: str) -> HttpResponse:
    """Set whether servers that the engine lost return by themselves."""
    pool = get_object_or_404(Pool, slug=slug)
    (state,) = pool_states(timezone.now(), [pool])

    def apply(change_form: ChangeForm) -> object:
        change = {"returns": change_form.cleaned_data["returns"], "reason": change_form.cleaned_data["reason"]}
        return servers_return_set(pool=pool, by=request.access, at=timezone.now(), **change)

    return answer(
        request,
        ServersReturnForm(pool, request.POST),
        name="servers-return",
        apply=apply,
        done="It holds from now on, also for servers that are lost already.",
        back=reverse("operator_pool", args=[pool.slug]),
        page=lambda change_form: _pool_page(request, state, HoldForm(state), returns=change_form),
    )


@requires(Permission.CLUSTER_CHANGE)
def _hand(request: AccessRequest, state: PoolClock) -> HttpResponse:
    pool, action = state.pool, request.POST.get("action", "")
    return answer(
        request,
        HoldForm(state, request.POST),
        name="hold",
        apply=lambda change_form: SERVICES[action](
            pool=pool, by=request.access, reason=change_form.cleaned_data["reason"], at=timezone.now()
        ),
        done=f"{pool.name} is {ACTIONS[action][2]} now." if action in ACTIONS else "",
        back=reverse("operator_pool", args=[pool.slug]),
        page=lambda change_form: _pool_page(request, state, change_form),
    )


def _pool_page(
    request: AccessRequest,
    state: PoolClock,
    form: ChangeForm,
    prices: ChangeForm | None = None,
    steps: ChangeForm | None = None,
    returns: ChangeForm | None = None,
) -> HttpResponse:
    pool = state.pool
    use = use_prices_of(pool, timezone.now()) if pool.is_elastic else None
    now = steps_of(pool)
    context = {
        "state": state,
        "unsettled": unsettled(pool) if state.held else 0,
        "pool": pool,
        "form": form,
        "use": use,
        "prices_form": prices or (UsePricesForm(use) if use else None),
        "steps": now,
        "steps_form": steps or StepsForm(now),
        "returns_form": returns or ServersReturnForm(pool),
        "engine": engine_state(pool.engine, timezone.now()),
        "openness": engine_openness(pool.engine),
        "kinds": kinds_of(pool),
        "choices": choices_of(pool),
        "fields": [
            (title, _lines(policy))
            for title, policy in [("Batch lane", pool.batch_policy), ("Instant lane", pool.instant_policy)]
        ],
        "entries": entries_about(f"pool {pool.slug}"),
        "is_learned": is_learned(pool),
    }
    return part_or_page(request, "operator/pool.html", PARTS, context)


def _lines(policy: dict[str, Any] | None) -> list[tuple[str, str, str]]:
    """Return a policy's fields as they are stored: name, its meaning if known, value."""
    return [(name, SETTING_WORDS.get(name, ""), _setting(value)) for name, value in (policy or {}).items()]


def _setting(value: Any) -> str:
    """Return a value without JSON's signs, such as "ps 2.0, worker 2.0", or "floor 0.01, ceiling (ps 10.0, worker
    10.0)"."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return json.dumps(value)
    inner = {name: _setting(each) for name, each in value.items()}
    return ", ".join(
        f"{name} ({each})" if isinstance(value[name], dict) else f"{name} {each}" for name, each in inner.items()
    )

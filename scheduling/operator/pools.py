"""Make a pool. The steps of its resources are checked here too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from scheduling.cluster import may_change_cluster, row_refusal
from scheduling.market.elastic import NOT_ELASTIC, prices_refusal, prices_write
from scheduling.market.view import (
    ONES,
    AmountSteps,
    amount_text,
    fixed_settings,
    gives_floors,
    steps_flaw,
    unusable,
    unusable_instant,
)
from scheduling.models import AlonePlan, Lane, Pool, ResourceKind
from scheduling.runs import LOCAL, engine_flaw
from tenants import history
from tenants.access import Access, Refused
from tenants.names import UNSEEN_NAME, is_blank

# D16: a tenant that gets everything back must not keep a saved state.
NOT_DELETED_THERE = (
    'policy.parts: "nothing" needs the engine of this machine, for what is saved of a job that expires is deleted; on '
    "a cluster that belongs to the tenants' accounts"
)


@dataclass(frozen=True)
class InvalidPolicy(Refused):
    lane: Lane


@transaction.atomic
def pool_create(
    *,
    slug: str,
    name: str,
    slot_seconds: int,
    clock_first: int,
    clock_cap: int,
    clock_restart: bool,
    batch_policy: Mapping[str, Any],
    instant_policy: Mapping[str, Any] | None,
    resources: Mapping[str, str],
    epoch_at: datetime,
    outage_grace_seconds: int | None = 60,
    instant_share_percent: int = 100,
    instant_cooling_slots: int = 0,
    use_prices: Mapping[str, int] | None = None,
    steps: Mapping[str, AmountSteps] | None = None,
    engine: str = LOCAL,
    by: Access,
    reason: str,
    at: datetime,
) -> Pool | Refused:
    """Make a pool. `resources` are in their order: name -> the name of one unit in a sentence. Slot 0 begins at
    `epoch_at`. `use_prices` are micro-credits, for an elastic pool; a resource without one is free until a price is
    set. `steps` are the amounts of a resource that a unit may take; whole numbers for resources without. `engine` is
    the name of the engine that runs awarded jobs."""
    if refusal := may_change_cluster(by, reason):
        return refusal
    values: dict[str, Any] = {
        "slug": slug,
        "name": name,
        "slot_seconds": slot_seconds,
        "clock_first": clock_first,
        "clock_cap": clock_cap,
        "clock_restart": clock_restart,
        "batch_policy": dict(batch_policy),
        "instant_policy": None if instant_policy is None else dict(instant_policy),
        "epoch_at": epoch_at,
        "outage_grace_seconds": outage_grace_seconds,
        "instant_share_percent": instant_share_percent,
        "instant_cooling_slots": instant_cooling_slots,
        "engine": engine,
    }
    pool = Pool(**values)
    if refusal := _pool_refusal(pool) or _resources_refusal(resources) or _policy_refusal(pool, list(resources)):
        return refusal
    if refusal := _prices_refusal(pool, use_prices, list(resources)) or steps_refusal(steps or {}, resources):
        return refusal
    values["batch_policy"] = pool.batch_policy = fixed_settings(pool, list(resources))
    values["usual_plan"] = pool.usual_plan = (AlonePlan.RENEW if gives_floors(pool) else AlonePlan.KEEP).value
    pool.save()
    ResourceKind.objects.bulk_create(
        ResourceKind(pool=pool, name=name, label=label, **asdict((steps or {}).get(name, ONES)))
        for name, label in resources.items()
    )
    prices_write(pool, use_prices or {}, 0, at)
    after = values | {"resources": list(resources), "labels": dict(resources)}
    after |= {"use_prices": dict(use_prices)} if use_prices else {}
    after |= {"steps": steps_listed(steps)} if steps else {}
    history.append(at=at, by=by, action="pool_create", subject=f"pool {slug}", reason=reason, after=after)
    return pool


def _pool_refusal(pool: Pool) -> Refused | None:
    for lane, policy in ((Lane.BATCH, pool.batch_policy), (Lane.INSTANT, pool.instant_policy)):
        if policy is not None and not isinstance(policy.get("name"), str):
            return InvalidPolicy("invalid_pool", "A policy is given by its name and fields.", lane)
    if is_blank(pool.name):
        return Refused("invalid_pool", UNSEEN_NAME)
    if refusal := row_refusal(pool, "invalid_pool"):
        return refusal
    flaw = engine_flaw(pool.engine, pool.slot_seconds)
    return Refused("invalid_pool", flaw) if flaw else None


def _policy_refusal(pool: Pool, resources: list[str]) -> Refused | None:
    for lane, flaw in (
        (Lane.BATCH, unusable(pool, resources)),
        (Lane.INSTANT, unusable_instant(pool, resources)),
    ):
        if flaw is not None:
            return InvalidPolicy("invalid_pool", f"{flaw}.", lane)
    if pool.parts_worth_nothing and pool.engine != LOCAL:
        return InvalidPolicy("invalid_pool", f"{NOT_DELETED_THERE}.", Lane.BATCH)
    return None


def _prices_refusal(pool: Pool, prices: Mapping[str, int] | None, resources: list[str]) -> Refused | None:
    if prices and not pool.is_elastic:
        return NOT_ELASTIC
    return prices_refusal(prices or {}, resources)


def steps_refusal(steps: Mapping[str, AmountSteps], resources: Collection[str]) -> Refused | None:
    """Return why these cannot be the steps of a pool with these resources."""
    for name, each in steps.items():
        if name not in resources:
            return Refused("invalid_step", f"{name[:40]}: there is no such resource; there are {', '.join(resources)}.")
        if (flaw := steps_flaw(each)) is not None:
            return Refused("invalid_step", f"{name}: {flaw}.")
    return None


def steps_listed(steps: Mapping[str, AmountSteps]) -> dict[str, dict[str, str]]:
    """Return the steps as the history lists them."""
    return {name: {"least": amount_text(each.least), "step": amount_text(each.step)} for name, each in steps.items()}


def _resources_refusal(resources: Mapping[str, str]) -> Refused | None:
    if not resources:
        return Refused("invalid_pool", "A pool counts at least one resource.")
    for name, label in resources.items():
        if is_blank(label):
            return Refused("invalid_resource", f"{name[:40]}: {UNSEEN_NAME}")
        # The pool is not saved yet, so only the name and the label can be checked.
        row = ResourceKind(name=name, label=label)
        try:
            row.clean_fields(exclude=["pool"])
        except ValidationError as error:
            return Refused("invalid_resource", f"{name}: {' '.join(error.messages)}")
    return None

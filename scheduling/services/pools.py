"""Pools, and what every change to one has in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model

from scheduling.models import Lane, Pool, ResourceKind
from scheduling.services.use_price_rows import NOT_ELASTIC, prices_refusal, prices_write
from scheduling.snapshots.policy import fixed_settings, unusable, unusable_instant
from tenants import history
from tenants.access import Access, Refused
from tenants.roles import Permission
from tenants.services.members import NOT_ALLOWED, reason_refusal


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
    by: Access,
    reason: str,
    at: datetime,
) -> Pool | Refused:
    """`resources` in their order: name -> what a sentence calls one. Slot 0 begins at `epoch_at`. `use_prices`: of an
    elastic pool, in micro-credits; what is not named is free until a price is set."""
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
    }
    pool = Pool(**values)
    if refusal := _pool_refusal(pool) or _resources_refusal(resources) or _policy_refusal(pool, list(resources)):
        return refusal
    if refusal := _prices_refusal(pool, use_prices, list(resources)):
        return refusal
    values["batch_policy"] = pool.batch_policy = fixed_settings(pool, list(resources))
    pool.save()
    ResourceKind.objects.bulk_create(
        ResourceKind(pool=pool, name=name, label=label) for name, label in resources.items()
    )
    prices_write(pool, use_prices or {}, 0, at)
    after = values | {"resources": list(resources)} | ({"use_prices": dict(use_prices)} if use_prices else {})
    history.append(at=at, by=by, action="pool_create", subject=f"pool {slug}", reason=reason, after=after)
    return pool


def may_change_cluster(by: Access, reason: str) -> Refused | None:
    if not by.allows(Permission.CLUSTER_CHANGE):
        return NOT_ALLOWED
    return reason_refusal(reason)


def pool_lock(pool: Pool) -> None:
    """Operators' changes to one pool take turns. Rows that merely refer to the pool are not held up."""
    Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)


def invalid(row: Model, code: str) -> Refused | None:
    """What the model's own rules say against a row that is not yet saved."""
    try:
        row.full_clean()
    except ValidationError as error:
        return Refused(code, " ".join(error.messages))
    return None


def _pool_refusal(pool: Pool) -> Refused | None:
    for lane, policy in ((Lane.BATCH, pool.batch_policy), (Lane.INSTANT, pool.instant_policy)):
        if policy is not None and not isinstance(policy.get("name"), str):
            return InvalidPolicy("invalid_pool", "A policy is given by its name and fields.", lane)
    return invalid(pool, "invalid_pool")


def _policy_refusal(pool: Pool, resources: list[str]) -> Refused | None:
    for lane, flaw in (
        (Lane.BATCH, unusable(pool, resources)),
        (Lane.INSTANT, unusable_instant(pool, resources)),
    ):
        if flaw is not None:
            return InvalidPolicy("invalid_pool", f"{flaw}.", lane)
    return None


def _prices_refusal(pool: Pool, prices: Mapping[str, int] | None, resources: list[str]) -> Refused | None:
    if prices and not pool.is_elastic:
        return NOT_ELASTIC
    return prices_refusal(prices or {}, resources)


def _resources_refusal(resources: Mapping[str, str]) -> Refused | None:
    if not resources:
        return Refused("invalid_pool", "A pool counts at least one resource.")
    for name, label in resources.items():
        # The pool is not saved yet, so only the two words can be looked at.
        row = ResourceKind(name=name, label=label)
        try:
            row.clean_fields(exclude=["pool"])
        except ValidationError as error:
            return Refused("invalid_resource", f"{name}: {' '.join(error.messages)}")
    return None

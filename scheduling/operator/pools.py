"""Make a pool. The steps of its resources are checked here too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from scheduling.cluster import may_change_cluster
from scheduling.market.elastic import NOT_ELASTIC, prices_refusal, prices_write
from scheduling.market.view import (
    ONES,
    AmountSteps,
    amount_text,
    first_closing,
    fixed_settings,
    gives_floors,
    steps_flaw,
    unusable,
    unusable_instant,
)
from scheduling.models import AlonePlan, Lane, LaneClock, Pool, ResourceKind
from scheduling.runs import LOCAL, engine_flaw
from tenants import history
from tenants.access import Access, Refused
from tenants.names import name_flaw
from tenants.services.members import row_refusal, row_store

# D16: a tenant that gets everything back must not keep a saved state.
NOT_DELETED_THERE = (
    'policy.parts: "nothing" needs the engine of this machine, for what is saved of a job that expires is deleted; on '
    "a cluster that belongs to the tenants' accounts"
)


@dataclass(frozen=True)
class InvalidPolicy(Refused):
    lane: Lane


@dataclass(frozen=True, kw_only=True)
class PoolTerms:
    """What an operator says of a new pool. All but the last three fields are columns of its row."""

    slug: str
    name: str
    slot_seconds: int
    clock_first: int
    clock_cap: int
    clock_restart: bool
    batch_policy: dict[str, Any]
    instant_policy: dict[str, Any] | None
    epoch_at: datetime  # slot 0 begins
    outage_grace_seconds: int | None = 60
    instant_share_percent: int = 100
    instant_cooling_slots: int = 0
    engine: str = LOCAL  # the name of the engine that runs awarded jobs
    resources: Mapping[str, str]  # in their order: name -> the name of one unit in a sentence
    steps: Mapping[str, AmountSteps] | None = None  # amounts that a unit may take; whole numbers for other resources
    use_prices: Mapping[str, int] | None = None  # micro-credits, in an elastic pool; other resources are free for now

    def columns(self) -> dict[str, Any]:
        """Return the columns of the pool's row, by name."""
        return {name: value for name, value in vars(self).items() if name not in ("resources", "steps", "use_prices")}


@transaction.atomic
def pool_create(*, terms: PoolTerms, by: Access, reason: str, at: datetime) -> Pool | Refused:
    """Make a pool on these terms. It has no servers yet."""
    # 1. Check who makes it, and its terms.
    if refusal := may_change_cluster(by, reason):
        return refusal
    columns = terms.columns()
    resources, steps, prices = list(terms.resources), terms.steps or {}, terms.use_prices or {}
    pool = Pool(**columns)
    if refusal := (
        _pool_refusal(pool)
        or _resources_refusal(terms.resources)
        or _policy_refusal(pool, resources)
        or (NOT_ELASTIC if prices and not pool.is_elastic else prices_refusal(prices, resources))
        or steps_refusal(steps, resources)
    ):
        return refusal
    # 2. Fix what the terms leave open: the constants of the policy, and the plan of tenants that choose none.
    columns["batch_policy"] = pool.batch_policy = fixed_settings(pool, resources)
    columns["usual_plan"] = pool.usual_plan = (AlonePlan.RENEW if gives_floors(pool) else AlonePlan.KEEP).value
    # 3. Write the pool with its resources, its prices and the clock of its batch lane, and an entry of the history.
    if refusal := row_store(pool, "invalid_pool"):
        return refusal
    ResourceKind.objects.bulk_create(
        ResourceKind(pool=pool, name=name, label=label, **asdict(steps.get(name, ONES)))
        for name, label in terms.resources.items()
    )
    prices_write(pool, prices, 0, at)
    LaneClock.objects.create(pool=pool, lane=Lane.BATCH, frontier=first_closing(pool, resources))
    after = columns | {"resources": resources, "labels": dict(terms.resources)}
    after |= {"use_prices": dict(prices)} if prices else {}
    after |= {"steps": steps_listed(steps)} if steps else {}
    history.append(at=at, by=by, action="pool_create", subject=f"pool {terms.slug}", reason=reason, after=after)
    return pool


def _pool_refusal(pool: Pool) -> Refused | None:
    for lane, policy in ((Lane.BATCH, pool.batch_policy), (Lane.INSTANT, pool.instant_policy)):
        if policy is not None and not isinstance(policy.get("name"), str):
            return InvalidPolicy("invalid_pool", "A policy is given by its name and fields.", lane)
    if flaw := name_flaw(pool.name):
        return Refused("invalid_pool", flaw)
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
        if flaw := name_flaw(label):
            return Refused("invalid_resource", f"{name[:40]}: {flaw}")
        # The pool is not saved yet, so only the name and the label can be checked.
        row = ResourceKind(name=name, label=label)
        try:
            row.clean_fields(exclude=["pool"])
        except ValidationError as error:
            return Refused("invalid_resource", f"{name}: {' '.join(error.messages)}")
    return None

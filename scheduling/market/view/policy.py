"""The complete settings under which a pool's lanes decide. No setting may depend on the jobs of the day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from scheduling.core import policies
from scheduling.core.policies.astraea.rules.settings import SEARCHED
from scheduling.core.policies.astraea.rules.trailing import DEFAULTS as TRAILING
from scheduling.core.posted.menu import MARKET
from scheduling.core.scenario import BadScenario
from scheduling.core.types import Cluster, Policy
from scheduling.market.elastic.read_prices import in_credits, use_prices
from scheduling.market.elastic.read_weights import settings_in_use, with_stored_weights
from scheduling.models import Pool

# These hold from the pool's first day on where the operator sets none: the least base that a price may have, and a
# price of an idle unit, which is above zero because free rides are possible only at a price of zero.
THETA = 2.0
PRICE_FLOOR = 0.01  # credits per unit and slot

INSTANT = ("oasis", "pdors")

Settings = dict[str, Any]


def batch_settings(pool: Pool, resources: Sequence[str], slot: int | None = None) -> Settings:
    """Return the batch lane's policy by name and fields, with the pool's clock and every constant filled in. For an
    elastic pool it has the weights and prices of use that hold in `slot`; with None those of the pool's creation, and
    no prices."""
    if pool.is_elastic:
        inner = dict(pool.batch_policy) if slot is None else settings_in_use(pool, slot)
        prices = {} if slot is None else in_credits(use_prices(pool, slot))
        return {"name": "elastic", "policy": inner, "prices": prices}
    fill = _CONSTANTS.get(pool.batch_policy["name"])
    return dict(pool.batch_policy) if fill is None else fill(pool, resources)


def fixed_settings(pool: Pool, resources: Sequence[str]) -> Settings:
    """Return what a new pool stores as its batch policy: the settings as written, and the constants they leave out. The
    clock is left out, since it has columns of its own.

    In guarantee mode, if no theta is written, theta starts from the constant and follows the recent jobs (L7). So does
    the usual worth of a unit, where the price is searched (K8).
    """
    if pool.is_elastic:
        return dict(pool.batch_policy)  # its prices change, and have rows of their own
    settings = batch_settings(pool, resources)
    fixed = {name: value for name, value in settings.items() if name in pool.batch_policy or name != "clock"}
    usual = {"trailing", "theta"} if pool.batch_policy.get("price") != SEARCHED else {"trailing"}
    own_names = pool.batch_policy.keys() & usual
    if fixed["name"] == "astraea" and fixed["mode"] == "guarantee" and not own_names:
        fixed["trailing"] = dict(TRAILING)
    return fixed


def policy_built(settings: Mapping[str, Any], cluster: Cluster) -> Policy:
    """Return the policy of a lane. Weights that its settings name are replaced by the stored ones. It is built without
    jobs, for no setting may depend on the jobs of the day. Raises `BadScenario`."""
    return policies.build(with_stored_weights(settings), cluster, ())


def gives_floors(pool: Pool) -> bool:
    """Return whether the pool's batch policy promises every job what its owner would have alone. The pool must be
    usable (see `unusable`)."""
    settings = pool.batch_policy
    promises = settings.get("floor", settings.get("mode", "guarantee") == "guarantee")
    return settings["name"] == "astraea" and bool(promises)


def first_closing(pool: Pool, resources: Sequence[str]) -> int:
    """Return the boundary at which the first interval of a new pool can close, for no job comes before slot 0 has
    begun. It is 0 where every slot is dealt out by itself. The pool must be usable (see `unusable`)."""
    clock = batch_settings(pool, resources).get("clock")
    if not isinstance(clock, Mapping):
        return 0
    return int(clock["first"]) + int(clock["restart"])  # a clock that restarts counts from the first job


def unusable(pool: Pool, resources: Sequence[str]) -> str | None:
    """Return what is wrong with the batch policy of a pool that has these resources, or None if nothing is."""
    name = pool.batch_policy["name"]
    usable = [*_CONSTANTS, *sorted(policies.SINGLE_SLOTS & policies.POLICIES.keys())]
    if name not in usable:  # whole lives at a price, or single slots in an elastic pool
        return f"policy.name: the batch lane can be run by {', '.join(usable)}, not by {name}"
    try:
        policy_built(batch_settings(pool, resources), _empty(resources))
    except BadScenario as error:
        return str(error).replace("policy.policy", "policy", 1)
    return None


def unusable_instant(pool: Pool, resources: Sequence[str]) -> str | None:
    """Return what is wrong with the instant policy of a pool that has these resources, or None if nothing is, or the
    pool has no instant lane."""
    if pool.instant_policy is None:
        return None
    name = pool.instant_policy["name"]
    if pool.is_elastic:  # units sold ahead could not be dealt out anew in every slot
        return "policy: an elastic pool has no instant lane"
    if name not in INSTANT:  # an answer at once is a price and a schedule, which only these give
        return f"policy.name: the instant lane can be run by {', '.join(INSTANT)}, not by {name}"
    try:
        policies.build(pool.instant_policy, _empty(resources), ())
    except BadScenario as error:
        return str(error)
    if pool.instant_policy.get("mode", MARKET) != MARKET:  # the batch lane, the guarantee and all proofs count this way
        return f"policy.mode: a pool's instant lane counts time and prices as a market does, {MARKET}"
    return None


def _astraea(pool: Pool, resources: Sequence[str]) -> Settings:
    clock = {"first": pool.clock_first, "cap": pool.clock_cap, "restart": pool.clock_restart}
    settings = {"mode": "guarantee", "clock": clock, **pool.batch_policy}
    settings["theta"] = _by_resource(settings.get("theta"), THETA, resources)
    if settings["mode"] == "guarantee":
        settings["price_floor"] = _by_resource(settings.get("price_floor"), PRICE_FLOOR, resources)
    return settings


_CONSTANTS: Mapping[str, Callable[[Pool, Sequence[str]], Settings]] = {"astraea": _astraea}


def _by_resource(setting: Any, constant: float, resources: Sequence[str]) -> Any:
    """Return one amount for each resource. A setting that is neither missing nor an object is returned as it is, and
    the policy checks it."""
    if setting is not None and not isinstance(setting, Mapping):
        return setting
    return {**dict.fromkeys(resources, constant), **(setting or {})}


def _empty(resources: Sequence[str]) -> Cluster:
    kinds = len(resources)
    return Cluster(
        resources=tuple(resources),
        servers=(),
        tenants=(),
        slot_seconds=1.0,
        capacity=np.zeros((kinds, 0)),
        quota=np.zeros((kinds, 0)),
        hosts_workers=np.zeros(0, dtype=bool),
        hosts_ps=np.zeros(0, dtype=bool),
        cells=np.zeros((kinds, 0, 0)),
    )

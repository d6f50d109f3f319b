"""What an operator makes before the first job of a tenant can run, each on its own page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from scheduling.overview.read_overview import BookNow, PoolUseNow
from tenants.models import Tenant


@dataclass(frozen=True)
class FirstStep:
    """One step. Its `button` leads to `page`, with `query`, where it is made."""

    title: str
    text: str
    button: str
    page: str
    is_done: bool
    query: str = ""


def first_steps(pools: Sequence[PoolUseNow], tenants: Collection[Tenant], money: BookNow) -> list[FirstStep]:
    """Return all steps, or none once each of them is done: then a tenant has units or credits to run a job with."""
    has_servers = any(use.overview.servers for use in pools)
    has_cells = any(total.units_by_tenant for use in pools for total in use.overview.totals)
    funds = money.whole.funds
    steps = [
        FirstStep(
            "Make a pool",
            "Its servers are sold together: one clock, one calendar, one policy for each lane.",
            "Pools",
            "operator_pools",
            bool(pools),
        ),
        FirstStep(
            "Add its servers",
            "All of their units are the operator's until cells are given out.",
            "Servers",
            "operator_servers",
            has_servers,
            f"?pool={pools[0].state.pool.slug}" if pools else "",
        ),
        FirstStep(
            "Make a tenant",
            "Its first owner is invited by mail, and invites the others.",
            "Tenants",
            "tenants",
            bool(tenants),
        ),
        FirstStep(
            "Give it cells or credits",
            "In its own cells its jobs run free. To rent what others own it needs credits, from the page Credits.",
            "Cells",
            "operator_cells",
            has_cells or funds.available + funds.held + funds.earned > 0,
        ),
    ]
    return [] if all(step.is_done for step in steps) else steps

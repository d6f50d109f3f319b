"""A market's own history under its own rules gives its own awards and payments, to the micro-credit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import read
from scheduling.core.settlement import charges_of_all, micro
from scheduling.core.simulation import simulate
from scheduling.core.types import BATCH, Plan, Policy, View
from scheduling.models import Award
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.management.files import output_of
from tests.market.test_live_as_simulated import SLOTS, make_random_market
from tests.scheduling.markets import at, run_slots

pytestmark = pytest.mark.django_db


class ChargeRecorder:
    """A policy, and what each owner has from each slot of each booking that it makes, (slots, owners)."""

    name: ClassVar[str] = "kept"

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.charges: dict[int, np.ndarray[Any, Any]] = {}

    def decide(self, view: View) -> Plan:
        plan = self.policy.decide(view)
        pairs = zip(plan.bookings, charges_of_all(plan.bookings), strict=True)
        self.charges |= {booking.job: charged for booking, charged in pairs}
        return plan


def slot_by_slot(charges: list[list[list[int]]], slugs: Mapping[int, str]) -> list[dict[str, int]]:
    """Who has how much from each slot, of a stored award."""
    return [{slugs.get(owner, "operator"): amount for owner, amount in slot if amount} for slot in charges]


def test_own_history_under_own_rules_gives_own_awards_and_payments(tmp_path: Path) -> None:
    pool = make_random_market(1)
    run_slots(pool, 0, SLOTS)
    begin, end = (at(pool, slot).isoformat() for slot in (0, SLOTS))
    words = ("--pool", pool.slug, "--from", begin, "--to", end, "--drain", 0, "--output", tmp_path / "S.json")
    output_of("pool_scenario", *words)
    scenario = read((tmp_path / "S.json").read_text())
    policy = ChargeRecorder(build(scenario.policy, scenario.cluster, scenario.jobs))
    tracks = simulate(scenario, {BATCH: policy}).tracks
    with scope_disabled("the test looks at everything"):
        awards = {f"job {award.job_id}": award for award in Award.objects.all()}
        slugs = dict(Tenant.objects.values_list("pk", "slug"))
    owners = [*(tenant.name for tenant in scenario.cluster.tenants), "operator"]
    bookings = {track.job.name: booking for track in tracks for booking in track.bookings}
    assert bookings.keys() == awards.keys()
    for name, booking in bookings.items():
        award = awards[name]
        assert (award.start, award.end, award.phase, award.paid) == (
            booking.start,
            booking.end,
            booking.phase,
            micro(booking.paid),
        )
        replayed = [
            {owners[k]: int(amount) for k, amount in enumerate(slot) if amount} for slot in policy.charges[booking.job]
        ]
        assert [slot for slot in slot_by_slot(award.charges, slugs) if slot] == [slot for slot in replayed if slot]
    assert sum(award.paid for award in awards.values()) > 0

"""What happens to a month of a market beside its work: jobs are taken back, servers drained, cells change hands,
tenants change their plan, and processes die while they pay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np

from scheduling.jobs.cancellation import job_cancel
from scheduling.market.decide.interval import interval_run
from scheduling.market.settle.slots import slot_settle
from scheduling.models import AlonePlan, Cell, Pool, Server, TrainingJob
from scheduling.operator.cells import cells_change_on_server
from scheduling.operator.server_states import server_drain, server_return
from scheduling.sharing.sharing import Sharing, sharing_change
from tenants.access import Access, Refused, access_of_system
from tenants.models import Tenant
from tenants.roles import OWNER
from tests.scheduling.markets import at
from tests.soak.faults import dying

DRAINED_EVERY, PLANS_EVERY = 5, 7  # days
SOLD_EVERY = 5  # slots
CANCELLED, DIES = 0.3, 0.4  # in a slot
OPERATOR = access_of_system("a simulated month")


class Upsets:
    """Called at the end of each slot. `counts`: how often each thing really happened."""

    def __init__(self, pool: Pool, tenants: list[Tenant], *, seed: int = 11) -> None:
        self.pool, self.tenants, self.dice = pool, tenants, np.random.default_rng(seed)
        self.day = 24 * 3600 // int(pool.slot_seconds)
        self.counts: Counter[str] = Counter()

    def __call__(self, slot: int) -> None:
        moment = at(self.pool, slot) + 0.95 * (at(self.pool, 1) - at(self.pool, 0))
        if self.dice.random() < CANCELLED:
            self._cancel(moment)
        if slot % (DRAINED_EVERY * self.day) == 2 * self.day:
            self._drain(moment)
        if slot % (DRAINED_EVERY * self.day) == 3 * self.day:
            for server in Server.objects.filter(pool=self.pool, state="draining"):
                assert server_return(server=server, by=OPERATOR, reason="looked after", at=moment) is None
                self.counts["returned"] += 1
        if slot % SOLD_EVERY == 0:
            self._sell_cells(moment)
        if slot % (PLANS_EVERY * self.day) == 4 * self.day:
            self._change_plan(slot, moment)
        if self.dice.random() < DIES:
            self._die(slot)

    def _cancel(self, moment: datetime) -> None:
        alive = TrainingJob.objects.filter(pool=self.pool, state__in=("queued", "awarded", "running"))
        jobs = list(alive.select_related("tenant").order_by("pk"))
        if jobs:
            job = jobs[int(self.dice.integers(len(jobs)))]
            assert not isinstance(job_cancel(job_id=job.pk, by=_member(job.tenant), at=moment), Refused)
            self.counts["cancelled"] += 1

    def _drain(self, moment: datetime) -> None:
        servers = list(Server.objects.filter(pool=self.pool, state="in_service").order_by("pk"))
        server = servers[int(self.dice.integers(len(servers)))]
        assert not isinstance(server_drain(server=server, by=OPERATOR, reason="new disks", at=moment), Refused)
        self.counts["drained"] += 1

    def _sell_cells(self, moment: datetime) -> None:
        """One tenant's cells of a server go to another, unless they are promised to jobs."""
        cells = list(Cell.objects.filter(server__pool=self.pool, resource__name="worker").order_by("pk"))
        cell = cells[int(self.dice.integers(len(cells)))]
        buyer = self.tenants[int(self.dice.integers(len(self.tenants)))]
        units = {row.resource.name: row.units for row in Cell.objects.filter(server=cell.server, tenant=cell.tenant)}
        about = {"server": cell.server, "cells": {buyer.slug: units}}
        changed = cells_change_on_server(**about, by=OPERATOR, reason="sold", at=moment)
        self.counts["promised" if isinstance(changed, Refused) else "sold"] += 1

    def _change_plan(self, slot: int, moment: datetime) -> None:
        tenant = self.tenants[int(self.dice.integers(len(self.tenants)))]
        plan = (AlonePlan.KEEP, AlonePlan.RENEW)[slot // (PLANS_EVERY * self.day) % 2]
        changed = sharing_change(pool=self.pool, sharing=Sharing(plan=plan), by=_member(tenant), at=moment)
        assert not isinstance(changed, Refused)
        self.counts["plans"] += 1

    def _die(self, slot: int) -> None:
        """While this slot is paid, or while the next is decided and rents are closed; whoever comes next repeats it."""
        end = at(self.pool, slot + 1)
        works: list[tuple[str, Callable[[], Any]]] = [
            ("died paying", lambda: slot_settle(pool_id=self.pool.pk, slot=slot, at=end)),
            ("died deciding", lambda: interval_run(pool_id=self.pool.pk, slot=slot + 1, at=end)),
        ]
        first, committed = int(self.dice.integers(3)), bool(self.dice.integers(2))
        for name, work in works[int(self.dice.integers(2)) :]:
            self.counts[name] += dying(work, first, committed=committed)


def _member(tenant: Tenant) -> Access:
    return Access(user=None, tenant=tenant, roles=frozenset({OWNER}))

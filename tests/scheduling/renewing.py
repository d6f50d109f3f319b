"""A market in which a job's rent turns out to be worse than what it would have got alone.

Lumen and Castor own a server of one worker each, windows have two slots, and a slot of a worker costs 3.25 for itself
and as much for its parameter server. S runs at home until slot 10. K must end by 17, so that J's draft is [16, 18),
worth 42, and J rents [2, 4) for 13: 56 - 13 = 43. N comes, is worth more than what K loses by waiting, and J follows
it: alone it starts at 12 and is worth 46, 3 more than renting brought.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.models import AlonePlan, Award, Pool, TenantPolicy, TrainingJob
from tenants.ledger.postings import AccountName, earned, held
from tenants.ledger.selectors import transactions_about
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.markets import give, make_waiting

ONE = {"chunks": 1, "max_workers": 1, "minibatches": 1, "minibatch_seconds": 10.0}


@dataclass(frozen=True)
class World:
    pool: Pool
    lumen: Tenant
    castor: Tenant
    job: TrainingJob  # J

    @property
    def award(self) -> Award:
        with scope_disabled("the test looks at what J got"):
            return Award.objects.get(job=self.job)

    @property
    def income(self) -> int:
        """Return what Castor has earned by J."""
        return sum(amount for account, amount in self.entries if account == earned(self.castor.pk))

    @property
    def held(self) -> int:
        """Return what is held for J."""
        return sum(amount for account, amount in self.entries if account == held(self.lumen.pk))

    @property
    def entries(self) -> list[tuple[AccountName, int]]:
        with scope_disabled("the test looks at all that the book says of J"):
            about = transactions_about(subject=f"job:{self.job.pk}")
        return [entry for transaction in about for entry in transaction.entries]


def renewing() -> World:
    settings = {"name": "astraea", "mode": "guarantee", "theta": {"worker": 2.0, "ps": 2.0}, "price_floor": 3.25}
    pool = make_pool(batch_policy=settings, clock_first=2, clock_cap=2, clock_restart=False)
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    for tenant in (lumen, castor):
        make_cells(make_server(pool, f"{tenant.slug}-1", worker=1, ps=1), tenant, {"worker": 1, "ps": 1})
        give(tenant, 1_000)
    with scope(lumen):
        TenantPolicy.objects.create(pool=pool, plan=AlonePlan.RENEW)
    linear = {"kind": "linear", "slope": -1.0}
    make_waiting(pool, lumen, epochs=8, priority=1, value={**linear, "base": 200.0}, **ONE)
    make_waiting(pool, lumen, epochs=6, value={"kind": "deadline", "base": 100.0, "deadline": 17.0}, **ONE)
    job = make_waiting(pool, lumen, epochs=2, value={**linear, "base": 60.0}, **ONE)
    make_waiting(pool, lumen, 3.0, epochs=2, value={"kind": "linear", "slope": -20.0, "base": 500.0}, **ONE)
    return World(pool, lumen, castor, job)

"""A market with everything in it, made by the services alone, so that whatever is changed behind their back is named.

It has both lanes, an elastic pool, a loss, an outage, jobs that are given up and units that are sold again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from unittest import mock

from marketplace.upkeep.sealing import seal_everything
from scheduling.app.clock import pool_advance
from scheduling.audit import feed_seals
from scheduling.audit.bundle import signing_seed
from scheduling.catalogue.secrets import secret_set
from scheduling.fairness.alerts import MEASURES, alerts_set
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.second_chance import job_queue
from scheduling.jobs.submission import Submitted, job_submit
from scheduling.learner.promotion import weights_take
from scheduling.market.view.demands import AmountSteps
from scheduling.models import CandidateState, Event, PolicyWeights, Pool, TrainingJob, WeightsCandidate
from scheduling.money.budget_limits import budget_set
from scheduling.money.credits import credits_grant
from scheduling.operator.cells import cells_change_on_server
from scheduling.operator.engine_servers import servers_return_set
from scheduling.operator.holds import pool_hold, pool_resume
from scheduling.operator.pools import PoolTerms, pool_create
from scheduling.operator.resource_steps import resource_steps_set
from scheduling.operator.servers import server_add
from scheduling.operator.use_prices import use_prices_set
from scheduling.operator.weights import weights_add
from scheduling.runs.failures import AwardFailed, award_fail
from scheduling.sharing.sharing import Sharing, sharing_change
from tenants.access import Access, Refused, access_of_system
from tenants.ledger.amounts import MICRO
from tenants.ledger.sheets import days_close
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tests.catalogue import builders as programs
from tests.ledger.builders import commit_checks
from tests.operator.test_policy_weights import trained
from tests.scheduling.builders import NOON, make_tenant
from tests.scheduling.live import INSTANT, SPEC

BY, WHY = access_of_system("a test"), "a test"
PRICED = {"name": "astraea", "price_floor": {"worker": 0.2, "ps": 0.2}}
RESOURCES = {"worker": "worker", "ps": "parameter server"}
LONG = {"epochs": 4, "value": {"kind": "linear", "slope": -8.0, "base": 200.0}}


class Proven(NamedTuple):
    pool: Pool
    elastic: Pool
    castor: Tenant
    lumen: Tenant
    jobs: dict[str, TrainingJob]


def moment(slot: float) -> datetime:
    return NOON + timedelta(seconds=10 * slot)


def accepted(outcome: Any) -> Any:
    assert not isinstance(outcome, Refused), outcome
    return outcome


def of(tenant: Tenant) -> Access:
    return Access(user=None, tenant=tenant, roles=frozenset({OWNER}))


def submit(pool: Pool, tenant: Tenant, slot: float, lane: str = "instant", **spec: Any) -> Submitted:
    fields = {"name": "train", "spec": SPEC | spec, "lane": lane, "client_key": f"{tenant.slug}-{slot}"}
    return accepted(job_submit(pool=pool, by=of(tenant), at=moment(slot), **fields))


def make_pool(slug: str, servers: dict[str, dict[str, dict[str, int]]], **fields: Any) -> Pool:
    """`servers`: name -> cells by tenant; each has four workers and two parameter servers."""
    settings = {"name": slug.title(), "slot_seconds": 10, "resources": RESOURCES, "epoch_at": NOON}
    pool = accepted(pool_create(terms=PoolTerms(slug=slug, **(settings | fields)), by=BY, reason=WHY, at=NOON))
    for name, cells in servers.items():
        capacity = {"worker": 4, "ps": 2}
        server = accepted(server_add(pool=pool, name=name, capacity=capacity, by=BY, reason=WHY, at=NOON))
        accepted(cells_change_on_server(server=server, cells=cells, by=BY, reason=WHY, at=NOON))
    return pool


def make_proven() -> Proven:
    castor, lumen = make_tenant("castor"), make_tenant("lumen")
    for tenant in (castor, lumen):
        accepted(credits_grant(tenant=tenant, amount=1_000 * MICRO, key=f"g-{tenant.slug}", by=BY, reason=WHY, at=NOON))
    cells = {"castor": {"worker": 4, "ps": 2}}
    servers = {"s01": cells, "s02": cells, "s03": {}}
    clock = {"clock_first": 4, "clock_cap": 4, "clock_restart": False, "outage_grace_seconds": 20}
    pool = make_pool("main", servers, batch_policy=PRICED, instant_policy=INSTANT, **clock)
    prices = {"worker": MICRO // 2, "ps": MICRO // 4}
    steps = {"clock_first": 1, "clock_cap": 1, "clock_restart": True, "outage_grace_seconds": None}
    policy = {"batch_policy": {"name": "srtf", "workers": 4}, "instant_policy": None, "use_prices": prices}
    elastic = make_pool("sweeps", {"e01": {"castor": {"worker": 2}}}, **steps, **policy)
    _settings(pool, castor, lumen)
    jobs = {"sweep": submit(elastic, lumen, 0.5, "batch", minibatches=6).job}
    jobs |= _life(pool, castor, lumen, elastic)
    with scope_disabled("the test works out what comes after the market"):
        fairness_catch_up()
        days_close(at=moment(100_000))
    commit_checks()
    seal_feed(moment(60))
    seal_everything(at=moment(60))
    return Proven(pool, elastic, castor, lumen, jobs)


def seal_feed(at: datetime, block: int = 40) -> None:
    """As after the commit: what a transaction that is still open has written is not settled."""
    newest = Event.objects.latest("pk").pk
    with mock.patch.object(feed_seals, "last_settled", return_value=newest):
        feed_seals.feed_seal(at=at, block=block)


def _settings(pool: Pool, castor: Tenant, lumen: Tenant) -> None:
    sharing = Sharing(rent="auto", budget=900 * MICRO, lend="lend", reserve_price={"worker": 0.01})
    accepted(sharing_change(pool=pool, sharing=sharing, by=of(castor), at=NOON))
    accepted(
        budget_set(member=None, period="month", soft=500 * MICRO, hard=900 * MICRO, by=of(lumen), at=NOON, reason=WHY)
    )
    accepted(alerts_set(pool=pool, thresholds={next(iter(MEASURES)): 0.5}, by=BY, reason=WHY, at=NOON))
    halves = {"ps": AmountSteps(Decimal("0.5"), Decimal("0.5"))}
    accepted(resource_steps_set(pool=pool, steps=halves, by=BY, reason=WHY, at=NOON))
    accepted(servers_return_set(pool=pool, returns=True, by=BY, reason=WHY, at=NOON))
    signing_seed(at=NOON)
    accepted(weights_add(name="mine", content=trained(), by=BY, reason=WHY, at=NOON))
    _learnt()
    programs.register(BY, name="theirs", tenants=["lumen"])
    programs.allow(castor)
    programs.register(of(castor), programs.archive_with("train.py"))
    accepted(secret_set(name="hub", value="a token", tenants=["lumen"], by=BY, at=NOON, reason=WHY))


def _learnt() -> None:
    """A pool that a network decides, in which other weights were put in place."""
    steps = {"clock_first": 1, "clock_cap": 1, "clock_restart": True, "outage_grace_seconds": None}
    prices = {"worker": MICRO, "ps": MICRO}
    pool = make_pool("learnt", {}, batch_policy={"name": "dl2"}, instant_policy=None, use_prices=prices, **steps)
    weights = PolicyWeights.objects.get(name="mine")
    WeightsCandidate.objects.create(
        pool=pool, weights=weights, against="", from_slot=0, state=CandidateState.OFFERED, made_at=NOON
    )
    accepted(weights_take(pool=pool, weights="mine", by=BY, reason=WHY, at=NOON))


def _life(pool: Pool, castor: Tenant, lumen: Tenant, elastic: Pool) -> dict[str, TrainingJob]:
    """What happened, slot by slot."""
    jobs = {"own": submit(pool, castor, 1, "batch", **LONG).job}
    for slot in range(5):
        tick(slot, pool, elastic)
    jobs["given_up"] = submit(pool, lumen, 4, **LONG).job
    jobs["refused"] = submit(pool, lumen, 4.1, max_price=0.000001).job
    jobs["cancelled"] = submit(pool, lumen, 4.2, "batch").job
    accepted(job_cancel(job_id=jobs["given_up"].pk, by=of(lumen), at=moment(4.5)))
    accepted(job_cancel(job_id=jobs["cancelled"].pk, by=of(lumen), at=moment(4.6)))
    tick(5, pool, elastic)
    jobs["resold"] = submit(pool, lumen, 5.2, **LONG).job
    late = submit(pool, lumen, 5.3, max_price=0.000002).job
    jobs["queued_after"] = accepted(job_queue(job_id=late.pk, by=of(lumen), at=moment(5.4)))
    jobs["rented"] = submit(pool, lumen, 5.5, "batch", **LONG).job
    for slot in range(6, 10):
        tick(slot, pool, elastic)
    lost = submit(pool, lumen, 9.1, **LONG)
    assert lost.award is not None
    failed = accepted(award_fail(award_id=lost.award.pk, slot=10, detail="a disk", at=moment(9.2), losses=1))
    assert isinstance(failed, AwardFailed)
    jobs["lost"] = lost.job
    accepted(pool_hold(pool=pool, by=BY, reason=WHY, at=moment(9.3)))
    accepted(pool_resume(pool=pool, by=BY, reason=WHY, at=moment(9.4)))
    for price in (MICRO * 4 // 5, MICRO):  # of one slot the newest holds
        accepted(use_prices_set(pool=elastic, prices={"worker": price}, by=BY, reason=WHY, at=moment(9.5)))
    for slot in range(10, 20):
        tick(slot, pool, elastic)
    jobs["through_outage"] = submit(pool, lumen, 19.5, **LONG).job
    for slot in range(24, 29):  # nobody ticked from slot 20 to 23
        tick(slot, pool, elastic)
    jobs["alive"] = submit(pool, lumen, 28.2, **LONG).job
    jobs["waiting"] = submit(pool, lumen, 28.3, "batch", **LONG).job
    return jobs


def tick(slot: float, *pools: Pool) -> None:
    for pool in pools:
        pool_advance(pool_id=pool.pk, at=moment(slot))

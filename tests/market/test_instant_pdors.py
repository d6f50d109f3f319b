"""An instant lane that sells by PD-ORS: servers with several resources, on which both kinds of units stand together."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.models import Pool, Server, ServerCapacity
from scheduling.quotes.quotes import job_quote
from tenants.models import Tenant
from tests.scheduling.builders import kind, make_pool, make_tenant
from tests.scheduling.live import (
    again,
    book_is_sound,
    fund,
    holdings,
    member,
    moment,
    money,
    operator_money,
    settle,
    submit,
    submitted,
)

pytestmark = pytest.mark.django_db

UNITS = {"gpu": 4, "cpu": 8, "memory_gb": 16}
PRICE = {"floor": 0.01, "ceiling": {"gpu": 10.0, "cpu": 10.0, "memory_gb": 10.0}}
# 6.25 megabytes there and back take ten seconds at 10 Mbit/s and a tenth of one inside a server: a gang that is
# spread is only half as fast.
JOB: dict[str, Any] = {
    "epochs": 1,
    "chunks": 4,
    "minibatch_seconds": 9.9,
    "gradient_mb": 6.25,
    "worker_mbps": 10.0,
    "ps_mbps": 40.0,
    "internal_mbps": 1_000.0,
    "ps_ratio": 4.0,
    "worker_demand": {"gpu": 1, "cpu": 1, "memory_gb": 2},
    "ps_demand": {"cpu": 2, "memory_gb": 4},
}
VALUE = {"value": {"kind": "linear", "slope": -1.0, "base": 100.0}, "max_workers": 4}


def colocated(servers: int = 2, **fields: Any) -> tuple[Pool, Tenant]:
    """A pool of the operator's, and a tenant with money."""
    pool = make_pool(resources=tuple(UNITS), instant_policy={"name": "pdors", "price": PRICE, **fields})
    for number in range(servers):
        server = Server.objects.create(pool=pool, name=f"s{number + 1}")
        for resource, units in UNITS.items():
            ServerCapacity.objects.create(pool=pool, server=server, resource=kind(pool, resource), units=units)
    lumen = make_tenant("lumen")
    fund(lumen)
    return pool, lumen


@pytest.mark.parametrize("external", ["greedy", "rounding", "milp"])
def test_admits_a_gang_on_one_server_at_the_posted_price(external: str) -> None:
    pool, lumen = colocated(external=external)
    award = again(submitted(pool, lumen, **JOB).award)
    assert (award.start, award.end, award.workers, award.ps, award.placement) == (0, 1, 4, 1, "centralized")
    assert holdings(pool) == {
        ("s1", "gpu", "operator", 0): 4.0,
        ("s1", "cpu", "operator", 0): 6.0,
        ("s1", "memory_gb", "operator", 0): 12.0,
    }
    assert award.paid == 220_000  # 4 * (1 + 1 + 2) + 2 + 4 amounts at a hundredth of a credit
    settle(pool, 0)
    assert (money(lumen), operator_money()) == ((999_780_000, 0, 0), 220_000)
    assert book_is_sound()


def test_the_next_job_finds_the_other_server_and_the_one_after_it_the_next_slot() -> None:
    pool, lumen = colocated()
    awards = [again(submitted(pool, lumen, **JOB).award) for _ in range(3)]
    assert [award.start for award in awards] == [0, 0, 1]
    assert len({award.allocation[0][0] for award in awards[:2]}) == 2
    assert book_is_sound()


def test_a_quote_is_what_a_submission_pays() -> None:
    pool, lumen = colocated()
    submitted(pool, lumen, **JOB)
    quote = job_quote(pool=pool, name="train", spec={**JOB, **VALUE}, lane="instant", by=member(lumen), at=moment(0))
    award = again(submitted(pool, lumen, **JOB).award)
    assert quote.terms.price == award.paid
    assert (quote.terms.start, quote.terms.end) == (award.start, award.end)


def test_refuses_a_gang_that_no_server_could_ever_hold() -> None:
    pool, lumen = colocated()
    answer = submit(pool, lumen, **JOB | {"worker_demand": {"gpu": 5}})
    job = again(answer.job)
    assert (job.state, job.reason_code) == ("rejected", "no_room")

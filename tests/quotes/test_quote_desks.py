"""What a quote remembers of the market: nothing that has changed since, and one memory for many threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from scheduling.models import Event, Pool
from scheduling.quotes import desks
from scheduling.quotes.quotes import Quote, job_quote
from tenants.ledger.amounts import MICRO
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.ledger.builders import grant
from tests.patience import PATIENCE
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import SPEC, fund, make_live_pool, member, moment, submitted

pytestmark = pytest.mark.django_db

THREADS = 6


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that the market is read for a desk."""
    monkeypatch.setattr(desks, "_last_seen", {})
    read, real = [], desks.batch_view

    def spy(*args: Any, **kwargs: Any) -> Any:
        read.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(desks, "batch_view", spy)
    return read


def market() -> tuple[Pool, Tenant, Tenant]:
    """Castor lends eight workers for a tenth of a credit and more. Lumen has nothing at all."""
    dear = {"name": "astraea", "price_floor": {"worker": 0.1, "ps": 0.1}}
    pool = make_live_pool(instant_policy=None, batch_policy=dear, clock_first=4, clock_cap=4)
    castor, lumen = make_tenant("castor"), make_tenant("lumen")
    make_cells(make_server(pool, "s01", worker=8, ps=2), castor, {"worker": 8, "ps": 2})
    fund(castor)
    return pool, castor, lumen


def ask(pool: Pool, tenant: Tenant, *, slot: float = 0.5, **spec: Any) -> Quote:
    answer = job_quote(pool=pool, name="train", spec=SPEC | spec, lane="batch", by=member(tenant), at=moment(slot))
    assert isinstance(answer, Quote), answer
    return answer


def test_the_same_market_is_read_once(decisions: list[int]) -> None:
    pool, _, lumen = market()
    first, second = ask(pool, lumen), ask(pool, lumen, max_workers=2)
    assert decisions == [1]
    assert first.terms.reason is not None
    assert second.terms.reason is not None
    assert {first.terms.reason.code, second.terms.reason.code} == {"low_balance"}


def test_money_that_came_without_an_event_counts_at_once(decisions: list[int]) -> None:
    pool, _, lumen = market()
    count = Event.objects.count()
    assert not ask(pool, lumen).terms.admitted
    with scope_disabled("money from outside"):
        grant(lumen.pk, 10 * MICRO, key="grant:late")
    assert Event.objects.count() == count
    quote = ask(pool, lumen)
    assert (quote.terms.admitted, decisions) == (True, [1, 1])
    assert 0 < quote.terms.price <= 10 * MICRO


def test_money_that_went_without_an_event_counts_at_once(decisions: list[int]) -> None:
    pool, _, lumen = market()
    with scope_disabled("money from outside"):
        grant(lumen.pk, 10 * MICRO, key="grant:early")
        assert ask(pool, lumen).terms.admitted
        grant(lumen.pk, -10 * MICRO, key="grant:back")
    quote = ask(pool, lumen)
    assert quote.terms.reason is not None
    assert (quote.terms.reason.code, quote.terms.reason.numbers["left"]) == ("low_balance", 0.0)


def test_a_new_event_is_a_new_market(decisions: list[int]) -> None:
    pool, castor, lumen = market()
    fund(lumen)
    alone = ask(pool, lumen, chunks=8, max_workers=8, min_workers=8, ps_mbps=8.0)
    assert alone.terms.admitted
    submitted(pool, castor, lane="batch", slot=0.5, chunks=8, max_workers=8, min_workers=8, ps_mbps=8.0)
    beside = ask(pool, lumen, chunks=8, max_workers=8, min_workers=8, ps_mbps=8.0)
    assert decisions == [1, 1]
    assert (beside.terms.admitted, beside.terms.start) != (True, alone.terms.start)


def test_another_person_of_another_tenant_is_not_answered_from_it(decisions: list[int]) -> None:
    pool, castor, lumen = market()
    assert not ask(pool, lumen).terms.admitted
    at_home = ask(pool, castor).terms
    assert (at_home.admitted, at_home.phase, at_home.price) == (True, "own", 0)
    assert decisions == [1, 1]


def test_what_is_kept_grows_old(decisions: list[int]) -> None:
    pool, _, lumen = market()
    ask(pool, lumen, slot=0.1)
    ask(pool, lumen, slot=0.5)
    ask(pool, lumen, slot=0.7)  # six seconds after it was read
    assert decisions == [1, 1]


@pytest.mark.django_db(transaction=True)
def test_threads_that_ask_at_once_get_the_answers_of_one_after_another(decisions: list[int]) -> None:
    pool, castor, lumen = market()
    fund(lumen)
    submitted(pool, castor, lane="batch", slot=0.2, epochs=3, chunks=4, max_workers=4)
    submitted(pool, lumen, lane="batch", slot=0.3, epochs=2)
    wishes = [{"chunks": n, "max_workers": n, "epochs": 1 + n % 3} for n in range(1, THREADS + 1)]
    expected = [ask(pool, lumen, **wish) for wish in wishes]
    desks._last_seen.clear()
    ask(pool, lumen)
    quotes: dict[int, Quote] = {}
    start = threading.Barrier(THREADS)

    def work(number: int) -> None:
        try:
            start.wait(timeout=PATIENCE)
            quotes[number] = ask(pool, lumen, **wishes[number])
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
    assert [quotes.get(number) for number in range(THREADS)] == expected
    assert len({quote.terms.price for quote in expected}) > 2
    assert len(decisions) == 2  # once for those who came one after another, once for all the threads

"""An elastic pool on pages and for programs: made, priced, asked for a quote, and looked at."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from scheduling.fairness.intervals import fairness_catch_up
from scheduling.market.elastic.read_prices import use_prices
from scheduling.models import Pool, UsePrice
from scheduling.operator.use_prices import use_prices_set
from tenants.access import NOBODY, Refused, access_of_system
from tenants.models import AuditEntry, Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.builders import NOON, make_pool
from tests.scheduling.clocks import advance, moment
from tests.scheduling.elastic_world import make_elastic, make_elastic_job
from tests.scheduling.live import events
from tests.scheduling.markets import MICRO, SPEC
from tests.scheduling.pages import client_as, client_of, text_of
from tests.tenants.builders import make_member

pytestmark = pytest.mark.django_db
OPERATOR = access_of_system("the tests")
NEW = {
    "slug": "sized",
    "name": "Sized",
    "slot_seconds": 600,
    "clock_first": 1,
    "clock_cap": 1,
    "epoch_at": "2026-03-02 12:00",
    "resources": "worker: worker\nps: parameter server",
    "batch_policy": '{"name": "optimus", "restart": 10}',
    "instant_policy": "",
    "use_prices": "worker: 0.05\nps: 0.02",
    "instant_share_percent": 100,
    "instant_cooling_slots": 0,
    "reason": "A pool for sweeps.",
}


def creation(client: Client, **fields: Any) -> str:
    answer = client.post("/operator/pools/new/", NEW | fields, secure=True)
    return "made" if answer.status_code == 302 else text_of(answer.content.decode())


def test_operator_makes_an_elastic_pool_with_its_prices() -> None:
    client = client_as("operator", None)
    assert "an elastic pool has no instant lane" in creation(client, instant_policy='{"name": "oasis"}')
    assert "the batch lane can be run by" in creation(client, batch_policy='{"name": "fifo"}')
    assert "Only an elastic pool has prices of use" in creation(client, batch_policy='{"name": "astraea"}')
    assert "gpu: there is no such resource" in creation(client, use_prices="gpu: 1")
    assert "is not a number of credits" in creation(client, use_prices="worker: much")
    assert not Pool.objects.exists()
    assert creation(client) == "made"
    pool = Pool.objects.get()
    assert pool.is_elastic
    assert pool.batch_policy == {"name": "optimus", "restart": 10}
    assert use_prices(pool, 0) == {"worker": 50_000, "ps": 20_000}


def test_operator_sets_prices_on_the_pools_page_and_they_are_kept_by_slot() -> None:
    pool, _, _ = make_elastic()
    client = client_as("operator", None)
    page = text_of(client.get("/operator/pools/main/", secure=True).content.decode())
    assert "Prices of use" in page
    fields = {
        "use-prices": "worker: 0.75", "use-reason": "Power became dearer.", "use-version": "worker: 0.5, ps: 0.25",
    }  # fmt: skip
    effect = client.post("/operator/pools/main/use-prices/?part=effect", fields, secure=True)
    assert "A slot of a worker" in text_of(effect.content.decode())
    assert client.post("/operator/pools/main/use-prices/", fields, secure=True).status_code == 302
    (entry,) = AuditEntry.objects.filter(action="use_prices_set")
    first = entry.after["from_slot"]
    assert (entry.before["prices"]["worker"], entry.after["prices"]) == (500_000, {"worker": 750_000, "ps": 250_000})
    assert (use_prices(pool, first - 1)["worker"], use_prices(pool, first)["worker"]) == (500_000, 750_000)
    # A page of before that change would undo it with the line that it did not mean to change.
    stale = client.post(
        "/operator/pools/main/use-prices/", fields | {"use-prices": "worker: 0.50\nps: 0.30"}, secure=True
    )
    assert "This was changed while you looked at it." in text_of(stale.content.decode())
    assert use_prices(pool, first) == {"worker": 750_000, "ps": 250_000}
    assert client_as("auditor", None).post("/operator/pools/main/use-prices/", fields, secure=True).status_code == 403


def test_a_price_holds_from_the_next_slot_that_is_not_decided_and_says_so_once() -> None:
    pool, _, renter = make_elastic()
    make_elastic_job(pool, renter)
    advance(pool, 2)
    change = {"pool": pool, "by": OPERATOR, "reason": "dear", "at": moment(pool, 1.5)}
    assert use_prices_set(prices={"worker": MICRO}, **change) == 3  # slot 2 is decided already
    assert use_prices_set(prices={"worker": MICRO}, **change) == 3
    assert UsePrice.objects.filter(from_slot=3).count() == 1
    assert [event.data["from"] for event in events("use_prices_set")] == [3]


@pytest.mark.parametrize(
    ("prices", "fields", "code"),
    [
        ({"gpu": 1}, {}, "invalid_price"),
        ({"worker": -1}, {}, "invalid_price"),
        ({"worker": 1}, {"by": NOBODY}, "not_allowed"),
        ({"worker": 1}, {"reason": " "}, "reason_missing"),
    ],
)
def test_a_price_that_cannot_be_is_refused(prices: dict[str, int], fields: dict[str, Any], code: str) -> None:
    pool, _, _ = make_elastic()
    answer = use_prices_set(**({"pool": pool, "prices": prices, "by": OPERATOR, "reason": "why", "at": NOON} | fields))
    assert isinstance(answer, Refused)
    assert answer.code == code
    other = make_pool("other")
    refused = use_prices_set(pool=other, prices={"worker": 1}, by=OPERATOR, reason="why", at=NOON)
    assert isinstance(refused, Refused)


def test_the_page_of_a_job_tells_its_sizes_what_it_paid_and_why_it_is_paused() -> None:
    pool, _, renter = make_elastic(credits=7)
    job = make_elastic_job(pool, renter, slots=4, min_workers=4)
    client = client_as("owner", renter)
    for slot in range(3):
        advance(pool, slot)
    page = text_of(client.get(f"/t/renter/jobs/{job.pk}/", secure=True).content.decode())
    assert "Costs 3.00, its least size 2.25, and 1.00 are available. It has paid 6.00 for 2 slots." in page
    assert "Its size, slot by slot" in page
    assert "Paused." in page
    text = text_of(client.get("/t/renter/jobs/", secure=True).content.decode())
    assert "6.00" in text


def test_the_ledger_says_which_payments_are_of_slots_and_which_are_not() -> None:
    """They stood together "outside an interval", and what was paid in with them."""
    pool, owner, renter = make_elastic()
    make_elastic_job(pool, renter)
    for slot in range(3):
        advance(pool, slot)
    days = f"from={NOON.date()}&to={timezone.now().date()}"
    page = text_of(client_as("owner", owner).get(f"/t/owner/ledger/?{days}", secure=True).content.decode())
    paid_in, by_slot = page.index("Outside an interval"), page.index(f"Slot by slot, in {pool.name}")
    earned = page.index("Earned from")
    assert by_slot < earned < paid_in or paid_in < by_slot < earned, page


def test_another_tenant_finds_no_such_job() -> None:
    pool, owner, renter = make_elastic()
    job = make_elastic_job(pool, renter)
    advance(pool, 0)
    client = client_as("owner", owner)
    for tenant in ("owner", "renter"):
        assert client.get(f"/t/{tenant}/jobs/{job.pk}/", secure=True).status_code == 404


def test_a_program_asks_for_a_quote_and_is_told_the_price_of_a_slot_and_an_estimate() -> None:
    make_elastic()
    client = client_as("owner", Tenant.objects.get(slug="renter"))
    body = {"pool": "main", "name": "train", "lane": "batch", "spec": SPEC | {"minibatches": 6}}
    quote = client.post("/api/v1/tenants/renter/quotes/", body, content_type="application/json", secure=True).json()
    assert quote["by_use"] == {
        "workers": 4,
        "parameter_servers": 4,
        "price_per_slot": "3.000000",
        "estimated_slots": 3,
        "estimated_price": "9.000000",
    }
    prices = client.get("/api/v1/pools/main/use-prices/", secure=True).json()
    assert prices["prices"] == {"worker": "0.500000", "ps": "0.250000"}


def test_share_says_nothing_of_what_no_interval_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the intervals of an auction say what each owner had for sale. Here an owner earns, and was told that
    "0 of 0" is for sale, that nothing was missed, and that no interval had decided a slot."""
    pool, owner, renter = make_elastic()
    make_elastic_job(pool, renter)
    for slot in range(2):
        advance(pool, slot)
    client = client_as("owner", owner)
    monkeypatch.setattr("django.utils.timezone.now", lambda: moment(pool, 1.5))
    page = text_of(client.get("/t/owner/share/", secure=True).content.decode())
    assert "Renters pay you" in page
    assert "My part of what is for sale" not in page
    assert "Missed today" not in page
    assert "No interval of today says what each owner offered." in page


def test_every_page_of_the_market_opens_in_an_elastic_pool() -> None:
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter)
    for slot in range(2):
        advance(pool, slot)
    with scope_disabled("the test works out the fairness"):
        fairness_catch_up(most=10)
    client = client_as("owner", renter)
    pages = ["market", "servers", "share", "intervals", "intervals/main/1", "fairness", "fairness/main/intervals/1"]
    pages += [
        "submit",
        "statements/period",
        f"jobs/{job.pk}/charge",
        f"jobs/{job.pk}/cancel",
        "intervals/main/1/what-if",
    ]
    assert "sized again in every slot" in text_of(client.get("/t/renter/submit/", secure=True).content.decode())
    for path in pages:
        answer = client.get(f"/t/renter/{path}/", follow=True, secure=True)
        assert answer.status_code == 200, path
    charge = text_of(client.get(f"/t/renter/jobs/{job.pk}/charge/", secure=True).content.decode())
    assert "0.50" in charge
    proved = text_of(client.post(f"/t/renter/jobs/{job.pk}/charge/", secure=True).content.decode())
    assert "0 differences" in proved
    text = text_of(client.get(f"/t/renter/jobs/{job.pk}/cancel/", secure=True).content.decode())
    assert "is its last, and is paid" in text


def test_fairness_compares_nothing_that_an_elastic_pool_does_not_have() -> None:
    """No auction, so nobody offers; no promise of what a tenant would have alone, so no certificate is kept."""
    pool, owner, renter = make_elastic()
    make_elastic_job(pool, renter, slots=4)
    for slot in range(3):
        advance(pool, slot)
    with scope_disabled("the test works out the fairness"):
        fairness_catch_up(most=10)
    days = f"from={NOON:%Y-%m-%d}&to={NOON:%Y-%m-%d}"
    auditor = client_as("auditor", None)
    page = text_of(auditor.get(f"/fairness/?{days}", secure=True).content.decode())
    assert "An elastic pool promises no job what it would have had alone" in page
    assert "Earned and paid" in page
    for untrue in ("no job got less", "kept in every interval", "No owner has earned", "No unit was idle", "Missed"):
        assert untrue not in page
    rows = auditor.get(f"/fairness/?{days}&table=rewards&format=csv", secure=True).getvalue().decode()
    assert rows.splitlines()[0] == "Owner,Earned,Rent paid,Rent saved,Intervals waiting"
    own = text_of(client_as("owner", owner).get(f"/t/owner/fairness/?{days}", secure=True).content.decode())
    assert "Earned from others" in own
    for untrue in ("got less than it would", "Idle units offered", "missed: idle"):
        assert untrue not in own


def test_the_tables_of_fairness_have_no_columns_that_are_always_nothing() -> None:
    """No promise of what a tenant would have alone, so no certificates; no auction, so nothing is offered or missed."""
    pool, _, renter = make_elastic()
    for _ in range(3):
        make_elastic_job(pool, renter, slots=4)
    for slot in range(3):
        advance(pool, slot)
    with scope_disabled("the test works out the fairness"):
        fairness_catch_up(most=10)
    days, inner = f"from={NOON:%Y-%m-%d}&to={NOON:%Y-%m-%d}", f"/fairness/pools/{pool.slug}"
    auditor, own = client_as("auditor", None), client_as("owner", renter)

    def main(client: Client, path: str) -> str:
        page = text_of(client.get(path, secure=True).content.decode())
        return page[page.rindex("Go on") : page.index("How it works")]

    rows = own.get(f"/t/renter/fairness/?{days}&format=csv", secure=True).getvalue().decode()
    assert rows.splitlines()[0] == "Interval,Ratio,Jobs waiting on,Gain,Paid,Earned"
    rows = auditor.get(f"{inner}/intervals/?{days}&format=csv", secure=True).getvalue().decode()
    assert rows.splitlines()[0] == "Interval,Decided,Value,Variance of ratio,Renters,Waiting jobs"
    rows = auditor.get(f"{inner}/intervals/2/?format=csv", secure=True).getvalue().decode()
    assert "Alone" not in rows.splitlines()[0]
    overview = main(auditor, f"/fairness/?{days}")
    assert "Day Intervals One bidder Work waits 2 Mar 3 3 3" in overview
    assert "Work goes on waiting 3" in overview
    assert main(auditor, f"{inner}/intervals/?{days}&what=waiting").count("no room: 1") == 3
    pages = {
        f"/fairness/?{days}": auditor,
        f"{inner}/intervals/?{days}": auditor,
        f"{inner}/intervals/2/": auditor,
        f"{inner}/alerts/": auditor,
        f"/t/renter/fairness/?{days}": own,
        f"/t/renter/fairness/{pool.slug}/intervals/2/": own,
    }
    for path, client in pages.items():
        page = main(client, path)
        for untrue in ("Alone", "Missed", "Certificate", "Broken", "Jain", "Unsold", "Jumps", "Blocked", "What if"):
            assert untrue not in page, (path, untrue)
        for untrue in ("was broken", "were kept", "offered", "floors. "):
            assert untrue not in page, (path, untrue)
    assert "it has no certificates" in main(own, f"/t/renter/fairness/{pool.slug}/intervals/2/")
    assert "cannot be asked about" in main(own, f"/t/renter/what-if/?pool={pool.slug}")


def test_the_line_at_the_foot_of_a_quote_says_what_the_quote_says() -> None:
    """A job that waits for the next slot is not refused, and what the next slot costs is no price of the job."""
    pool, _, renter = make_elastic(credits=7)
    client = client_as("owner", renter)

    def quote(**spec: Any) -> str:
        text = json.dumps({"name": "train", "spec": SPEC | {"minibatches": 6} | spec})
        fields = {"pool": pool.slug, "key": "k", "source": "text", "text": text, "wanted": "batch"}
        page = client.post("/t/renter/submit/quote/", fields, secure=True).content.decode()
        assert "quote-line" in page
        return text_of(page)

    runs = quote()
    assert "Would run in the next slot, for 3.00 credits. A slot costs 3.00 credits at its largest size" in runs
    assert "Next slot: 3.00" in runs
    waits = quote(max_price=1.0, min_workers=4)
    assert waits.count("Would wait for now") == 3
    assert not [untrue for untrue in ("efused", "Batch:") if untrue in runs + waits]


def test_the_page_of_an_interval_says_what_was_paid_for_its_slot() -> None:
    """It deals out one slot without a window; the page said that none was decided, and that nothing was paid."""
    pool, owner, renter = make_elastic()
    make_elastic_job(pool, renter, slots=4)
    for slot in range(3):
        advance(pool, slot)
    pages = {}
    for tenant in (owner, renter):
        client = client_of(make_member(tenant, "owner").user)
        for path in ("", f"{pool.slug}/2/"):
            page = text_of(client.get(f"/t/{tenant.slug}/intervals/{path}", secure=True).content.decode())
            pages[tenant.slug, path] = page[page.rindex("Go on") : page.index("How it works")]
    assert "place in the slots from 2 Mar, 12:00:10 to 2 Mar, 12:00:20" in pages["renter", "main/2/"]
    assert "1 of 1 slots paid, all tenants Payments in, 1 3.00" in pages["renter", "main/2/"]
    assert "Your cells earned 0.50" in pages["owner", "main/2/"]
    assert "2 2 Mar, 12:00:10 2 Mar, 12:00:10 – 2 Mar, 12:00:20 1 1 3.00" in pages["owner", ""]
    for untrue in ("No slot was decided", "nothing was paid", "Prices posted", "Worth here", "Nothing."):
        assert untrue not in pages["owner", "main/2/"] + pages["renter", "main/2/"]

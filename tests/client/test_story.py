"""The main story against the real server: a program and a person do with the client what the pages can do, and
whatever is lost on the way, there is one job, one hold and one charge."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from bourse_client import Client
from bourse_client.transport import Pace
from scheduling.app.clock import pool_advance
from scheduling.models import Award, Pool, TrainingJob
from tenants.models import Tenant
from tenants.roles import BILLING, OWNER, SUBMITTER
from tenants.scoping import scope_disabled
from tests.api.builders import program_of
from tests.client.conftest import Bourse
from tests.client.proxy import CUT_REPLY, LOSE_REPLY, LOSE_REQUEST, Proxy, proxy_before
from tests.database import overwrite
from tests.patience import PATIENCE
from tests.scheduling.builders import make_server
from tests.scheduling.live import SPEC, book_is_sound, fund, make_live_pool, money
from tests.tenants.builders import make_tenant

pytestmark = pytest.mark.django_db(transaction=True)
MICRO = 1_000_000
EVERY_LOSS = [LOSE_REPLY, CUT_REPLY, LOSE_REQUEST, LOSE_REPLY]


@dataclass
class Market:
    pool: Pool
    tenant: Tenant
    secret: str

    def pass_slots(self, count: int) -> None:
        """The market's clock, driven by whoever waits."""
        self.pool.epoch_at -= timedelta(seconds=count * self.pool.slot_seconds)
        overwrite(self.pool)
        pool_advance(pool_id=self.pool.pk, at=timezone.now())

    def jobs_and_awards(self) -> tuple[int, int]:
        with scope_disabled("the test counts everything"):
            return TrainingJob.objects.count(), Award.objects.count()


@pytest.fixture
def market(web: str) -> Market:
    """A pool that opened just now, one server of the operator, and a tenant with 1,000 credits."""
    pool = make_live_pool(epoch_at=timezone.now())
    make_server(pool, worker=8, ps=2)
    tenant = make_tenant("lumen", "Lumen")
    fund(tenant)
    return Market(pool, tenant, program_of(OWNER, tenant).secret)


@pytest.fixture
def lossy(web: str) -> Iterator[Proxy]:
    with proxy_before(web) as proxy:
        yield proxy


@pytest.fixture
def caller(lossy: Proxy, market: Market) -> Iterator[Client]:
    quick = Pace(timeout=PATIENCE, sleep=lambda _: None)
    with Client(lossy.address, market.secret, tenant="lumen", pace=quick) as client:
        yield client


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    file = tmp_path / "nightly.json"
    file.write_text(json.dumps({"lane": "instant", "spec": SPEC}))
    return file


def micro(text: str) -> int:
    whole, _, digits = text.partition(".")
    return int(whole) * MICRO + int(digits)


def test_lost_replies_make_one_job_one_hold_and_one_charge(lossy: Proxy, market: Market, caller: Client) -> None:
    lossy.plan = list(EVERY_LOSS)
    job = caller.job_submit(SPEC, pool="main", name="nightly", lane="instant")
    assert lossy.seen == [201, 201, 201, 201]  # heard four times; one request never arrived
    assert lossy.plan == []
    assert market.jobs_and_awards() == (1, 1)
    price = micro(job["price"] or "")
    assert price > 0
    assert money(market.tenant) == (1_000 * MICRO - price, price, 0)
    market.pass_slots(4)
    assert caller.job(job["id"])["state"] == "finished"
    assert money(market.tenant) == (1_000 * MICRO - price, 0, 0)
    assert book_is_sound()


def test_lost_replies_of_a_cancellation_give_back_once(lossy: Proxy, market: Market, caller: Client) -> None:
    job = caller.job_submit(SPEC, pool="main", name="nightly", lane="instant")
    lossy.plan = list(EVERY_LOSS)
    assert caller.job_cancel(job["id"])["state"] == "cancelled"
    available, held, _ = money(market.tenant)
    assert held == 0
    lossy.plan = list(EVERY_LOSS)
    assert [outcome["cancelled"] for outcome in caller.jobs_cancel([job["id"]])] == [True]
    assert money(market.tenant)[0] == available
    assert book_is_sound()


def test_each_attempt_with_a_key_of_its_own_would_make_many_jobs(lossy: Proxy, market: Market, caller: Client) -> None:
    """What the test above would see if the key did not stay the same."""
    lossy.plan = [LOSE_REPLY]
    for key in ("one", "two"):
        caller.job_submit(SPEC, pool="main", name="nightly", lane="instant", key=key)
    assert market.jobs_and_awards() == (2, 2)
    caller.job_submit(SPEC, pool="main", name="nightly", lane="instant", key="two")
    assert market.jobs_and_awards() == (2, 2)


def test_command_sent_again_with_the_key_it_named_makes_one_job(
    bourse: Bourse, lossy: Proxy, market: Market, job_file: Path
) -> None:
    settings = {"url": lossy.address, "token": market.secret, "tenant": "lumen"}
    words = ("jobs", "submit", job_file, "--pool", "main", "--patience", "0.05")
    lossy.plan = [LOSE_REPLY] * 6
    lost = bourse(*words, **settings)
    assert lost.status == 3
    key = lost.err.rsplit("--key ", 1)[1].strip()
    lossy.plan = []
    again = bourse(*words[:-1], "20", "--key", key, **settings)
    assert again.status == 0, again.err
    assert market.jobs_and_awards() == (1, 1)


def test_any_call_of_the_interface_is_made_and_servers_and_shares_are_shown(
    bourse: Bourse, web: str, market: Market
) -> None:
    settings = {"url": web, "token": market.secret, "tenant": "lumen"}
    (server,) = json.loads(bourse("api", "GET", "/pools/{pool}/servers/", "--all", **settings).out)
    (line, _) = bourse("servers", **settings).out.splitlines()[1:]
    assert (line.split()[0], line.split()[-3:]) == (server["name"], ["the", "operator", "8"])
    fields = [
        word for field in ("rent=never", "lend=keep", 'reserve_price={"worker": "0.05"}') for word in ("-F", field)
    ]
    changed = bourse("api", "PUT", "/tenants/{tenant}/pools/main/sharing/", *fields, **settings)
    assert changed.status == 0, changed.err
    shared = bourse("share", **settings)
    assert shared.out.splitlines()[-3:-1] == ["rents  never", "lends  nothing"], shared.err
    csv_file = bourse("api", "GET", "/tenants/{tenant}/jobs/", "-F", "format=csv", **settings)
    assert csv_file.out.startswith("id,name,"), csv_file.err
    missing = bourse("api", "GET", "/nothing/", **settings)
    assert (missing.status, missing.out) == (1, "")


def test_a_person_logs_in_submits_waits_and_looks_at_what_it_cost(
    bourse: Bourse, web: str, market: Market, job_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Pace(timeout=PATIENCE, sleep=lambda _: market.pass_slots(1))
    monkeypatch.setattr("bourse_client.command.session.Session.pace", waiting)
    assert bourse("login", "--url", web, stdin=market.secret).status == 0
    assert bourse("tenants").out.splitlines()[1].split() == ["lumen", "Lumen", "owner"]

    quoted = json.loads(bourse("quote", job_file, "--pool", "main", "--json").out)
    submitted = bourse("jobs", "submit", job_file, "--pool", "main", "--wait", "--json")
    assert submitted.status == 0, submitted.err
    job = json.loads(submitted.out)
    assert (job["state"], job["price"]) == ("finished", quoted["terms"]["price"])
    assert job["name"] == "nightly"

    assert f"{job['id']}  nightly  instant  finished" in bourse("jobs", "list").out
    assert f"Job {job['id']} is finished." in bourse("explain", job["id"]).out
    text = bourse("jobs", "show", job["id"]).out
    assert "finished" in text
    words = [line.split()[0] for line in text.splitlines()]
    assert ("ended" in words, "ends" in words) == (True, False)  # its units were reserved for longer
    late = bourse("jobs", "cancel", job["id"])
    assert (late.status, "already_over" in late.err) == (1, True)

    price = Decimal(job["price"])
    assert Decimal(json.loads(bourse("balance", "--json").out)["total"]) == 1_000 - price
    assert bourse("balance").out.splitlines()[1].split() == ["available", f"{1_000 - price:,.2f}"]


def test_a_person_is_told_what_a_cancellation_costs_and_pays_no_more(
    bourse: Bourse, web: str, market: Market, job_file: Path
) -> None:
    market.pool.cancellation_keep_percent = 10
    overwrite(market.pool)
    settings = {"url": web, "token": market.secret}
    job = json.loads(bourse("jobs", "submit", job_file, "--pool", "main", "--json", **settings).out)
    left = bourse("jobs", "cancel", job["id"], typed="n\n", **settings)
    assert (left.status, left.err.endswith("Cancel it? [y/N] Left as it is.\n")) == (1, True)
    price = micro(job["price"])
    assert money(market.tenant)[1] == price
    # It may begin meanwhile, and then costs more.
    done = bourse("jobs", "cancel", job["id"], "--json", typed="y\ny\n", **settings)
    assert (done.status, json.loads(done.out)["state"]) == (0, "cancelled")
    assert 1_000 * MICRO - price <= money(market.tenant)[0] < 1_000 * MICRO


def test_statement_of_a_month_as_a_table_and_as_csv(bourse: Bourse, web: str, market: Market, job_file: Path) -> None:
    settings = {"url": web, "token": market.secret}
    job = json.loads(bourse("jobs", "submit", job_file, "--pool", "main", "--json", **settings).out)
    market.pass_slots(4)
    month = f"{timezone.now():%Y-%m}"
    document = json.loads(bourse("statement", "--month", month, "--json", **settings).out)
    assert (document["spent"], document["difference"]) == (job["price"], "0.000000")
    table = bourse("statement", "--month", month, **settings)
    assert table.out.startswith(f"Statement of lumen, {month} (UTC), in credits\n")
    with Client(web, market.secret) as client:
        lines = list(csv.DictReader(client.statement_csv(month).splitlines()))
        entries = list(client.entries(kind=["settle"]))
    assert [line["amount"] for line in lines if line["part"] == "spent"] == [job["price"]]
    assert bourse("statement", "--month", month, "--csv", **settings).out.count("\n") == len(lines) + 1
    assert [entry["job"] for entry in entries] == [job["id"]]


def test_events_are_listed_and_followed_from_where_somebody_stopped(bourse: Bourse, web: str, market: Market) -> None:
    settings = {"url": web, "token": market.secret}
    with Client(web, market.secret) as client:
        for number in range(2):
            client.job_submit(SPEC, pool="main", name=f"job {number}", lane="instant")
        events = list(client.events())
        followed = list(islice(client.events_followed(after=0), len(events)))
        later = list(islice(client.events_followed(after=events[0]["id"]), len(events) - 1))
    assert followed == events
    assert later == events[1:]
    awarded = [event for event in events if event["kind"] == "job_awarded"]
    assert len(awarded) == 2
    newest = json.loads(bourse("events", "--limit", "1", "--json", **settings).out)
    assert newest == events[-1:]
    assert "job_awarded" in bourse("events", "--after", str(events[0]["id"] - 1), **settings).out


def test_prices_of_the_pool_now_and_ahead(bourse: Bourse, web: str, market: Market) -> None:
    settings = {"url": web, "token": market.secret}
    market.pass_slots(1)
    document = json.loads(bourse("prices", "--json", **settings).out)
    assert document["pool"] == "main"
    lines = {(line["lane"], line["resource"]) for line in document["now"]}
    assert {("instant", "worker"), ("instant", "ps")} <= lines
    table = bourse("prices", **settings)
    assert table.status == 0, table.err
    assert table.out.startswith("Pool main, slot ")
    missing = bourse("prices", "--pool", "nowhere", **settings)
    assert (missing.status, "not_found" in missing.err) == (1, True)


def test_job_that_cannot_win_ends_the_wait_with_its_reason(
    bourse: Bourse, web: str, market: Market, job_file: Path
) -> None:
    words = ("jobs", "submit", job_file, "--pool", "main", "--max-price", "0.000001", "--wait")
    ended = bourse(*words, url=web, token=market.secret)
    assert ended.status == 1
    assert "is rejected" in ended.err


@pytest.mark.parametrize(
    ("words", "role", "status", "code"),
    [
        (("jobs", "show", "999999"), SUBMITTER, 1, "not_found"),
        (("jobs", "list"), BILLING, 4, "not_allowed"),
        (("jobs", "list", "--tenant", "quarry"), SUBMITTER, 1, "not_found"),
    ],
)
def test_refusals_of_the_real_server_have_their_exit_status(
    bourse: Bourse, web: str, market: Market, words: tuple[str, ...], role: str, status: int, code: str
) -> None:
    ended = bourse(*words, url=web, token=program_of(role, market.tenant).secret)
    assert (ended.status, f"code {code}" in ended.err) == (status, True), ended


def test_file_that_the_market_refuses_names_the_field(bourse: Bourse, web: str, market: Market, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    wrong: dict[str, Any] = SPEC | {"chunks": 0}
    file.write_text(json.dumps(wrong))
    ended = bourse("jobs", "submit", file, "--pool", "main", url=web, token=market.secret)
    assert ended.status == 1
    assert "chunks:" in ended.err
    assert "code invalid_job" in ended.err

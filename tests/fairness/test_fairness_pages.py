"""The pages of fairness: who may see what of whom, and that their numbers are those that were worked out."""

from __future__ import annotations

import copy
import csv
import io
import json
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from scheduling.books.read_charge_account import charge_account
from scheduling.core.metrics.certificates import Certificate
from scheduling.core.types import View
from scheduling.fairness import read_accounts, read_interval
from scheduling.fairness.api.fields import CertificateShown, InIntervalShown
from scheduling.fairness.pages import tables
from scheduling.fairness.read_accounts import CertificateRow, RentPayment, TenantAccount
from scheduling.fairness.read_days import fairness_overview
from scheduling.fairness.read_interval import interval_account
from scheduling.market.reads import contents_of
from scheduling.market.reads.stored_intervals import packed
from scheduling.models import Interval, IntervalFairness, TenantFairness, TrainingJob
from tenants.common.zones import day_of
from tenants.ledger.amounts import MICRO, exported, micro
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope_disabled
from tests.database import without_triggers
from tests.fairness.fair_world import Fair, make_fair
from tests.scheduling.pages import client_as, client_of, text_of
from tests.tenants.builders import make_member
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

built = built_once(make_fair)


@pytest.fixture
def fair(built: Fair) -> Fair:
    return copy.deepcopy(built)


def pages(fair: Fair, number: int) -> list[str]:
    slug = fair.pool.slug
    inner = [f"/fairness/pools/{slug}/intervals/", f"/fairness/pools/{slug}/intervals/{number}/"]
    return ["/fairness/", *inner, f"/fairness/pools/{slug}/alerts/", "/fairness/audits/"]


def renting_number() -> int:
    return IntervalFairness.objects.filter(renters__gt=0).order_by("number").values_list("number", flat=True)[0]


def lead(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return text_of(answer.content.decode())


def test_pages_over_all_tenants_are_for_the_staff_and_only_operators_set_limits(fair: Fair) -> None:
    number = renting_number()
    clients = {role: client_as(role, None) for role in (AUDITOR, OPERATOR)}
    for client in clients.values():
        assert [client.get(path).status_code for path in pages(fair, number)] == [200] * 5
    for role in (OWNER, BILLING, SUBMITTER, VIEWER):
        client = client_as(role, fair.tenants["lumen"])
        assert [client.get(path).status_code for path in pages(fair, number)] == [403] * 5
        assert client.post("/fairness/audits/start/", {"kind": "everything"}).status_code == 403
    there, limits = f"/fairness/pools/{fair.pool.slug}/alerts/", {"jain_index": "0.9", "reason": "The audit asks."}
    assert clients[AUDITOR].post(there, limits).status_code == 403
    operator = clients[OPERATOR]
    assert operator.post(there, limits).status_code == 302
    assert "at least 0.900" in lead(operator, there)


def test_overview_says_what_was_worked_out(fair: Fair) -> None:
    today = day_of(timezone.now(), UTC)
    overview = fairness_overview(fair.pool, first=today - timedelta(days=6), last=today)
    text = lead(client_as(AUDITOR, None), "/fairness/?days=7")
    assert f"0 of {overview.certificates}" in text
    assert overview.certificates > 5
    assert all(tenant.name in text for tenant in fair.tenants.values())
    assert overview.sum_of("gain") == pytest.approx(overview.revenue)
    assert sum(one.part_of_gains or 0.0 for one in overview.tenants) == pytest.approx(1.0)
    assert sum(one.part_of_cells or 0.0 for one in overview.tenants) == pytest.approx(1.0)
    pelican = overview.tenant(fair.tenants["pelican"].pk)
    assert pelican is not None
    assert (pelican.offered_units, pelican.earned, pelican.reward) == (0, 0, None)
    assert pelican.kept_units > 0 < pelican.forgone
    assert overview.worst_off is not None
    assert f"Worst off owner {overview.worst_off.name}" in text


def test_tables_of_the_overview_sort_and_export_by_themselves(fair: Fair) -> None:
    client = client_as(AUDITOR, None)
    up = client.get("/fairness/?days=7&table=ratios&sort=name").content.decode()
    rows = up[up.index('id="ratios"') : up.index('id="rewards"')]
    names = ["Castor Vision", "Lumen Lab", "Orrin Speech", "Pelican Bio", "Tarn Climate"]
    assert sorted(names, key=rows.index) == names
    assert 'aria-sort="descending"' in up[up.index('id="rewards"') :]  # the other table stands as it stood
    exported = client.get("/fairness/?days=7&table=rewards&format=csv")
    lines = list(csv.reader(io.StringIO(exported.getvalue().decode())))
    assert lines[0][:3] == ["Owner", "Idle offered", "Sold"]
    assert sorted(line[0] for line in lines[1:]) == names


def test_tenant_sees_its_own_numbers_and_of_others_neither_name_nor_figure(fair: Fair) -> None:
    lumen, others = fair.tenants["lumen"], ("Orrin Speech", "Castor Vision", "Pelican Bio", "Tarn Climate")
    number = renting_number()
    there = [f"/t/lumen/fairness/?pool={fair.pool.slug}", f"/t/lumen/fairness/{fair.pool.slug}/intervals/{number}/"]
    for role in (OWNER, BILLING, SUBMITTER, VIEWER):
        client = client_as(role, lumen)
        for path in there:
            html = client.get(path).content.decode()
            assert not [name for name in others if name in html], (role, path)
            assert ("Your gain, added up" in html and "received for your cells" in html) <= (role in (OWNER, BILLING))
        page = client.get(there[0]).content.decode()
        assert page.count('class="dot mine"') == 1
        assert 'class="dot"' not in page
    stranger = client_of(make_member(fair.tenants["orrin"], OWNER).user)
    assert stranger.get(there[0]).status_code == 404


def test_a_gain_and_a_certificate_are_the_sums_of_what_stands_beside_them_wherever_they_stand() -> None:
    """Each part is rounded by itself, and so is the whole: a reader who added them up was off by a micro-credit."""
    row = TenantFairness(own_value=4e-7, rented_value=4e-7, paid=0.0, received=0.0, gain=8e-7)
    account = TenantAccount("Lumen Lab", "lumen", row, revenue=1.0)
    gain = next(column for column in tables.IN_INTERVAL.columns if column.name == "gain")
    assert (gain.of(account), InIntervalShown().fields["gain"].source) == ("0.000000", "gain_shown")
    job = CertificateRow(13, 1, "Lumen Lab", "lumen", True, 4.8, 1.5e-6, 0.6e-6, 0.9e-6, 0.4e-6, "")
    assert (job.got_shown, job.margin_shown) == (micro(1.5e-6) - micro(0.6e-6), job.got_shown - micro(0.4e-6))
    assert CertificateShown(job).data["got"] == exported(job.got_shown)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_payment_is_the_sum_of_its_parts_as_they_are_shown(sign: int) -> None:
    third = sign * 1.0 / 3.0
    parts = (("Lumen Lab", third), ("Castor Vision", third), ("Operator", third))
    payment = RentPayment(7, 1, "Orrin Speech", 21, 28, 1.0000005, sign * 1.0, parts)
    assert sum(amount for _, amount in payment.parts_shown) == micro(payment.paid) == sign * MICRO
    assert micro(payment.cost) - payment.own_part_shown == micro(payment.paid)
    wrong = replace(payment, paid=sign * 2.0)  # what does not add up is not made to
    assert sum(amount for _, amount in wrong.parts_shown) == sign * MICRO
    assert replace(payment, paid=0.0, parts=(("Operator", 0.0),)).parts_shown == (("Operator", 0),)


def test_interval_can_be_recomputed_by_hand(fair: Fair) -> None:
    number = renting_number()
    account = interval_account(fair.pool, number)
    assert account is not None
    assert account.out_of_sum == pytest.approx(0.0, abs=1e-9)
    assert account.payments
    assert all(row.difference == pytest.approx(0.0, abs=1e-9) for row in account.payments)
    assert account.fairness is not None
    assert len(account.jobs) == account.fairness.certificates
    for row in account.jobs:
        assert row.got == pytest.approx(row.value - row.paid)
        assert row.alone is not None
        assert row.got >= row.alone - 1e-9
    client = client_as(AUDITOR, None)
    path = f"/fairness/pools/{fair.pool.slug}/intervals/{number}/"
    assert f"All {account.fairness.certificates} certificate" in lead(client, path)
    none = IntervalFairness.objects.filter(certificates=0).first()
    assert none is not None
    assert "No certificate was settled in it; all jobs" in lead(client, path.replace(f"/{number}/", f"/{none.number}/"))
    assert {job["number"] for job in json.loads(client.get(f"{path}?file=view").content)["jobs"]} >= {
        row.job for row in account.jobs
    }
    assert client.get(f"{path}?file=../secret").status_code == 404
    assert client.get(f"/fairness/pools/{fair.pool.slug}/intervals/99999/").status_code == 404


def test_what_a_tenant_sees_is_its_part_of_what_all_have(fair: Fair) -> None:
    count = 0
    for number in IntervalFairness.objects.values_list("number", flat=True):
        whole = interval_account(fair.pool, number)
        assert whole is not None
        assert [not row.broken for row in whole.jobs] == sorted(not row.broken for row in whole.jobs)
        for tenant in fair.tenants.values():
            own = interval_account(fair.pool, number, tenant=tenant)
            assert own is not None
            assert list(own.jobs) == [row for row in whole.jobs if row.tenant_id == tenant.pk]
            assert [one.row for one in own.tenants] == [one.row for one in whole.tenants if one.slug == tenant.slug]
            rents = [row for row in whole.payments if row.tenant_id == tenant.pk]
            assert [row.job for row in own.payments] == [row.job for row in rents]
            for row, rent in zip(own.payments, rents, strict=True):
                assert {name for name, _ in row.parts} <= {tenant.name, "Operator", "Other owners"}
                assert sum(amount for _, amount in row.parts) == pytest.approx(sum(part for _, part in rent.parts))
            count += len(own.jobs) + len(own.payments)
    assert count > 10


def test_page_of_an_interval_makes_the_rows_that_it_shows_alone(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = list[int]()

    def counted(view: View, row: Certificate, *rest: Any) -> CertificateRow:
        numbers.append(row.job)
        return whole(view, row, *rest)

    whole = read_interval._job
    monkeypatch.setattr(read_interval, "_job", counted)
    monkeypatch.setattr(read_accounts, "MOST_SHOWN", 1)
    busiest = IntervalFairness.objects.order_by("-certificates")[0].number
    account = interval_account(fair.pool, busiest)
    assert account is not None
    assert (len(account.jobs) > 1, numbers) == (True, [])
    assert [row.job for row in account.jobs_shown] == numbers
    assert len(numbers) == 1
    assert [row.job for row in account.jobs][:1] == numbers[:1]
    assert len(numbers) == 1 + len(account.jobs)


def test_interval_of_which_somebody_broke_the_rows_of_jobs_is_told_as_unreadable(fair: Fair) -> None:
    interval = Interval.objects.get(pool=fair.pool, number=renting_number())
    contents = contents_of(interval)
    assert b',"tenant":' in contents.view
    interval.base, interval.plan = None, packed(contents.plan)
    for view, readable in ((contents.view, True), (contents.view.replace(b',"tenant":', b',"tenent":'), False)):
        interval.view = packed(view)
        with without_triggers():
            interval.save()
        account = interval_account(fair.pool, interval.number)
        assert account is not None
        assert (account.readable, bool(account.jobs)) == (readable, readable)
    path = f"/fairness/pools/{fair.pool.slug}/intervals/{interval.number}/"
    assert "The stored bytes cannot be read." in lead(client_as(AUDITOR, None), path)


def test_charge_is_units_times_posted_prices_less_the_own_part(fair: Fair) -> None:
    with scope_disabled("the test looks at every charge"):
        accounts = [account for job in TrainingJob.objects.select_related("pool") for account in charge_account(job)]
    rented = [account for account in accounts if account.award.paid]
    assert len(rented) > 3
    for account in rented:
        assert account.has_factors
        assert account.difference == 0
        assert sum(slot.gross for slot in account.slots) == pytest.approx(account.cost)
        assert sum(amount for _, amount in account.by_owner) == account.award.paid
    assert all(account.slots == () for account in accounts if not account.award.paid)


@pytest.mark.usefixtures("nothing_built")
def test_own_tenant_verifies_its_charge_on_the_jobs_page() -> None:
    fair = make_fair(16)
    tarn = fair.tenants["tarn"]
    path = f"/t/tarn/jobs/{fair.jobs[0].pk}/charge/"
    client = client_as(OWNER, tarn)
    assert "Verify this charge" in client.get(f"/t/tarn/jobs/{fair.jobs[0].pk}/").content.decode()
    assert "difference to what was paid: 0.00 0000" in lead(client, path)
    assert "Verified." in text_of(client.post(path).content.decode())
    assert client_as(VIEWER, tarn).get(path).status_code == 403
    stranger = client_of(make_member(fair.tenants["lumen"], OWNER).user)
    assert stranger.get(path).status_code == 404


@pytest.mark.usefixtures("nothing_built")
def test_intervals_are_found_by_what_is_looked_for() -> None:
    fair = make_fair(mode="paper", worker=2, ps=1)
    client = client_as(AUDITOR, None)
    rows = {row.number: row for row in IntervalFairness.objects.all()}
    wanted = {
        "one-bidder": [number for number, row in rows.items() if row.renters == 1],
        "blocked": [number for number, row in rows.items() if row.waiting_for and any(row.unsold.values())],
        "broken": [number for number, row in rows.items() if row.broken_count],
        "unsold": [number for number, row in rows.items() if any(row.unsold.values())],
    }
    for what, numbers in wanted.items():
        path = f"/fairness/pools/{fair.pool.slug}/intervals/?what={what}&days=7&format=csv"
        lines = list(csv.reader(io.StringIO(client.get(path).getvalue().decode())))
        assert sorted(int(line[0]) for line in lines[1:]) == sorted(numbers), what
    assert all(wanted[what] for what in ("one-bidder", "unsold"))


def test_less_than_nothing_never_stayed_unsold() -> None:
    fairness = IntervalFairness(unsold={"worker": -25.0, "ps": 2.0})
    assert fairness.left_unsold == {"worker": 0.0, "ps": 2.0}


def test_a_guest_is_told_that_it_has_no_cells_to_compare_or_to_lend(fair: Fair) -> None:
    pool = fair.pool.name
    sentences = {
        "fairness": f"You had no cells in {pool} in these days: your gain is not held against a part of them.",
        "share": f"You own no units in {pool}, so nobody rents any from you.",
    }
    clients = {slug: client_as(role, fair.tenants[slug]) for slug, role in (("tarn", OWNER), ("lumen", BILLING))}
    for page, sentence in sentences.items():
        guests = [slug for slug, client in clients.items() if sentence in lead(client, f"/t/{slug}/{page}/")]
        assert guests == ["tarn"], page


def test_where_nothing_came_before_the_days_that_is_said_in_words(fair: Fair) -> None:
    page = lead(client_as(AUDITOR, None), "/fairness/")
    assert "none in as many days before" in page
    assert "none before; deviation over mean" in page

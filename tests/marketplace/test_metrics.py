"""`/metrics`: who may read it, and that its figures are those of the market."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from marketplace.upkeep.metrics import Gauge, figures_text, measured
from scheduling.models import Lane, PriceTick, ResourceKind
from scheduling.money.credits import earned_collect
from scheduling.operator.read_gauges import MEANING, gauges
from tenants.roles import AUDITOR, OPERATOR, OWNER
from tests.api.builders import problem, program_of
from tests.ledger.builders import tamper
from tests.scheduling.live import make_award, moment, publish, settle
from tests.scheduling.markets import make_renting, make_waiting, run_slots
from tests.tenants.builders import client_of, make_member, make_staff

pytestmark = pytest.mark.django_db

NAMES = {*MEANING, "task_queue_length"}
MEASURED = ("use_case_seconds", "step_seconds", "request_seconds")  # by the processes that serve


def figures(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name.removeprefix("bourse_"): float(value) for name, _, value in lines}


@pytest.fixture
def market() -> Any:
    """Two servers of one owner. Another tenant rents half of the first one now; one of its jobs waits."""
    pool, owner, renter = make_renting(epoch_at=timezone.now())
    server = pool.servers.first()
    make_award(
        pool, renter, slots=60, charges=[[(owner, 3_000_000)]] * 60, allocation=[[server.pk, 0, 60, 2, 1]],
        worker_type=0,
    )  # fmt: skip
    publish(pool, frontier=60)
    make_waiting(pool, renter)
    PriceTick.objects.create(
        pool=pool, lane=Lane.BATCH, resource=ResourceKind.objects.get(name="worker"), slot=0, price=0.25, offered=4.0
    )
    return pool, owner, renter


def test_operators_program_reads_the_figures_of_the_market(market: Any) -> None:
    _, _, renter = market
    reply = program_of(OPERATOR, renter).get("/metrics", Accept="application/openmetrics-text;version=1.0.0,*/*;q=0.1")
    assert reply.status_code == 200
    assert reply["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    values = figures(reply.content.decode())
    of = '{{pool="main",resource="{1}",tenant="{0}"}}'.format
    assert values["nominal_quota_units" + of("owner", "worker")] == 8
    assert values["lent_units" + of("owner", "worker")] == 2
    assert values["borrowed_units" + of("renter", "worker")] == 2
    assert values["nominal_quota_units" + of("renter", "worker")] == 0
    assert values['pending_jobs{pool="main",tenant="renter"}'] == 1
    assert values['posted_price_credits{lane="batch",pool="main",resource="worker"}'] == 0.25
    assert math.isnan(values['posted_price_credits{lane="instant",pool="main",resource="worker"}'])
    assert values['payment_imbalance_credits{pool="main"}'] == 0
    assert values["ledger_imbalance_credits"] == 0
    assert values["task_queue_length"] >= 0
    names = {name.partition("{")[0] for name in values}
    assert {name for name in names if not name.startswith(MEASURED)} <= NAMES


def test_figure_that_must_be_nothing_tells_of_a_broken_book(market: Any) -> None:
    _, owner, renter = market
    tamper("UPDATE ledger_balance SET amount = amount + 1500000 WHERE account_id = %s", [8 * owner.pk])
    values = figures(program_of(OPERATOR, renter).get("/metrics").content.decode())
    assert values["ledger_imbalance_credits"] == 1.5


def test_what_was_earned_is_divided_by_the_units_lent() -> None:
    pool, owner, renter = make_renting()
    make_award(pool, renter, charges=[[(owner, 24_000_000)], [(owner, 1)]])
    settle(pool, 0)
    values = {(gauge.name, gauge.labels.get("tenant")): gauge.value for gauge in gauges(moment(1))}
    assert values["reward_per_contributed_unit_credits", "owner"] == 24 / (8 + 4)
    assert values["reward_jain_index", None] == 1
    assert earned_collect(at=moment(2)) == 24_000_000
    again = {(gauge.name, gauge.labels.get("tenant")): gauge.value for gauge in gauges(moment(3))}
    assert again["reward_per_contributed_unit_credits", "owner"] == 24 / (8 + 4), "what was made spendable was earned"


def test_nobody_but_the_staff_reads_it(market: Any) -> None:
    _, _, renter = market
    problem(Client().get("/metrics"), 401, "not_authenticated")
    problem(program_of(OWNER, renter).get("/metrics"), 403, "not_allowed")
    problem(client_of(make_member(renter, OWNER).user).get("/metrics"), 403, "not_allowed")
    problem(program_of(OPERATOR, renter, ["cluster:write"]).get("/metrics"), 403, "scope_missing")
    assert client_of(make_staff(AUDITOR).user).get("/metrics").status_code == 200


def test_prometheus_on_the_same_machine_asks_a_web_process_without_the_proxy(market: Any, settings: Any) -> None:
    _, _, renter = market
    settings.SECURE_SSL_REDIRECT = True
    assert program_of(OPERATOR, renter).get("/metrics").status_code == 200
    assert Client().get("/").status_code == 301


def test_second_question_within_five_seconds_costs_the_market_nothing(market: Any) -> None:
    _, _, renter = market
    caller = program_of(OPERATOR, renter)
    cache.clear()
    with CaptureQueriesContext(connection) as first:
        text = caller.get("/metrics").content
    with CaptureQueriesContext(connection) as second:
        assert caller.get("/metrics").content == text
    assert len(first) <= 30
    assert not any("scheduling_" in query["sql"] or "ledger_" in query["sql"] for query in second)


def test_text_is_as_prometheus_reads_it() -> None:
    lines = figures_text(
        [Gauge("capacity_units", 12.0, {"pool": "main"}), Gauge("capacity_units", 0.5, {"pool": "b"})]
    ).splitlines()
    assert lines == [
        "# HELP bourse_capacity_units Units of all servers of the pool.",
        "# TYPE bourse_capacity_units gauge",
        'bourse_capacity_units{pool="main"} 12.0',
        'bourse_capacity_units{pool="b"} 0.5',
    ]


def test_intervals_settlements_and_requests_are_measured() -> None:
    pool, _, renter = make_renting()
    make_waiting(pool, renter)
    caller = program_of(OPERATOR, renter)

    def counted() -> dict[str, float]:
        cache.clear()
        return figures(caller.get("/metrics").content.decode())

    before = counted()
    assert [run_slots(pool, slot, slot) for slot in (0, 1)][1], "an interval closed"
    settle(pool, 0)
    caller.get("/no-such-page")
    after = counted()
    for name in (
        'use_case_seconds_count{use_case="interval"}',
        'step_seconds_count{step="decide",use_case="interval"}',
        'use_case_seconds_count{use_case="settlement"}',
        'step_seconds_count{step="pay",use_case="settlement"}',
        'request_seconds_count{method="GET",route="metrics",status="2xx"}',
        'request_seconds_count{method="GET",route="none",status="4xx"}',
    ):
        assert after[name] > before.get(name, 0.0), name


@pytest.mark.wide
def test_what_several_processes_measure_is_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measures = (
        "import django; django.setup(); from scheduling.common.measured import REQUEST_SECONDS as took;"
        "took.labels('jobs', 'GET', '2xx').observe(0.2)"
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", measures], env=environment, check=True)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    values = figures(measured())
    assert values['request_seconds_count{method="GET",route="jobs",status="2xx"}'] == 2
    assert values['request_seconds_sum{method="GET",route="jobs",status="2xx"}'] == pytest.approx(0.4)

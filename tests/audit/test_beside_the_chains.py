"""Rows that stand where no walk along a chain comes by are named: before the first link, or under a link that is not
there."""

from __future__ import annotations

import copy
import re

import pytest

from scheduling.audit.verification import intervals_verify, settings_verify
from tenants.ledger import audit
from tenants.ledger.postings import earned
from tenants.ledger.services import settle
from tenants.scoping import scope_disabled
from tests.audit.proven import Proven, make_proven
from tests.ledger.builders import NOON, accepted, grant, tamper
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

built = built_once(make_proven)


@pytest.fixture
def world(built: Proven) -> Proven:
    return copy.deepcopy(built)


def findings(world: Proven) -> list[str]:
    pools = [world.pool.pk, world.elastic.pk]
    return [str(finding) for finding in intervals_verify(pool_ids=pools).findings]


def put(table: str, where: str, **other: str) -> None:
    """Add a copy of the first such row, in which these columns are other SQL."""
    pairs = ", ".join(f"'{name}', {value}" for name, value in other.items())
    copied = f"jsonb_populate_record(NULL::{table}, to_jsonb(r) || jsonb_build_object({pairs}))"
    tamper(
        f"INSERT INTO {table} SELECT ({copied}).* FROM {table} r"  # noqa: S608
        f" WHERE r.ctid = (SELECT ctid FROM {table} WHERE {where} ORDER BY ctid LIMIT 1)",
    )


def test_event_before_the_first(world: Proven) -> None:
    """No seal closes over it, and the course of a job is told by it."""
    put("scheduling_event", "kind = 'job_refused'", id="-7", subject="'job:77000'")
    assert findings(world) == ["event -7 (job_refused of job:77000): it stands before the first one, which is number 1"]


def test_seal_of_the_feed_before_the_first(world: Proven) -> None:
    put("scheduling_feedseal", "number = 1", number="0", last_event_id="-5")
    assert "seal 0 of the feed: it stands before the first one, which is number 1" in findings(world)


@pytest.mark.parametrize("number", [0, -3])
def test_interval_before_the_first(world: Proven, number: int) -> None:
    where = f"pool_id = {world.pool.pk} AND number = 1"
    put("scheduling_interval", where, id="77000", number=str(number), slot="-9", base_id="NULL::bigint")
    assert f"interval {number} of pool {world.pool.pk}: it stands before the first one, which is number 1" in findings(
        world
    )


@pytest.mark.parametrize("number", [0, -3])
def test_answer_before_the_first(world: Proven, number: int) -> None:
    where = f"pool_id = {world.pool.pk} AND award_id IS NULL"
    put("scheduling_instantanswer", where, id="77000", number=str(number), job_id=str(world.jobs["own"].pk))
    what = "it stands before the first one, which is number 1"
    assert f"answer {number} of pool {world.pool.pk}: {what}" in findings(world)


def test_rows_of_an_interval_that_is_not_there(world: Proven) -> None:
    """An award with its money and a floor: the walk from interval to interval comes by neither."""
    of_pool = f"pool_id = {world.pool.pk} AND lane = 'batch'"
    put("scheduling_award", f"{of_pool} AND paid = 0", id="77000", interval_id="88000", attempt="7")
    put("scheduling_jobfloor", "true", id="77000", interval_id="88000", attempt="7")
    put("scheduling_intervalfairness", of_pool.split(" AND")[0], id="77000", interval_id="88000", number="77")
    put("scheduling_tenantfairness", "true", id="77000", fairness_id="88000")
    stated = findings(world)
    assert_named(stated, world, r"award 77000 of job \d+ has no interval")
    assert_named(stated, world, r"floor 77000 of job \d+ has no interval")
    assert_named(stated, world, r"fairness 77000 has no interval")
    assert_named(stated, world, r"fairness 77000 of a tenant belongs to no interval")


def assert_named(stated: list[str], world: Proven, what: str) -> None:
    where = re.compile(rf"pool ({world.pool.pk}|{world.elastic.pk}): {what}")
    assert any(where.fullmatch(line) for line in stated), (what, stated)


def test_awards_and_jobs_with_numbers_that_no_walk_begins_with(world: Proven) -> None:
    where = f"lane = 'instant' AND pool_id = {world.pool.pk}"
    put("scheduling_award", where, id="-7", attempt="7")
    put("scheduling_trainingjob", f"pool_id = {world.pool.pk}", id="-8", client_key="'other'")
    stated = findings(world)
    assert f"award -7 of pool {world.pool.pk}: it stands before the first one, which is number 1" in stated
    assert f"job -8 of pool {world.pool.pk}: it stands before the first one, which is number 1" in stated


def test_credits_that_nobody_granted(world: Proven) -> None:
    """A transaction as the book would have written it, closed over by the next seal as if it were true."""
    with scope_disabled("an intruder works past every scope"):
        grant(world.lumen.pk, 5, key="top-up:of-nobody")
    (finding,) = map(str, settings_verify())
    assert finding.startswith("credits of lumen: what came from outside is ")


def test_payment_for_no_award(world: Proven) -> None:
    """What a tenant has set aside for its jobs goes to somebody, in a transaction as the book would have written it."""
    lumen, castor = world.lumen.pk, world.castor.pk
    with scope_disabled("an intruder works past every scope"):
        accepted(settle(key="settle:of-nobody", tenant_id=lumen, parts={earned(castor): 5}, at=NOON, subject="job:1"))
        (finding,) = map(str, audit.verify().findings)
    assert finding == "held: tenant lumen: -5 micro-credits are held for no award"

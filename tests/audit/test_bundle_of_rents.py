"""Bundles of rents that are settled later, and of jobs in pieces, agree with themselves."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduling.audit.bundle import check
from scheduling.runs.failures import award_fail
from tests.audit.test_bundle import Rows, changed, files_of, forged, make_bundle, without
from tests.market.test_pieces import pieces_market
from tests.scheduling.clocks import advance, moment
from tests.scheduling.markets import award_of, make_renting, make_waiting
from tests.scheduling.renewing import renewing

pytestmark = pytest.mark.django_db


def awards_in(bundle: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in files_of(bundle)["awards.jsonl"].splitlines()]


def test_a_rent_that_was_settled_for_less_agrees_and_no_other_refund_does(tmp_path: Path) -> None:
    world = renewing()
    advance(world.pool, 20.5)
    assert world.award.adjusted == 3_000_000
    bundle = make_bundle(world, tmp_path)
    assert check.check(str(bundle)) == []

    def less(rows: Rows) -> None:
        next(row for row in rows if row["adjusted"])["adjusted"] -= 1

    findings = check.check(str(changed(bundle, "awards.jsonl", less, in_manifest=True)))
    assert any("came back of the rents of job" in finding for finding in findings)
    assert any(f"refund:{world.award.pk}:alone is not what award" in finding for finding in findings)


def test_an_award_that_ran_before_the_period_and_is_settled_in_it_comes_along(tmp_path: Path) -> None:
    world = renewing()
    advance(world.pool, 20.5)
    assert world.award.end < 5  # its rent is closed at 12
    bundle = make_bundle(world, tmp_path, middle=True, last=14)
    assert world.award.pk in {row["id"] for row in awards_in(bundle)}
    assert check.check(str(bundle)) == []


def test_a_rent_that_is_open_pays_later_and_once_it_is_settled_no_payment_may_be_missing(tmp_path: Path) -> None:
    world = renewing()
    advance(world.pool, 20.5)
    bundle = make_bundle(world, tmp_path)
    files = files_of(bundle)
    rows = [json.loads(row) for row in files["transactions.jsonl"].splitlines()]
    arrears = [row for row in rows if row["key"].endswith(f":{world.award.pk}") and row["kind"] == "settle"]
    assert arrears
    for row in arrears:
        findings = check.check(str(forged(bundle, without(files, row))))
        assert len(findings) == 2
        assert "the feed told of payments of" in findings[0]
        assert findings[1].startswith(f"award {world.award.pk} of job {world.award.job_id}: ")
    until = make_bundle(world, tmp_path, until=10)
    assert world.award.end < 10
    rows = [json.loads(row) for row in files_of(until)["transactions.jsonl"].splitlines()]
    assert not [row for row in rows if row["kind"] == "settle" and row["key"].endswith(f":{world.award.pk}")]
    assert check.check(str(until)) == []


def test_what_a_late_clock_did_not_deliver_comes_back_after_its_slots_and_that_is_said(tmp_path: Path) -> None:
    """The award fails at a moment at which its last slot is over, and the clock is not yet there."""
    pool, _, renter = make_renting()
    job = make_waiting(pool, renter, minibatches=6)
    advance(pool, 4.5)
    award = award_of(job)
    award_fail(award_id=award.pk, slot=award.start + 1, detail="a disk", at=moment(pool, 30.5))
    make_waiting(pool, renter, arrival=award.end + 1.0)
    advance(pool, 60.5)
    bundle = make_bundle(SimpleNamespace(pool=pool), tmp_path, until=award.end + 4)
    files = files_of(bundle)
    assert json.loads(files["intervals.jsonl"].splitlines()[-1])["slot"] > award.end
    (row,) = [row for row in awards_in(bundle) if row["id"] == award.pk]
    assert row["later"] == sum(amount for slot in row["charges"][1:] for _, amount in slot) > 0
    assert check.check(str(bundle)) == []

    def unsaid(rows: Rows) -> None:
        next(row for row in rows if row["id"] == award.pk)["later"] = 0

    findings = check.check(str(changed(bundle, "awards.jsonl", unsaid, in_manifest=True)))
    assert any(f"{row['later']} is still set aside, and its slots to come cost 0" in finding for finding in findings)


def test_a_piece_and_the_rest_at_home_in_one_interval_agree_and_none_of_them_may_be_missing(tmp_path: Path) -> None:
    world = pieces_market()
    job = world.job_of_two_awards()
    advance(world.pool, 30.5)
    assert len({award.interval_id for award in world.awards(job)}) == 1
    bundle = make_bundle(world, tmp_path)
    assert check.check(str(bundle)) == []

    def last_goes(rows: Rows) -> None:
        rows.remove([row for row in rows if row["job"] == job.pk][-1])

    findings = check.check(str(changed(bundle, "awards.jsonl", last_goes, in_manifest=True)))
    assert any(f"the award of job {job.pk} is missing" in finding for finding in findings)

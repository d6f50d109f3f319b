"""Bundles of rents that are settled later, and of jobs in pieces, agree with themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduling.audit.bundle import check
from tests.audit.test_bundle import Rows, changed, files_of, make_bundle
from tests.market.test_pieces import pieces_market
from tests.scheduling.clocks import advance
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

    findings = check.check(str(changed(bundle, "awards.jsonl", less, listed=True)))
    assert any("came back of the rents of job" in finding for finding in findings)
    assert any(f"refund:{world.award.pk}:alone is not what award" in finding for finding in findings)


def test_an_award_that_ran_before_the_period_and_is_settled_in_it_comes_along(tmp_path: Path) -> None:
    world = renewing()
    advance(world.pool, 20.5)
    assert world.award.end < 5  # its rent is closed at 12
    bundle = make_bundle(world, tmp_path, middle=True, last=14)
    assert world.award.pk in {row["id"] for row in awards_in(bundle)}
    assert check.check(str(bundle)) == []


def test_a_piece_and_the_rest_at_home_in_one_interval_agree_and_none_of_them_may_be_missing(tmp_path: Path) -> None:
    world = pieces_market()
    job = world.job_of_two_awards()
    advance(world.pool, 30.5)
    assert len({award.interval_id for award in world.awards(job)}) == 1
    bundle = make_bundle(world, tmp_path)
    assert check.check(str(bundle)) == []

    def last_goes(rows: Rows) -> None:
        rows.remove([row for row in rows if row["job"] == job.pk][-1])

    findings = check.check(str(changed(bundle, "awards.jsonl", last_goes, listed=True)))
    assert any(f"the award of job {job.pk} is missing" in finding for finding in findings)

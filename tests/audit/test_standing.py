"""A pool's chain that was cut off, and its rules that were switched off, are named; and a noted digest proves more."""

from __future__ import annotations

import copy
import io
import json
import re

import pytest
from django.core.management import CommandError, call_command

from marketplace.upkeep.sealing import seal_everything
from scheduling.audit.verification import intervals_verify
from scheduling.market.decide.chain import market_heads
from scheduling.market.reads import contents_of
from scheduling.models import Interval, LaneClock, Pool
from tenants import history
from tenants.access import access_of_system
from tenants.ledger.seals import ChainHead, Sealed, noted_heads
from tests.database import overrule
from tests.ledger.builders import commit_checks, tamper
from tests.scheduling.builders import tell_history
from tests.scheduling.markets import at, make_renting, make_waiting, run_slots
from tests.worlds import built_once

pytestmark = pytest.mark.django_db


def make_chain() -> Pool:
    """Some intervals, the last of which decided about nobody."""
    pool, _, renter = make_renting()
    make_waiting(pool, renter)
    run_slots(pool, 0, 12)
    commit_checks()
    return pool


built = built_once(make_chain)


@pytest.fixture
def pool(built: Pool) -> Pool:
    return copy.deepcopy(built)


def digests(pool: Pool) -> list[str]:
    return list(Interval.objects.filter(pool=pool).order_by("number").values_list("digest", flat=True))


def findings(pool: Pool, **options) -> list[str]:
    return [str(finding) for finding in intervals_verify(pool_ids=[pool.pk], **options).findings]


def cut_off(pool: Pool) -> None:
    """The last interval is gone with all that it left, and the clock knows what it knew before."""
    *_, before, last = Interval.objects.filter(pool=pool).order_by("number")
    assert last.jobs_awarded == 0
    tamper("DELETE FROM scheduling_jobfloor WHERE interval_id = %s", [last.pk])
    tamper("DELETE FROM scheduling_interval WHERE id = %s", [last.pk])
    memory = json.loads(contents_of(last).view)["memory"]
    LaneClock.objects.filter(pool=pool, lane="batch").update(head=before.digest, memory=memory)


def test_chain_that_was_cut_off_with_its_head_put_back_contradicts_the_seals(pool: Pool) -> None:
    assert isinstance(seal_everything(at=at(pool, 13)), Sealed)
    count = len(digests(pool))
    assert market_heads() == {f"pool:{pool.pk}": ChainHead(count, digests(pool)[-1])}
    assert findings(pool) == []
    cut_off(pool)
    assert findings(pool) == [
        f"interval {count} of pool {pool.pk}: it is missing: seal 1 of the ledger noted its digest"
    ]


def test_chain_that_was_rewritten_contradicts_the_seals(pool: Pool) -> None:
    assert isinstance(seal_everything(at=at(pool, 13)), Sealed)
    last = Interval.objects.filter(pool=pool).order_by("-number")[0]
    tamper("UPDATE scheduling_interval SET digest = reverse(digest) WHERE id = %s", [last.pk])
    assert (
        f"interval {last.number} of pool {pool.pk}: it was rewritten: seal 1 of the ledger noted its digest"
        in findings(pool)
    )


def test_what_was_cut_off_before_any_seal_is_seen_by_who_noted_the_head(pool: Pool) -> None:
    """Nothing inside the database tells of it: this is what a noted head is for."""
    noted = digests(pool)[-1]
    cut_off(pool)
    assert findings(pool) == []
    assert findings(pool, known_heads=[noted]) == [
        f"head {noted}: was noted earlier and is in no chain: one of them was cut off or rewritten"
    ]


def test_command_takes_noted_heads_and_prints_those_to_note(pool: Pool) -> None:
    tell_history(pool)
    first, *_, last = digests(pool)
    out, err = io.StringIO(), io.StringIO()
    call_command("verify_intervals", "--head", first, "--head", "0" * 64, "--pool", pool.slug, stdout=out, stderr=err)
    assert f"  {pool.slug}: head {last}" in out.getvalue().splitlines()
    with pytest.raises(SystemExit):
        call_command("verify_intervals", "--head", "ab" * 32, stdout=out, stderr=err)
    assert re.search(r"^1 finding: \d", out.getvalue(), flags=re.MULTILINE)
    assert err.getvalue().startswith(f"head {'ab' * 32}: was noted earlier")
    with pytest.raises(CommandError, match="64 hexadecimal"):
        call_command("verify_intervals", "--head", "ab")


def test_trigger_of_intervals_that_was_dropped_is_named(pool: Pool) -> None:
    overrule("DROP TRIGGER interval_append_only ON scheduling_interval")
    assert findings(pool) == [
        "the rules of the database, interval_append_only: the trigger on scheduling_interval is missing: "
        "nothing is refused any more"
    ]


def test_one_seal_notes_the_end_of_every_chain_and_changes_when_any_of_them_grows(pool: Pool) -> None:
    first = seal_everything(at=at(pool, 13))
    assert isinstance(first, Sealed)
    assert seal_everything(at=at(pool, 14)) == Sealed(0, 0, first.head)
    entry = history.append(at=at(pool, 14), by=access_of_system("a test"), action="server_drain", subject="s01")
    second = seal_everything(at=at(pool, 15))
    assert isinstance(second, Sealed)
    assert (second.blocks, second.transactions) == (1, 0)
    assert [one.head for one in noted_heads("history")] == [ChainHead(1, entry.hash)]
    out = io.StringIO()
    call_command("seal_ledger", stdout=out)
    assert out.getvalue() == f"0 transactions in 0 blocks, head {second.head}\n"

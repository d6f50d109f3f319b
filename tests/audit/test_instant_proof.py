"""Every answer of the instant lane has a record from which it is decided again, refusals too.

An award that no answer gave is named.
"""

from __future__ import annotations

import copy
import json
import zlib
from typing import Any
from unittest.mock import patch

import pytest

from scheduling.audit.verification import charge_verify, intervals_verify
from scheduling.core import records
from scheduling.market.decide import instant
from scheduling.market.decide.answers import AnswerContents, answer_contents, answer_link, question_of
from scheduling.market.decide.chain import START, heads_beside
from scheduling.market.decide.verdicts import verdict
from scheduling.market.reads import unpacked
from scheduling.models import AnswerFrame, Award, Budget, FeedSeal, InstantAnswer, Interval, LaneClock
from tenants.access import Refused
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import OUTSIDE, available
from tenants.ledger.services import post
from tenants.scoping import scope, scope_disabled
from tests.audit.proven import Proven, make_proven
from tests.audit.test_tampering import with_one_byte_changed
from tests.database import undone
from tests.ledger.builders import accepted, tamper
from tests.scheduling.builders import make_server, make_tenant
from tests.scheduling.live import again, book_is_sound, fund, make_award, make_live_pool, publish, submitted
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

built = built_once(make_proven)


@pytest.fixture
def world(built: Proven) -> Proven:
    return copy.deepcopy(built)


def findings(pool, **options: Any) -> list[str]:
    return [str(finding) for finding in intervals_verify(pool_ids=[pool.pk], **options).findings]


def answer_to(world: Proven, name: str) -> InstantAnswer:
    return InstantAnswer.objects.get(job=world.jobs[name].pk)


def test_each_answer_has_its_record_in_one_chain(world: Proven) -> None:
    answers = list(InstantAnswer.objects.filter(pool=world.pool).order_by("number"))
    assert [answer.number for answer in answers] == list(range(1, 8))
    assert [answer.previous for answer in answers] == [START, *(answer.digest for answer in answers[:-1])]
    assert LaneClock.objects.get(pool=world.pool, lane="instant").head == answers[-1].digest
    refusals = [answer for answer in answers if answer.award_id is None]
    assert {answer.job_id for answer in refusals} == {world.jobs["refused"].pk, world.jobs["queued_after"].pk}
    assert AnswerFrame.objects.count() == 1  # the pool stayed the same
    assert findings(world.pool) == []


def test_the_chains_name_each_other(world: Proven) -> None:
    """The last interval saw the answers before it and a seal; the next answer saw that interval."""
    last = Interval.objects.filter(pool=world.pool).order_by("-number")[0]
    heads = json.loads(bytes(last.heads))
    answer = InstantAnswer.objects.get(pool=world.pool, number=heads["answers"][0])
    assert heads["answers"][1] == answer.digest
    assert answer.at <= last.decided_at
    after = InstantAnswer.objects.filter(pool=world.pool, number__gt=answer.number).order_by("number")[0]
    assert after.interval_head == last.digest
    assert json.loads(heads_beside(world.pool.pk))["feed"][0] == 3


def test_a_record_is_decided_again_from_its_bytes_alone(world: Proven) -> None:
    for name, code in (("given_up", None), ("refused", "over_max_price")):
        answer = answer_to(world, name)
        contents = answer_contents(answer)
        question = question_of(unpacked(bytes(answer.frame.content)), contents.input)
        outcome = verdict(question.question)
        assert getattr(outcome, "code", None) == code
        assert question.submission["job"] == answer.job_id


def test_what_a_record_takes(world: Proven) -> None:
    """The pool is kept once for all answers, so that a record is small."""
    sizes = [len(bytes(answer.input)) + len(bytes(answer.plan)) for answer in InstantAnswer.objects.all()]
    assert max(sizes) < 2_000


def test_one_byte_of_a_record(world: Proven) -> None:
    for name in ("resold", "refused"):
        answer = answer_to(world, name)
        named = f"answer {answer.number} of pool {world.pool.pk}: "
        for column in ("input", "plan"):
            stored = bytes(getattr(answer, column))
            for part in (0.1, 0.5, 0.9):
                with undone():
                    changed = with_one_byte_changed(stored, int(part * len(stored)))
                    tamper(f"UPDATE scheduling_instantanswer SET {column} = %s WHERE id = %s", [changed, answer.pk])  # noqa: S608
                    flaws = findings(world.pool)
                assert any(line.startswith(named) for line in flaws), (column, flaws)


def test_an_answer_that_was_changed_together_with_its_digest_is_decided_otherwise(world: Proven) -> None:
    answer = answer_to(world, "given_up")
    contents = answer_contents(answer)
    plan = json.loads(contents.plan)
    plan["bookings"][0]["cost"] += 1
    forged = AnswerContents(contents.input, records.to_bytes(plan))
    digest = answer_link(answer, forged)
    with undone():
        values = [zlib.compress(forged.plan), digest, answer.pk]
        tamper("UPDATE scheduling_instantanswer SET plan = %s, digest = %s WHERE id = %s", values)
        flaws = findings(world.pool)
    assert (
        f"answer {answer.number} of pool {world.pool.pk}: decided again, the answer to job {answer.job_id} is another"
        in flaws
    )
    assert any("what it follows" in line for line in flaws)


def test_the_last_answers_cut_off_with_the_clock_put_back(world: Proven) -> None:
    """The interval that saw them is still there."""
    last = Interval.objects.filter(pool=world.pool).order_by("-number")[0]
    number = json.loads(bytes(last.heads))["answers"][0]
    before = InstantAnswer.objects.get(pool=world.pool, number=number - 1)
    with undone():
        tamper("DELETE FROM scheduling_instantanswer WHERE pool_id = %s AND number >= %s", [world.pool.pk, number])
        head = [before.digest, world.pool.pk]
        tamper("UPDATE scheduling_laneclock SET head = %s WHERE pool_id = %s AND lane = 'instant'", head)
        flaws = findings(world.pool)
    assert any(
        line.startswith(f"interval {last.number} of pool {world.pool.pk}: answer {number}, as it saw") for line in flaws
    )


def test_the_end_of_a_chain_that_no_interval_saw_is_named_by_a_seal_of_the_book(world: Proven) -> None:
    """The last answer and the last seal of the feed, gone with the heads put back; and whoever noted them knows."""
    before, last = InstantAnswer.objects.filter(pool=world.pool).order_by("number")[5:]
    closed = FeedSeal.objects.order_by("-number")[0]
    noted = [last.digest, closed.digest]
    assert findings(world.pool, known_heads=noted) == []
    with undone():
        tamper("DELETE FROM scheduling_instantanswer WHERE id = %s", [last.pk])
        tamper("DELETE FROM scheduling_feedseal WHERE number = %s", [closed.number])
        head = [before.digest, world.pool.pk]
        tamper("UPDATE scheduling_laneclock SET head = %s WHERE pool_id = %s AND lane = 'instant'", head)
        flaws = findings(world.pool, known_heads=noted)
    for what in (f"answer {last.number} of pool {world.pool.pk}", f"seal {closed.number} of the feed"):
        assert f"{what}: it is missing: seal 1 of the ledger noted its digest" in flaws
    for digest in noted:
        assert f"head {digest}: was noted earlier and is in no chain: one of them was cut off or rewritten" in flaws


TERMS = ["workers", "ps", "worker_type", "ps_type", "end", "value", "floor", "cost", "paid"]


@pytest.mark.wide
def test_every_term_of_an_instant_award(world: Proven) -> None:
    award = again(Award(pk=answer_to(world, "resold").award_id))
    changes = {column: f'"{column}" + 1' for column in TERMS}
    changes |= {"awarded_at": "awarded_at + interval '1 second'", "phase": "'own'", "placement": "'distributed'"}
    changes |= {"allocation": "'[[1, 6, 10, 4, 2]]'", "on_operator": "'[[1, 6, 10, 4, 2]]'", "amounts": "''"}
    for column, change in changes.items():
        with undone():
            tamper(f'UPDATE scheduling_award SET "{column}" = {change} WHERE id = %s', [award.pk])  # noqa: S608
            flaws = findings(world.pool)
        named = f"award {award.pk} of job {award.job_id}: {'charges' if column == 'amounts' else column} is"
        assert any(line.startswith(named) for line in flaws), (column, flaws)


def test_a_free_award_that_was_dropped_and_one_that_was_slipped_in(world: Proven) -> None:
    """No money tells of it; its answer does."""
    answer = answer_to(world, "resold")
    award, job = answer.award_id, answer.job_id
    with undone():
        tamper(
            "DELETE FROM ledger_entry WHERE transaction_id IN (SELECT id FROM ledger_transaction WHERE subject = %s)",
            [f"job:{job}"],
        )
        tamper("DELETE FROM scheduling_award WHERE id = %s", [award])
        assert f"answer {answer.number} of pool {world.pool.pk}: job {job} has no award" in findings(world.pool)
    with undone():
        tamper(
            "INSERT INTO scheduling_award SELECT (jsonb_populate_record(NULL::scheduling_award, to_jsonb(a) ||"
            ' \'{"id": 9000, "attempt": 7, "paid": 0, "owners": [], "amounts": ""}\')).*'
            " FROM scheduling_award a WHERE id = %s",
            [award],
        )
        assert f"award 9000 of job {job}: no answer gave it" in findings(world.pool)


def test_a_charge_is_proved_from_its_answer(world: Proven) -> None:
    job = world.jobs["resold"].pk
    verified = charge_verify(job_id=job)
    assert not isinstance(verified, Refused)
    assert (verified.findings, verified.answers, len(verified.awards)) == ((), 1, 1)
    with undone():
        tamper("UPDATE scheduling_award SET workers = workers + 1 WHERE job_id = %s", [job])
        changed = charge_verify(job_id=job)
    assert not isinstance(changed, Refused)
    assert [finding.what.split(" is ")[0] for finding in changed.findings] == ["workers"]


@pytest.mark.usefixtures("nothing_built")
def test_a_booking_that_could_not_be_paid_any_more_says_so_in_its_record() -> None:
    """Somebody else took the money between the answer and the hold, each time that it was tried."""
    pool, lumen = make_live_pool(), make_tenant("lumen")
    make_server(pool, worker=4, ps=1)
    fund(lumen)
    publish(pool, frontier=4)
    real, leave = instant.hold, MICRO // 100_000

    def poorer(**about: Any) -> object:
        """Within the same attempt, which is taken back with all that it wrote."""
        spent = [(available(lumen.pk), leave - 1_000 * MICRO), (OUTSIDE, 1_000 * MICRO - leave)]
        with scope_disabled("somebody else pays"):
            accepted(post(key=f"spent:{about['key']}", kind="grant", entries=spent, at=about["at"]))
        return real(**about)

    with patch.object(instant, "hold", poorer):
        refused = submitted(pool, lumen)
    assert refused.award is None
    assert again(refused.job).reason_numbers == {"price": 0.05, "left": leave / MICRO}
    plan = records.plan_from(answer_contents(InstantAnswer.objects.get(job=refused.job.pk)).plan)
    assert (len(plan.bookings), len(plan.refusals)) == (1, 1)
    assert submitted(pool, lumen, slot=0.5).award is not None
    assert [answer.number for answer in InstantAnswer.objects.order_by("number")] == [1, 2]
    assert findings(pool) == []
    assert book_is_sound()


@pytest.mark.usefixtures("nothing_built")
def test_a_booking_that_a_budget_did_not_allow_any_more_says_so_in_its_record() -> None:
    """Another pool spent of the same hard limit between the answer and the hold, each time that it was tried."""
    pool, other, lumen = make_live_pool(), make_live_pool(slug="other"), make_tenant("lumen")
    make_server(pool, worker=4, ps=1)
    fund(lumen)
    publish(pool, frontier=4)
    with scope(lumen):
        Budget.objects.create(tenant=lumen, period="month", member=None, hard_limit=60_000)
    real = instant.hold

    def elsewhere(**about: Any) -> object:
        """Within the same attempt, which is taken back with all that it wrote."""
        make_award(other, lumen, slots=1, charges=[[(None, 20_000)]])
        return real(**about)

    with patch.object(instant, "hold", elsewhere):
        refused = submitted(pool, lumen)
    assert refused.award is None
    job = again(refused.job)
    assert (job.reason_code, job.reason_numbers) == ("over_budget", {"price": 0.05, "left": 0.04})
    assert findings(pool) == []
    assert submitted(pool, lumen, slot=0.5).award is not None
    assert findings(pool) == []
    assert book_is_sound()

"""Replaying stored intervals finds nothing where nothing was touched, and every kind of tampering."""

from __future__ import annotations

import copy
import io
import json
import zlib
from dataclasses import replace
from functools import partial

import pytest
from django.core.management import CommandError, call_command

from scheduling.audit.verification import charge_verify, findings_for, interval_verify, intervals_verify
from scheduling.core import records
from scheduling.core.stored_charges import matrix_of, packed
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.market.decide.chain import link
from scheduling.market.reads import contents_of
from scheduling.market.settle.slots import slot_settle
from scheduling.models import Award, Interval, Pool, TenantFairness, TrainingJob
from tenants.access import Refused
from tenants.scoping import scope_disabled
from tests.ledger.builders import commit_checks, tamper
from tests.scheduling.builders import tell_history
from tests.scheduling.markets import at, award_of, make_market, make_renting, make_waiting, run_slots
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

History = tuple[Pool, list[TrainingJob]]


def findings(pool, **options) -> list[str]:
    return [str(finding) for finding in intervals_verify(pool_ids=[pool.pk], **options).findings]


def make_history(slots: int = 12) -> History:
    """Two jobs that rent, one at home, settled up to the last slot."""
    pool, owner, renter = make_renting()
    jobs = [make_waiting(pool, renter), make_waiting(pool, owner), make_waiting(pool, renter, arrival=4.5)]
    for slot in range(slots + 1):
        slot_settle(pool_id=pool.pk, slot=slot - 1, at=at(pool, slot))
        run_slots(pool, slot, slot)
    assert all(award_of(job) for job in jobs)
    tell_history(pool)
    return pool, jobs


built = built_once(make_history)


@pytest.fixture
def history(built: History) -> History:
    return copy.deepcopy(built)


def test_finds_nothing_in_an_untouched_history(history: History) -> None:
    pool, _ = history
    verified = intervals_verify(pool_ids=[pool.pk])
    assert verified.findings == ()
    assert verified.intervals == Interval.objects.count() > 3
    assert verified.awards == 3


def test_finds_nothing_from_a_later_interval_on(history: History) -> None:
    pool, _ = history
    assert findings(pool, first=3) == []


def test_finds_nothing_in_a_pool_that_has_fewer_intervals_and_still_finds_its_end_cut_off(history: History) -> None:
    pool, _ = history
    last = Interval.objects.filter(pool=pool).order_by("-number")[0]
    verified = intervals_verify(pool_ids=[pool.pk], first=last.number + 100)
    assert (verified.findings, verified.intervals) == ((), 0)
    assert verified.heads == {pool.pk: last.digest}
    tamper("DELETE FROM scheduling_interval WHERE id = %s", [last.pk])
    assert any("the last digest of the chain" in finding for finding in findings(pool, first=last.number + 100))


@pytest.mark.usefixtures("nothing_built")
def test_finds_nothing_in_a_pool_that_never_decided() -> None:
    pool, _ = make_market("lumen")
    assert findings(pool) == []


def change_interval(interval: Interval, **columns: object) -> None:
    for name, value in columns.items():
        tamper(f'UPDATE scheduling_interval SET "{name}" = %s WHERE id = %s', [value, interval.pk])  # noqa: S608


def change_contents(interval: Interval, **parts: bytes) -> None:
    """Another input or answer, stored whole."""
    contents = replace(contents_of(interval), **parts)
    view, plan = zlib.compress(contents.view), zlib.compress(contents.plan)
    change_interval(interval, view=view, plan=plan, base_id=None)


def deciding(pool) -> Interval:
    """The first interval with awards."""
    return Interval.objects.filter(pool=pool, jobs_awarded__gt=0).order_by("number")[0]


def test_finds_a_changed_plan_and_names_the_job(history: History) -> None:
    pool, _ = history
    interval = deciding(pool)
    plan = json.loads(contents_of(interval).plan)
    plan["bookings"][0]["value"] += 1
    changed = json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()
    change_contents(interval, plan=changed)
    flaws = findings(pool)
    job = plan["bookings"][0]["job"]
    assert any("the digest is" in finding for finding in flaws)
    assert any(f"other bookings (job {job})" in finding for finding in flaws)


def test_finds_a_plan_that_was_changed_together_with_its_digest(history: History) -> None:
    pool, _ = history
    interval = Interval.objects.filter(pool=pool).order_by("-number")[0]
    contents = contents_of(interval)
    plan = json.loads(contents.plan)
    plan["frontier"] += 1
    changed = json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()
    change_contents(interval, plan=changed)
    change_interval(interval, digest=link(interval, replace(contents, plan=changed)))
    flaws = findings(pool)
    assert any("decided again, the plan has other frontier" in finding for finding in flaws)
    assert any("the last digest of the chain" in finding for finding in flaws)


def test_finds_a_changed_input(history: History) -> None:
    pool, _ = history
    interval = deciding(pool)
    view = json.loads(contents_of(interval).view)
    view["jobs"][0]["epochs"] = 9
    changed = json.dumps(view, sort_keys=True, separators=(",", ":")).encode()
    change_contents(interval, view=changed)
    assert any("the digest is" in finding for finding in findings(pool))


def test_finds_a_missing_interval(history: History) -> None:
    pool, _ = history
    quiet = Interval.objects.filter(pool=pool, jobs_awarded=0).exclude(number=1).order_by("number")[0]
    tamper("DELETE FROM scheduling_jobfloor WHERE interval_id = %s", [quiet.pk])
    tamper("DELETE FROM scheduling_interval WHERE id = %s", [quiet.pk])
    assert any(f"its number is {quiet.number + 1}" in finding for finding in findings(pool))


def test_finds_bytes_that_cannot_be_read(history: History) -> None:
    pool, _ = history
    change_interval(deciding(pool), view=b"nonsense")
    assert any("cannot be replayed" in finding for finding in findings(pool))


def rented(jobs) -> Award:
    return award_of(jobs[0])


def test_finds_a_charge_moved_from_one_owner_to_another(history: History) -> None:
    pool, jobs = history
    award = rented(jobs)
    charges = [[[0, amount] for _, amount in slot] for slot in award.charges]
    owners, amounts = packed(*matrix_of(charges))
    stored = [json.dumps(owners), amounts, award.pk]
    tamper("UPDATE scheduling_award SET owners = %s, amounts = %s WHERE id = %s", stored)
    assert any(f"award {award.pk} of job {award.job_id}: owners is [0]" in finding for finding in findings(pool))


def test_finds_an_award_that_no_interval_decided(history: History) -> None:
    pool, jobs = history
    award = rented(jobs)
    tamper("UPDATE scheduling_award SET interval_id = NULL WHERE id = %s", [award.pk])
    flaws = findings(pool)
    assert any(f"job {jobs[0].pk} has no award" in finding for finding in flaws)
    assert any("has no interval" in finding for finding in flaws)


def test_finds_a_hold_of_another_amount(history: History) -> None:
    pool, jobs = history
    award = rented(jobs)
    commit_checks()
    tamper(
        "UPDATE ledger_entry SET amount = amount * 2 WHERE transaction_id ="
        " (SELECT id FROM ledger_transaction WHERE key = %s)",
        [f"award:{award.pk}"],
    )
    assert any("the hold is" in finding for finding in findings(pool))


def test_finds_a_slot_that_was_not_paid(history: History) -> None:
    pool, jobs = history
    award = rented(jobs)
    key = f"settle:{pool.pk}:{award.start}:{award.pk}"
    commit_checks()
    tamper("UPDATE ledger_transaction SET key = 'elsewhere' WHERE key = %s", [key])
    flaws = findings(pool)
    assert any(f"the settlement of slot {award.start} is None" in finding for finding in flaws)
    assert any("elsewhere was settled and is not owed" in finding for finding in flaws)


def test_finds_a_changed_floor(history: History) -> None:
    pool, jobs = history
    tamper("UPDATE scheduling_jobfloor SET value = value + 1 WHERE job_id = %s", [jobs[1].pk])
    assert any(f"the floor of job {jobs[1].pk}" in finding for finding in findings(pool))


def test_figures_of_tenants_are_hidden_from_others(history: History) -> None:
    """A finding about a row of fairness says what one tenant's figure is, and names no job."""
    pool, _ = history
    with scope_disabled("fairness is that of all tenants"):
        fairness_catch_up()
        row = TenantFairness.objects.order_by("pk").first()
    assert row is not None
    tamper("UPDATE scheduling_tenantfairness SET gain = gain + 77 WHERE id = %s", [row.pk])
    verified = interval_verify(pool_id=pool.pk, number=row.number)
    assert not isinstance(verified, Refused)
    about = [finding for finding in verified.findings if f"tenant {row.tenant_id}" in str(finding)]
    assert about
    assert not set(about) & set(findings_for(verified.findings, ()))


def test_finds_a_clock_that_forgot_what_its_policy_was_told(history: History) -> None:
    pool, _ = history
    tamper("UPDATE scheduling_laneclock SET memory = %s WHERE pool_id = %s", ['{"boundary": 99}', pool.pk])
    assert any("what its policy is told next" in finding for finding in findings(pool))


def test_charge_of_a_rented_job_is_proved_from_interval_to_book(history: History) -> None:
    _, jobs = history
    verified = charge_verify(job_id=jobs[0].pk)
    assert not isinstance(verified, Refused)
    assert verified.findings == ()
    assert [award.pk for award in verified.awards] == [rented(jobs).pk]


def test_charge_that_was_changed_is_found(history: History) -> None:
    _, jobs = history
    award = rented(jobs)
    tamper("UPDATE scheduling_award SET paid = paid + 1 WHERE id = %s", [award.pk])
    verified = charge_verify(job_id=jobs[0].pk)
    assert not isinstance(verified, Refused)
    assert any("paid is" in str(finding) for finding in verified.findings)


@pytest.mark.usefixtures("nothing_built")
def test_job_that_was_never_served_has_no_charge() -> None:
    pool, (lumen,) = make_market("lumen")
    verified = charge_verify(job_id=make_waiting(pool, lumen).pk)
    assert not isinstance(verified, Refused)
    assert (verified.awards, verified.findings) == ((), ())


def test_command_says_that_all_is_in_order(history: History) -> None:
    pool, _ = history
    out = io.StringIO()
    call_command("verify_intervals", pool=pool.slug, stdout=out)
    assert "the intervals are in order" in out.getvalue()
    assert f"{pool.slug}: head {Interval.objects.order_by('-number')[0].digest}" in out.getvalue()


def test_command_ends_with_one_and_says_what_differs(history: History) -> None:
    pool, _ = history
    change_interval(deciding(pool), paid=1)
    err = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("verify_intervals", stdout=io.StringIO(), stderr=err)
    assert ended.value.code == 1
    assert "what its awards pay is 1" in err.getvalue()


@pytest.mark.parametrize("options", [{"pool": "nowhere"}, {"first": 0}])
def test_command_refuses_what_does_not_exist(options) -> None:
    with pytest.raises(CommandError):
        call_command("verify_intervals", **options)


def test_command_proves_one_charge(history: History) -> None:
    _, jobs = history
    out = io.StringIO()
    call_command("verify_charge", str(jobs[0].pk), stdout=out)
    assert "): 1 award\n" in out.getvalue()
    assert "every amount is as the interval decided it" in out.getvalue()


def test_command_knows_no_job_that_is_not_there() -> None:
    with pytest.raises(CommandError, match="no such job"):
        call_command("verify_charge", "12345")


@pytest.mark.usefixtures("nothing_built")
def test_answers_of_before_there_were_supplies_are_replayed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(records, "plan_bytes", partial(records.plan_bytes, form=records.WITH_PAYOUTS))
        pool, _ = make_history()
    stored = [contents_of(interval).plan for interval in Interval.objects.filter(pool=pool)]
    assert any(b'"slot_payouts":{"runs"' in plan for plan in stored)
    assert not any(b'"supplies"' in plan for plan in stored)
    assert findings(pool) == []

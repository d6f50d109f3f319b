"""What a job would have got had it said something else, by its stored interval: who may ask, and who sees what."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from scheduling.core import policies, records
from scheduling.core.metrics.misreports import plan_outcome, supposed
from scheduling.core.policies.astraea import Astraea
from scheduling.core.value import Linear
from scheduling.market.decide import chain
from scheduling.market.reads import contents_of
from scheduling.models import Award, Interval, JobFloor, WhatIf
from scheduling.what_if import asking, working
from scheduling.what_if.asking import what_if_cancel, what_if_fields, what_if_read, what_if_start, what_ifs_newest
from scheduling.what_if.seen import Result, WhatIfSeen
from scheduling.what_if.working import what_ifs_round
from tenants.access import Access, Refused
from tenants.models import Tenant
from tenants.roles import AUDITOR, BILLING, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope_disabled
from tests.audit.test_verification import change_contents
from tests.audit.test_verification_runs import Clock
from tests.fairness.test_fairness import make_paper_market
from tests.ledger.builders import tamper
from tests.scheduling.builders import NOON, make_tenant
from tests.scheduling.clocks import advance
from tests.scheduling.elastic_world import make_elastic, make_elastic_job
from tests.scheduling.markets import give, make_market, make_renting, make_waiting, run_slots
from tests.tenants.builders import make_person

pytestmark = pytest.mark.django_db
STEEP = {"kind": "linear", "slope": -9.0, "base": 100.0}


def auditor() -> Access:
    return Access(user=make_person("auditor@example.org"), tenant=None, roles=frozenset({AUDITOR}))


def member(tenant: Tenant, role: str = SUBMITTER) -> Access:
    return Access(user=make_person(f"{role}@{tenant.slug}.org"), tenant=tenant, roles=frozenset({role}))


def make_rivals():
    """Two renters ask for all that one owner has, in the same slot: what the first says decides about the second."""
    pool, _ = make_market("owner")
    renters = [make_tenant("renter"), make_tenant("other")]
    for tenant in renters:
        give(tenant, 1_000)
    jobs = [make_waiting(pool, tenant, minibatches=2, min_workers=4) for tenant in renters]
    return pool, jobs, deciding(pool)


def deciding(pool) -> Interval:
    """Run until the jobs are decided about, and find that interval."""
    run_slots(pool, 0, 4)
    return Interval.objects.filter(pool=pool, jobs_awarded__gt=0).order_by("number")[0]


def ask(interval: Interval, job, field: str, value: Any, by: Access, at=NOON) -> WhatIfSeen | Refused:
    words = {"number": interval.number, "job_id": job.pk, "field": field, "value": value}
    return what_if_start(pool_id=interval.pool_id, by=by, at=at, **words)


def question_of(interval: Interval, job, field: str, value: Any, by: Access) -> WhatIfSeen:
    answer = ask(interval, job, field, value, by)
    assert isinstance(answer, WhatIfSeen), answer
    return answer


def answered(interval: Interval, job, field: str, value: Any, by: Access) -> Result:
    question = question_of(interval, job, field, value, by)
    assert (question.state, question.done, question.of) == ("waiting", 0, 4)
    assert what_ifs_round(clock=Clock()) == 1
    answer = what_if_read(what_if_id=question.id, by=by, at=NOON)
    assert isinstance(answer, WhatIfSeen), answer
    assert (answer.state, answer.done, answer.sentence) == ("done", 4, "")
    assert answer.result is not None
    return answer.result


def code_of(answer: object) -> str:
    assert isinstance(answer, Refused), answer
    return answer.code


def test_the_papers_counterexample_is_found_from_its_stored_interval() -> None:
    """S1 with the two jobs of S3: a steeper value moves the second job forward, and it pays nothing for it."""
    pool, (_, second) = make_paper_market()
    run_slots(pool, 0, 4)
    reply = answered(deciding(pool), second, "value", STEEP, auditor())
    [row] = [row for row in reply.jobs if row.is_asked]
    assert (row.before["start"], row.before["end"], row.before["value"]) == (6, 8, 90.0)
    assert (row.after["start"], row.after["end"], row.after["value"]) == (4, 6, 94.0)  # worth what it really is
    assert row.before["paid"] == row.after["paid"] == 0
    gains = {row.tenant: row.difference for row in reply.tenants}
    assert gains[second.tenant_id] == pytest.approx(4.0)
    assert sum(abs(difference) for difference in gains.values()) == pytest.approx(4.0)


@pytest.mark.one_case
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_price", 0.01),
        ("value", {"kind": "linear", "slope": -20.0, "base": 200.0}),
        ("value", {"kind": "linear", "slope": -0.01, "base": 1.0}),
        ("rent", "never"),
    ],
)
def test_the_guarantees_difference_is_the_one_that_the_core_gives(field: str, value: Any) -> None:
    """The stored bytes decided twice by hand, with the lie put into the core's own job."""
    _, (first, _), interval = make_rivals()
    reply = answered(interval, first, field, value, auditor())
    view = records.view_from(contents_of(interval).view)
    policy = policies.build(json.loads(bytes(interval.policy)), view.cluster, ())
    lie = Linear(value["slope"], value["base"]) if field == "value" else value
    other = replace(view.jobs[first.pk], **{field: lie})
    before = plan_outcome(view, policy.decide(view))
    after = plan_outcome(view, policy.decide(supposed(view, other)), other)
    assert [row.difference for row in reply.tenants] == (after.gains - before.gains).tolist()
    assert [(row.before, row.after) for row in reply.tenants] == list(
        zip(before.gains.tolist(), after.gains.tolist(), strict=True)
    )
    for row in reply.jobs:
        assert row.job is not None
        assert row.before["paid"] == before.outcomes[row.job].paid
        assert row.after["paid"] == after.outcomes[row.job].paid


def test_what_one_says_changes_what_another_gets_and_an_auditor_sees_both() -> None:
    _, (first, second), interval = make_rivals()
    reply = answered(interval, first, "rent", "never", auditor())
    assert reply.is_whole
    assert {row.job for row in reply.jobs} == {first.pk, second.pk}
    assert {row.tenant for row in reply.tenants} >= {first.tenant_id, second.tenant_id, 0}
    rows = {row.job: row for row in reply.jobs}
    assert rows[first.pk].after["state"] == "waiting"
    assert rows[first.pk].after["reason"]
    assert rows[second.pk].before != rows[second.pk].after
    assert {row.resource for row in reply.prices} == {"worker", "ps"}


def test_a_tenant_sees_itself_and_others_without_their_names_and_what_they_are_worth() -> None:
    _, (first, second), interval = make_rivals()
    reply = answered(interval, first, "rent", "never", member(first.tenant, OWNER))
    assert not reply.is_whole
    [mine] = [row for row in reply.jobs if row.is_asked]
    assert mine.job == first.pk
    assert "value" in mine.before
    [other] = [row for row in reply.jobs if not row.is_asked]
    assert (other.job, other.tenant) == (None, None)
    assert set(other.before) == {"state", "phase", "start", "end", "workers", "ps", "paid"}
    named = {row.tenant for row in reply.tenants if row.tenant is not None}
    assert named == {first.tenant_id, 0}
    for row in reply.tenants:
        assert (row.before is None) == (row.tenant is None)
    text = repr(reply)
    assert second.tenant.name not in text
    assert f"job {second.pk}" not in text


def test_what_a_tenant_gains_is_for_those_who_see_its_money() -> None:
    _, (first, _), interval = make_rivals()
    reply = answered(interval, first, "rent", "never", member(first.tenant, SUBMITTER))
    [mine] = [row for row in reply.tenants if row.tenant == first.tenant_id]
    assert (mine.before, mine.after) == (None, None)
    assert mine.difference != 0


def test_in_a_tenant_the_staff_find_its_own_questions_only() -> None:
    _, (first, second), interval = make_rivals()
    over_all = auditor()
    inside, elsewhere = (replace(over_all, tenant=job.tenant) for job in (first, second))
    assert code_of(ask(interval, first, "rent", "never", elsewhere)) == "unknown_job"
    question = question_of(interval, first, "rent", "never", inside)
    assert code_of(what_if_read(what_if_id=question.id, by=elsewhere, at=NOON)) == "unknown_what_if"
    assert [len(what_ifs_newest(by=by, at=NOON)) for by in (over_all, inside, elsewhere)] == [1, 1, 0]


def test_it_changes_nothing_of_the_market() -> None:
    _, (first, _), interval = make_rivals()
    with scope_disabled("the test looks at all rows"):
        before = (
            list(Award.objects.order_by("pk").values()),
            list(Interval.objects.order_by("pk").values_list("digest")),
        )
        answered(interval, first, "rent", "never", auditor())
        assert before == (
            list(Award.objects.order_by("pk").values()),
            list(Interval.objects.order_by("pk").values_list("digest")),
        )


def test_only_the_jobs_tenant_and_the_staff_may_ask_and_read() -> None:
    _, (first, second), interval = make_rivals()
    mine, theirs = member(first.tenant, VIEWER), member(second.tenant, OWNER)
    assert code_of(ask(interval, first, "rent", "never", theirs)) == "unknown_job"
    assert code_of(ask(interval, first, "rent", "never", member(first.tenant, BILLING))) == "not_allowed"
    question = question_of(interval, first, "rent", "never", mine)
    for by in (theirs, member(first.tenant, OWNER)):  # a colleague has questions of his own
        assert code_of(what_if_read(what_if_id=question.id, by=by, at=NOON)) == "unknown_what_if"
        assert code_of(what_if_cancel(what_if_id=question.id, by=by, at=NOON)) == "unknown_what_if"
        assert what_ifs_newest(by=by, at=NOON) == ()
    assert [row.id for row in what_ifs_newest(by=mine, at=NOON)] == [question.id]
    assert isinstance(what_if_read(what_if_id=question.id, by=auditor(), at=NOON), WhatIfSeen)


UNSAYABLE: tuple[tuple[str, Any, str], ...] = (
    ("tenant", "x", "unknown_field"),
    ("lane", "instant", "unknown_field"),
    ("value", {"kind": "linear", "slope": 1.0, "base": 1.0}, "invalid_value"),
    ("minibatch_seconds", -1, "invalid_value"),
    ("minibatch_seconds", None, "invalid_value"),
    ("max_workers", 99, "invalid_value"),
    ("worker_demand", {"gold": 1}, "invalid_value"),
    ("worker_demand", {"worker": 0.5}, "invalid_value"),
    ("ps_demand", [{"ps": 1}, {"ps": 1e-9}], "invalid_value"),
    ("arrival", -5, "invalid_value"),
    ("arrival", True, "invalid_value"),
    ("arrival", float("nan"), "invalid_value"),
    ("epochs", 1, "no_change"),
    ("rent", None, "no_change"),
)


def test_what_cannot_be_said_is_refused_at_once() -> None:
    _, (first, _), interval = make_rivals()
    by = auditor()
    codes = [code_of(ask(interval, first, field, value, by)) for field, value, _ in UNSAYABLE]
    assert codes == [code for *_, code in UNSAYABLE]
    with scope_disabled("the test counts all rows"):
        assert WhatIf.objects.count() == 0


def test_every_field_can_be_said_otherwise() -> None:
    pool, _, renter = make_renting()
    job = make_waiting(pool, renter, worker_mbps=100, ps_mbps=100)
    interval, by = deciding(pool), auditor()
    values = {"value": STEEP, "rent": "never", "worker_demand": {"worker": 2}, "ps_demand": {"ps": 2}, "arrival": 0.25}
    values |= {"min_workers": 2, "max_workers": 3, "epochs": 2, "chunks": 5, "minibatches": 5}
    for field in what_if_fields():
        reply = answered(interval, job, field, values.get(field, 3), by)
        assert any(row.is_asked for row in reply.jobs), field
    assert len(what_ifs_newest(by=by, at=NOON)) == len(what_if_fields())


def test_too_many_questions_are_refused(monkeypatch) -> None:
    _, (first, _), interval = make_rivals()
    by = auditor()
    for price in (1, 2, 3):
        question_of(interval, first, "max_price", price, by)
    assert code_of(ask(interval, first, "max_price", 4, by)) == "too_many_open"
    what_ifs_round(clock=Clock())
    monkeypatch.setattr(asking, "MOST_A_DAY", 3)
    assert code_of(ask(interval, first, "max_price", 4, by)) == "too_many_today"
    assert isinstance(ask(interval, first, "max_price", 4, by, at=NOON + timedelta(days=2)), WhatIfSeen)
    monkeypatch.setattr(asking, "MOST_IN_ALL", 1)
    assert code_of(ask(interval, first, "max_price", 4, member(first.tenant))) == "too_many_in_all"


def test_questions_of_many_people_about_one_tenant_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (first, second), interval = make_rivals()
    assert first.tenant_id != second.tenant_id
    monkeypatch.setattr(asking, "MOST_OF_TENANT", 2)
    for role in (SUBMITTER, OWNER):
        question_of(interval, first, "max_price", 1, member(first.tenant, role))
    refused = ask(interval, first, "max_price", 1, auditor())
    assert refused == asking.TOO_MANY_OF_TENANT
    question_of(interval, second, "max_price", 1, member(second.tenant))


def test_rules_of_another_version_answer_where_they_decide_the_interval_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(chain, "code_version", lambda: "core-0")
        _, (first, _), interval = make_rivals()
    by = auditor()
    alike = question_of(interval, first, "max_price", 1, by)
    what_ifs_round(clock=Clock())
    assert (interval.code_version, what_if_read(what_if_id=alike.id, by=by, at=NOON).state) == ("core-0", "done")

    decide, later = Astraea.decide, question_of(interval, first, "max_price", 2, by)
    monkeypatch.setattr(Astraea, "decide", lambda policy, view: replace(decide(policy, view), bookings=()))
    what_ifs_round(clock=Clock())
    answer = what_if_read(what_if_id=later.id, by=by, at=NOON)
    assert (answer.state, answer.code, answer.result) == ("failed", "other_code", None)


def test_an_interval_of_other_bytes_is_not_decided_again() -> None:
    _, (first, _), interval = make_rivals()
    by = auditor()
    waits = question_of(interval, first, "max_price", 1, by)
    plan = contents_of(interval).plan.replace(b'"paid":', b'"paid":1', 1)
    change_contents(interval, plan=plan)
    what_ifs_round(clock=Clock())
    answer = what_if_read(what_if_id=waits.id, by=by, at=NOON)
    assert isinstance(answer, WhatIfSeen)
    assert (answer.state, answer.code, answer.result) == ("failed", "changed", None)
    tamper("UPDATE scheduling_trainingjob SET spec = spec || %s WHERE id = %s", ['{"epochs": 7}', first.pk])
    assert code_of(ask(interval, first, "max_price", 1, by)) == "other_specification"


def test_slots_of_an_elastic_pool_are_not_asked_about() -> None:
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter)
    for slot in range(3):
        advance(pool, slot)
    interval = Interval.objects.filter(pool=pool, jobs_awarded__gt=0).order_by("-number")[0]
    assert code_of(ask(interval, job, "max_price", 0.1, auditor())) == "decided_by_slot"


def test_an_interval_that_is_too_large_and_a_job_that_was_not_there_are_refused() -> None:
    pool, (first, _), interval = make_rivals()
    by, late = auditor(), make_waiting(pool, first.tenant, arrival=40.0)
    assert code_of(ask(interval, late, "rent", "never", by)) == "did_not_wait"
    unknown = what_if_start(pool_id=pool.pk, number=999, job_id=first.pk, field="rent", value="never", by=by, at=NOON)
    assert code_of(unknown) == "unknown_interval"
    tamper("UPDATE scheduling_interval SET jobs_waiting = 2000 WHERE id = %s", [interval.pk])
    assert code_of(ask(interval, first, "rent", "never", by)) == "too_large"


def test_a_floor_that_was_given_before_is_not_moved_by_what_is_said_later() -> None:
    pool, owner, _ = make_renting()
    for _ in range(3):  # the cells are full for a while: the last of them waits for its floor
        last = make_waiting(pool, owner, minibatches=40)
    run_slots(pool, 0, 6)
    with scope_disabled("the test looks for a floor"):
        gave = JobFloor.objects.get(job=last).interval
    later = Interval.objects.get(pool=pool, number=gave.number + 1)
    by = auditor()
    refused = ask(later, last, "epochs", 2, by)
    assert code_of(refused) == "floor_given"
    assert isinstance(refused, Refused)
    assert f"interval {gave.number}" in refused.sentence
    assert isinstance(ask(later, last, "max_price", 2, by), WhatIfSeen)


def test_a_cancelled_question_keeps_no_answer_also_when_it_was_being_worked_out(monkeypatch) -> None:
    _, (first, _), interval = make_rivals()
    by = auditor()
    question = question_of(interval, first, "rent", "never", by)

    def cancels(*given_to: Any) -> Any:
        what_if_cancel(what_if_id=question.id, by=by, at=NOON)
        return supposed(*given_to)

    monkeypatch.setattr(working, "supposed", cancels)
    what_ifs_round(clock=Clock())
    answer = what_if_read(what_if_id=question.id, by=by, at=NOON)
    assert isinstance(answer, WhatIfSeen)
    assert (answer.state, answer.done, answer.result) == ("cancelled", 2, None)
    assert code_of(what_if_cancel(what_if_id=question.id, by=by, at=NOON)) == "what_if_over"
    assert what_ifs_round(clock=Clock()) == 0


def test_a_decision_that_takes_too_long_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr(working, "ROUND", timedelta(days=1))
    _, (first, _), interval = make_rivals()
    by = auditor()
    question = question_of(interval, first, "rent", "never", by)
    what_ifs_round(clock=Clock(seconds=7.9))  # each look at the clock is that much later
    answer = what_if_read(what_if_id=question.id, by=by, at=NOON)
    assert isinstance(answer, WhatIfSeen)
    assert (answer.state, answer.code) == ("failed", "too_long")


def test_a_question_left_by_a_process_that_ended_is_answered_by_the_next_but_not_for_ever(monkeypatch) -> None:
    _, (first, _), interval = make_rivals()
    by = auditor()
    question = question_of(interval, first, "rent", "never", by)

    def die(*_: object) -> None:
        raise OperationalError("the server went away")

    with monkeypatch.context() as broken:
        broken.setattr(working, "plan_outcome", die)
        with pytest.raises(OperationalError):
            what_ifs_round(clock=Clock())
        answer = what_if_read(what_if_id=question.id, by=by, at=NOON)
        assert isinstance(answer, WhatIfSeen)
        assert answer.state == "running"
        with pytest.raises(OperationalError):
            what_ifs_round(clock=Clock())
    what_ifs_round(clock=Clock())
    answer = what_if_read(what_if_id=question.id, by=by, at=NOON)
    assert isinstance(answer, WhatIfSeen)
    assert (answer.state, answer.code) == ("failed", "broke_off")


def test_an_answer_expires() -> None:
    _, (first, _), interval = make_rivals()
    by = auditor()
    question = question_of(interval, first, "rent", "never", by)
    what_ifs_round(clock=Clock())
    later = NOON + timedelta(days=8)
    assert code_of(what_if_read(what_if_id=question.id, by=by, at=later)) == "unknown_what_if"
    what_ifs_round(clock=lambda: later)
    with scope_disabled("the test counts all rows"):
        assert WhatIf.objects.count() == 0

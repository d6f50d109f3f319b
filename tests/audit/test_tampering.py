"""Whoever changes one byte of what is stored is found, and the place is named: interval, award, entry, fairness.

Every column of every table is the business of `test_what_proves_what`.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.core.stored_charges import packed
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.market.reads import contents_of
from scheduling.models import Award, Interval
from tenants.ledger import audit
from tenants.scoping import scope_disabled
from tests.audit.test_verification import change_contents, deciding, findings, make_history
from tests.database import run, undone
from tests.ledger.builders import commit_checks, tamper
from tests.scheduling.markets import award_of

pytestmark = pytest.mark.django_db


def make_watched():
    """A history with its fairness, and nothing wrong with it."""
    pool, jobs = make_history()
    fairness_catch_up()
    commit_checks()
    assert findings(pool) == []
    return pool, jobs


def places_in(lines: list[str], pattern: str) -> set[int]:
    """The numbers that findings name by this pattern."""
    return {int(match) for line in lines for match in re.findall(pattern, line)}


def with_one_byte_changed(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def test_one_byte_of_what_an_interval_was_told_and_answered() -> None:
    """Of the bytes as they are stored, so that compressed ones may no longer be read at all; and one digit inside."""
    pool, _ = make_watched()
    interval = deciding(pool)
    for column in ("policy", "view", "plan", "windows", "heads"):
        stored = bytes(getattr(interval, column))
        others = [with_one_byte_changed(stored, int(part * len(stored))) for part in (0.1, 0.5, 0.9)]
        if column in ("view", "plan"):
            content = zlib.decompress(stored)
            digits = [match.start() for match in re.finditer(rb"[1-8](?=[,\]}])", content)]
            others += [
                zlib.compress(content[:place] + bytes([content[place] + 1]) + content[place + 1 :])
                for place in digits[:: max(len(digits) // 5, 1)][:5]
            ]
        for changed in others:
            with undone():
                tamper(f'UPDATE scheduling_interval SET "{column}" = %s WHERE id = %s', [changed, interval.pk])  # noqa: S608
                flaws = findings(pool)
            assert interval.number in places_in(flaws, rf"^interval (\d+) of pool {pool.pk}:"), (column, flaws)


def test_a_view_that_leads_the_policy_astray_is_named_and_stops_nothing() -> None:
    """Jobs of a tenant that the view does not have."""
    pool, _ = make_watched()
    interval = deciding(pool)
    astray = re.sub(rb'"tenant":\d+', b'"tenant":97', contents_of(interval).view)
    with undone():
        change_contents(interval, view=astray)
        flaws = findings(pool)
    assert interval.number in places_in(flaws, rf"^interval (\d+) of pool {pool.pk}: its bytes cannot be replayed"), (
        flaws
    )


def test_an_interval_that_was_dropped() -> None:
    pool, _ = make_watched()
    rows = list(Interval.objects.filter(pool=pool).order_by("number").values_list("number", "pk"))
    for number, pk in (rows[0], rows[len(rows) // 2], rows[-1]):
        with undone():
            tamper("DELETE FROM scheduling_tenantfairness WHERE pool_id = %s AND number = %s", [pool.pk, number])
            tamper("DELETE FROM scheduling_intervalfairness WHERE interval_id = %s", [pk])
            tamper("DELETE FROM scheduling_jobfloor WHERE interval_id = %s", [pk])
            tamper("DELETE FROM scheduling_award WHERE interval_id = %s", [pk])
            tamper("DELETE FROM scheduling_interval WHERE id = %s", [pk])
            flaws = findings(pool)
        sentence = f"interval {number + 1} of pool {pool.pk}: its number is {number + 1}, and should be {number}"
        end = f"pool {pool.pk}: the last digest of the chain is"
        assert any(line.startswith(end if number == rows[-1][0] else sentence) for line in flaws), (number, flaws)


def change_of(award: Award, column: str) -> Any:
    """Another value that the column could have."""
    value = getattr(award, column)
    if column == "allocation":
        value = json.loads(json.dumps(value))
        value[0][-1] += 1
        return json.dumps(value)
    if column == "amounts":
        owners, amounts = award.charges_by_owner()
        return packed(owners, amounts + 1)[1]
    others = {
        "owners": "[0]",
        "charges": "[[[0, 1]]]",
        "lane": "instant",
        "phase": "own",
        "placement": "distributed",
        "on_operator": "[[1, 1, 2, 1, 0]]",
    }
    return others.get(column, None if value is None else value + 1 if isinstance(value, int | float) else value)


TERMS = ["start", "end", "workers", "ps", "worker_type", "ps_type", "value", "floor", "cost", "paid", "attempt"]
TERMS += ["lane", "phase", "placement", "on_operator", "allocation", "amounts", "owners", "charges"]


@pytest.mark.wide
def test_one_column_of_an_award() -> None:
    pool, jobs = make_watched()
    award = award_of(jobs[0])
    for column in TERMS:
        assert change_of(award, column) != getattr(award, column)
        place = [change_of(award, column), award.pk]
        with undone():
            tamper(f'UPDATE scheduling_award SET "{column}" = %s WHERE id = %s', place)  # noqa: S608
            flaws = findings(pool)
        name = {"amounts": "charges", "charges": "lists"}.get(column, column)
        named = f"award {award.pk} of job {award.job_id}: {name} is"
        assert any(line.startswith(named) for line in flaws), (column, flaws)


COURSE = [
    ("awarded_at", "awarded_at + interval '1 second'", "awarded_at is"),
    ("returned", "1", "what came back is"),
    ("state", "'booked'", "it is booked, and its last slot is settled"),
    ("state", "'running'", "it is running, and its last slot is settled"),
    ("state", "'void'", "it is void, and nothing says from which slot on"),
    ("state", "'ended'", "it is ended, and nothing says from which slot on"),
    ("cut_at", "start", "it was cut in slot"),
]


def test_what_became_of_an_award() -> None:
    pool, jobs = make_watched()
    award = award_of(jobs[0])
    for column, change, sentence in COURSE:
        with undone():
            tamper(f'UPDATE scheduling_award SET "{column}" = {change} WHERE id = %s', [award.pk])  # noqa: S608
            flaws = findings(pool)
        assert any(line.startswith(f"award {award.pk} of job {award.job_id}: {sentence}") for line in flaws), flaws


def test_an_award_that_was_moved_elsewhere_or_dropped() -> None:
    pool, jobs = make_watched()
    award, other = award_of(jobs[0]), award_of(jobs[1])
    last = Interval.objects.filter(pool=pool).order_by("-number")[0]
    to = {"job_id": jobs[0].pk + 900, "tenant_id": other.tenant_id, "interval_id": last.pk, "pool_id": pool.pk + 900}
    named = f"award {award.pk} of job {award.job_id}: ", f"job {award.job_id} has no award"
    for column, value in to.items():
        with undone():
            tamper(f'UPDATE scheduling_award SET "{column}" = %s WHERE id = %s', [value, award.pk])  # noqa: S608
            flaws = findings(pool)
        assert any(name in line for line in flaws for name in named), (column, flaws)
    tamper("DELETE FROM scheduling_award WHERE id = %s", [award.pk])
    sentence = f"interval {award.interval.number} of pool {pool.pk}: job {award.job_id} has no award"
    assert sentence in findings(pool)


def entries_about(award: Award) -> list[tuple[int, str, int]]:
    """Transaction, its key, line."""
    return run(
        "SELECT t.id, t.key, e.line FROM ledger_transaction t JOIN ledger_entry e ON e.transaction_id = t.id"
        " WHERE t.subject = %s ORDER BY t.id, e.line",
        [f"job:{award.job_id}"],
    )


@pytest.mark.wide
def test_any_entry_of_an_award() -> None:
    """Each of them in turn: the hold, and each slot's settlement with a line for each owner."""
    pool, jobs = make_watched()
    award = award_of(jobs[0])
    entries = entries_about(award)
    assert len(entries) > 3
    for number, key, line in entries:
        what = "the hold" if key.startswith("award:") else f"the settlement of slot {key.split(':')[2]}"
        named = f"award {award.pk} of job {award.job_id}: {what} is"
        for change in ("amount = amount + 1", "account_id = account_id + 8"):
            with undone():
                tamper(
                    f"UPDATE ledger_entry SET {change} WHERE transaction_id = %s AND line = %s",  # noqa: S608
                    [number, line],
                )
                flaws = findings(pool)
            assert any(flaw.startswith(named) for flaw in flaws), (key, change, flaws)


def test_an_entry_that_was_dropped_and_one_that_is_about_no_award() -> None:
    pool, jobs = make_watched()
    award = award_of(jobs[0])
    number, _, line = entries_about(award)[-1]
    tamper("DELETE FROM ledger_entry WHERE transaction_id = %s AND line = %s", [number, line])
    flaws = findings(pool)
    assert any(line.startswith(f"award {award.pk} of job {award.job_id}: the settlement of slot") for line in flaws)
    ((grant,),) = run("SELECT id FROM ledger_transaction WHERE kind = 'grant' ORDER BY id LIMIT 1")
    tamper("UPDATE ledger_entry SET amount = amount + 1 WHERE transaction_id = %s", [grant])
    with scope_disabled("the audit reads everybody's entries"):
        sentences = [str(finding) for finding in audit.verify().findings]
    assert any(f"transaction {grant}" in line for line in sentences), sentences


def test_a_figure_that_is_no_number_in_the_place_of_one_that_is_missing() -> None:
    pool, _ = make_watched()
    there = "FROM scheduling_tenantfairness WHERE pool_id = %s AND reward IS NULL"
    ((row, number, tenant),) = run(f"SELECT id, number, tenant_id {there} ORDER BY id LIMIT 1", [pool.pk])
    tamper("UPDATE scheduling_tenantfairness SET reward = 'NaN' WHERE id = %s", [row])
    named = f"fairness of interval {number} of pool {pool.pk}, tenant {tenant}: reward is nan, and should be None"
    assert findings(pool)[0] == named


def test_a_fairness_record_that_was_dropped() -> None:
    pool, _ = make_watched()
    number = deciding(pool).number
    tamper("DELETE FROM scheduling_tenantfairness WHERE pool_id = %s AND number = %s", [pool.pk, number])
    tamper("DELETE FROM scheduling_intervalfairness WHERE pool_id = %s AND number = %s", [pool.pk, number])
    flaws = findings(pool)
    assert flaws[0] == f"fairness of interval {number} of pool {pool.pk}: it is missing"
    assert all(line.startswith(f"fairness of pool {pool.pk} on ") for line in flaws[1:]), flaws  # its day's sums


def test_nothing_else_is_named() -> None:
    """One changed award does not put others under suspicion."""
    pool, jobs = make_watched()
    award = award_of(jobs[0])
    tamper("UPDATE scheduling_award SET workers = workers + 1 WHERE id = %s", [award.pk])
    verified = intervals_verify(pool_ids=[pool.pk])
    assert {finding.where for finding in verified.findings} == {f"award {award.pk} of job {award.job_id}"}

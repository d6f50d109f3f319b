"""Lists and reads: pages that miss nothing, filters, CSV of the whole, ETag, and how often one may call."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import RedisError

from scheduling.models import TrainingJob
from tenants.api.cursors import cursor_read, page_of
from tenants.api.fields import moment_of, time_text
from tenants.api.limits import WINDOW_SECONDS, allowance
from tenants.common.costly import counters
from tenants.ledger.amounts import exported
from tenants.roles import OWNER, SUBMITTER
from tenants.scoping import scope
from tests.api.builders import Program, problem, program, program_of
from tests.database import as_superuser
from tests.scheduling.builders import make_pool
from tests.scheduling.markets import make_waiting
from tests.tenants.builders import client_of, make_member, make_tenant

JOBS = "tenants/lumen/jobs/"


@pytest.fixture
def reader_and_jobs(db) -> tuple[Program, list[TrainingJob]]:
    pool, tenant = make_pool(), make_tenant("lumen")
    jobs = [make_waiting(pool, tenant, arrival=float(number // 2)) for number in range(7)]
    make_waiting(pool, make_tenant("other"))
    return program_of(SUBMITTER, tenant), jobs


def walk(caller: Program, address: str, way: str = "next") -> list[list[int]]:
    pages, at = [], address
    for _ in range(20):
        page = caller.get(at).json()
        pages.append([row["id"] for row in page["results"]])
        if page[way] is None:
            return pages
        at = page[way]
    raise AssertionError("the list does not end")


@pytest.mark.parametrize("address", [JOBS, "tenants/lumen/events/"])
def test_a_pool_that_there_is_not_is_a_mistake_and_no_empty_list(reader_and_jobs, address: str) -> None:
    caller, _ = reader_and_jobs
    problem(caller.get(f"{address}?pool=nope"), 404, "unknown_pool")
    make_pool("empty")
    assert caller.get(f"{address}?pool=empty").json()["results"] == []
    assert caller.get(f"{address}?pool=main&limit=1").status_code == 200


def test_pages_hold_every_row_once_in_both_directions(reader_and_jobs) -> None:
    caller, jobs = reader_and_jobs
    ids = [job.pk for job in jobs]
    assert walk(caller, f"{JOBS}?limit=3&ordering=id") == [ids[:3], ids[3:6], ids[6:]]
    assert walk(caller, f"{JOBS}?limit=3") == [ids[:3:-1], ids[3:0:-1], ids[:1]]
    second = caller.get(f"{JOBS}?limit=3&ordering=id").json()["next"]
    last = caller.get(second).json()["next"]
    assert walk(caller, last, "previous") == [ids[6:], ids[3:6], ids[:3]]


def test_row_written_meanwhile_moves_no_page(reader_and_jobs) -> None:
    caller, jobs = reader_and_jobs
    first = caller.get(f"{JOBS}?limit=3").json()
    make_waiting(jobs[0].pool, jobs[0].tenant)
    assert [row["id"] for row in caller.get(first["next"]).json()["results"]] == [job.pk for job in jobs[3:0:-1]]


@pytest.mark.django_db
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.integers(0, 3), max_size=9), limit=st.integers(1, 4), falling=st.booleans())
def test_pages_by_values_that_repeat_hold_every_row_once(values: list[int], limit: int, falling: bool) -> None:
    """Against sorting the whole."""
    tenant = make_tenant()
    pool = make_pool(f"p{tenant.pk}")
    jobs = [make_waiting(pool, tenant, arrival=float(value)) for value in values]
    expected = [job.pk for job in sorted(jobs, key=lambda job: (job.submitted_at, job.pk), reverse=falling)]
    ordering = "-submitted_at" if falling else "submitted_at"
    with scope(tenant):
        rows = TrainingJob.objects.all()
        numbers, back, cursor, last = [], [], None, None
        for _ in range(len(values) + 2):
            page = last = page_of(rows, ordering=ordering, limit=limit, cursor=cursor)
            numbers += [job.pk for job in page.rows]
            if page.next is None:
                break
            cursor = cursor_read(page.next.text(), ordering, rows)
        while last is not None:
            back = [job.pk for job in last.rows] + back
            before = last.previous
            last = before and page_of(rows, ordering=ordering, limit=limit, cursor=before)
    assert numbers == expected
    assert back == expected


def test_filters_choose(reader_and_jobs) -> None:
    caller, jobs = reader_and_jobs
    with scope(jobs[0].tenant), as_superuser():
        TrainingJob.objects.filter(pk=jobs[2].pk).update(state="rejected", lane="instant", name="odd = one")

    def ids(query: str) -> list[int]:
        return [row["id"] for row in caller.get(f"{JOBS}?{query}").json()["results"]]

    assert ids("state=rejected") == [jobs[2].pk]
    assert len(ids("state=rejected&state=queued")) == 7
    assert ids("lane=instant&name=odd%20%3D%20one") == [jobs[2].pk]
    make_pool("empty")
    assert ids("pool=empty") == []
    since = time_text(jobs[4].submitted_at)
    assert ids(f"submitted_from={since}") == [job.pk for job in jobs[:3:-1]]
    assert len(ids(f"submitted_before={since}")) == 4


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("submitted_from=yesterday", "submitted_from: Must be a time such as 2026-03-02T12:00:00Z."),
        ("name=%00", "name: Holds a NUL character."),
        ("limit=0", "limit: Must be a whole number from 1 to 200."),
    ],
)
def test_what_a_parameter_should_be_is_told_as_it_can_be_written(reader_and_jobs, query: str, sentence: str) -> None:
    caller, _ = reader_and_jobs
    assert problem(caller.get(f"{JOBS}?{query}"), 400, "invalid_request")["detail"] == sentence


def lines_of(reply: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(reply.streaming_content).decode())))


def test_csv_holds_the_whole_filtered_list(reader_and_jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    caller, jobs = reader_and_jobs
    monkeypatch.setattr("tenants.api.csv_text.ROWS_AT_ONCE", 2)
    reply = caller.get(f"{JOBS}?limit=1&ordering=id", Accept="text/csv")
    assert (reply["Content-Type"], reply.streaming) == ("text/csv; charset=utf-8", True)
    assert reply["Content-Disposition"] == 'attachment; filename="jobs_list.csv"'
    lines = lines_of(reply)
    assert [int(line["id"]) for line in lines] == [job.pk for job in jobs]
    assert {line["reason.code"] for line in lines} == {"waiting_for_interval"}


def test_csv_gives_a_spreadsheet_no_formula(reader_and_jobs) -> None:
    caller, jobs = reader_and_jobs
    with scope(jobs[0].tenant), as_superuser():
        TrainingJob.objects.filter(pk=jobs[0].pk).update(name='=HYPERLINK("x")')
        TrainingJob.objects.filter(pk=jobs[1].pk).update(name="-5")
    names = [line["name"] for line in lines_of(caller.get(f"{JOBS}?format=csv&ordering=id"))]
    assert names[:2] == ['\'=HYPERLINK("x")', "-5"]


@pytest.mark.django_db(transaction=True)  # between two pieces the connection is given back
def test_csv_is_sent_piece_by_piece_by_the_asynchronous_server(reader_and_jobs) -> None:
    caller, jobs = reader_and_jobs

    async def ask() -> list[bytes]:
        reply = await AsyncClient().get(
            f"/api/v1/{JOBS}?format=csv", headers={"Authorization": f"Bearer {caller.secret}"}
        )
        assert reply.is_async
        return [piece async for piece in reply.streaming_content]

    pieces = async_to_sync(ask)()
    assert len(pieces) == 2
    assert b"".join(pieces).count(b"\n") == len(jobs) + 1


def test_who_has_the_answer_gets_304(reader_and_jobs) -> None:
    caller, jobs = reader_and_jobs
    for address in (JOBS, f"{JOBS}{jobs[0].pk}/", "me/"):
        first = caller.get(address)
        tag = first["ETag"]
        assert tag.startswith('"')
        for given_tag in (tag, f'"x", W/{tag}', "*"):
            again = caller.get(address, If_None_Match=given_tag)
            assert (again.status_code, again.content, again["ETag"]) == (304, b"", tag)
            assert again["RateLimit-Limit"]
        assert caller.get(address, If_None_Match='"x"').status_code == 200
    tag = caller.get(JOBS)["ETag"]
    make_waiting(jobs[0].pool, jobs[0].tenant)
    assert caller.get(JOBS, If_None_Match=tag).status_code == 200


def test_answers_are_private(reader_and_jobs) -> None:
    caller, _ = reader_and_jobs
    reply = caller.get(JOBS)
    assert reply["Cache-Control"] == "private, no-cache"
    assert "Authorization" in reply["Vary"]


@pytest.mark.django_db
def test_calls_are_counted_for_each_token_and_too_many_are_429(settings) -> None:
    settings.API_CALLS_PER_MINUTE = 3
    tenant = make_tenant("lumen")
    caller, other = program_of(OWNER, tenant), program_of(OWNER, tenant)
    replies = [caller.get("me/") for _ in range(5)]
    limits = [(reply.status_code, reply["RateLimit-Remaining"]) for reply in replies]
    # A minute may end between two calls; then the count begins anew.
    if (200, "2") not in limits[1:]:
        assert limits == [(200, "2"), (200, "1"), (200, "0"), (429, "0"), (429, "0")]
        problem(replies[-1], 429, "too_many_calls")
        assert 1 <= int(replies[-1]["Retry-After"]) <= WINDOW_SECONDS
    assert other.get("me/").status_code == 200


@pytest.mark.django_db
def test_many_tokens_of_one_person_share_the_persons_limit(settings) -> None:
    settings.API_CALLS_PER_MINUTE, settings.API_CALLS_PER_MINUTE_OF_PERSON = 3, 5
    tenant = make_tenant("lumen")
    person, colleague = make_member(tenant, OWNER).user, program_of(OWNER, tenant)
    tokens = [program(person, tenant) for _ in range(3)]
    began = timezone.now()
    replies = [token.get("me/") for token in (*tokens, *tokens)]
    if began.minute == timezone.now().minute:  # else the count has begun anew
        assert [reply.status_code for reply in replies] == [200] * 5 + [429]
        assert [reply["RateLimit-Remaining"] for reply in replies] == ["2", "2", "2", "1", "0", "0"]
        assert [reply["RateLimit-Limit"] for reply in replies] == ["3", "3", "3", "3", "5", "5"]
        problem(replies[-1], 429, "too_many_calls")
        session = client_of(person).get("/api/v1/me/")
        problem(session, 429, "too_many_calls")  # a session is one more of the same person
    assert colleague.get("me/").status_code == 200


@pytest.mark.django_db
def test_count_begins_anew_each_minute() -> None:
    at = 60.0 * 1000 + 50
    calls = [allowance({"x": 2, "y": 100}, at=at + late) for late in (0, 1, 2, 10)]
    assert [(each.limit, each.remaining) for each in calls if each] == [(2, 1), (2, 0), (2, -1), (2, 1)]
    calls_left = allowance({"x": 2}, at=at)
    assert calls_left is not None
    assert calls_left.reset_seconds == 10


@pytest.mark.django_db
def test_counts_are_forgotten_two_minutes_after_they_began() -> None:
    key = "bourse:calls:forgotten:1000"
    counters().delete(key)
    allowance({"forgotten": 2}, at=60.0 * 1000)
    counters().expire(key, 30)
    allowance({"forgotten": 2}, at=60.0 * 1000)
    assert 0 < counters().ttl(key) <= 30  # it counts from the first call
    counters().delete(key)
    allowance({"forgotten": 2}, at=60.0 * 1000)
    assert 30 < counters().ttl(key) <= 120


@pytest.mark.django_db
def test_market_stays_open_while_redis_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RedisError("gone")

    monkeypatch.setattr("tenants.api.limits.counters", fail)
    reply = program_of(OWNER, make_tenant("lumen")).get("me/")
    assert (reply.status_code, "RateLimit-Limit" in reply) == (200, False)


@settings(max_examples=50)
@given(st.integers(-(2**63), 2**63))
def test_credits_are_written_exactly(amount: int) -> None:
    text = exported(amount)
    assert Decimal(text) * 1_000_000 == amount
    assert len(text.split(".")[1]) == 6


@settings(max_examples=30, deadline=None)
@given(st.datetimes(timezones=st.timezones()))
def test_times_come_back_as_they_were(moment: Any) -> None:
    try:
        text = time_text(moment)
    except OverflowError:
        return
    assert text.endswith("Z")
    answer = moment_of(text)
    assert answer is not None
    assert abs(answer - moment) < timedelta(microseconds=1)


def test_time_now_is_in_utc() -> None:
    assert time_text(timezone.now()).endswith("Z")

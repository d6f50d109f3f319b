"""Quotes, questions and verifications of one tenant: a few under way at once, in all web processes together."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest
from redis.exceptions import RedisError

from scheduling.models import Pool
from tenants.common.costly import costly_place, counters
from tenants.models import Tenant
from tenants.roles import AUDITOR, OWNER, VIEWER
from tests.api.builders import problem, program_of
from tests.api.table import operations
from tests.quotes.test_submit_page import FIELDS
from tests.scheduling.live import SPEC
from tests.scheduling.markets import make_market, make_waiting, run_slots
from tests.scheduling.pages import client_as, text_of
from tests.web import environment

pytestmark = pytest.mark.django_db
NOON = 1_000_000.0
HOLDS = """
import sys, django
django.setup()
from tenants.common.costly import costly_place
with costly_place(sys.argv[1], at=float(sys.argv[2])) as is_free:
    print(is_free, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _two_at_once(settings: Any) -> None:
    settings.COSTLY_AT_ONCE = 2


def full(party: str) -> None:
    """All its places are taken, by calls that go on."""
    for number in range(2):
        counters().zadd(f"bourse:costly:{party}", {f"call {number}": time.time() + 60})


def free(party: str, at: float = NOON) -> bool:
    with costly_place(party, at=at) as is_free:
        return is_free


def test_places_are_given_back_also_when_the_call_fails() -> None:
    with costly_place("a", at=NOON) as first, costly_place("a", at=NOON) as second:
        assert (first, second, free("a"), free("b")) == (True, True, False, True)
    with pytest.raises(ValueError, match="broke"), costly_place("a", at=NOON):
        raise ValueError("broke")
    with costly_place("a", at=NOON) as first, costly_place("a", at=NOON) as second:
        assert (first, second) == (True, True)


@pytest.mark.wide
def test_places_hold_in_all_processes_and_not_beyond_the_end_of_one_that_was_killed(settings: Any) -> None:
    command = [sys.executable, "-c", HOLDS, "a", str(NOON)]
    others = [
        subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == "True\n"
        assert not free("a")
        others[0].communicate("")  # it ends as it should
        assert free("a")
        others[1].kill()
        others[1].wait()
        with costly_place("a", at=NOON) as is_free:
            assert is_free
            assert not free("a")  # what the killed one held is held for a while
        end = NOON + 2 * settings.REQUEST_SECONDS
        with costly_place("a", at=end) as first, costly_place("a", at=end) as second:
            assert (first, second) == (True, True)
    finally:
        for other in others:
            other.kill()
            other.communicate()


def test_without_redis_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RedisError("gone")

    monkeypatch.setattr("tenants.common.costly._take", fail)
    assert [free("a") for _ in range(5)] == [True] * 5


def market() -> tuple[Pool, Tenant, Tenant]:
    pool, (lumen, other) = make_market("lumen", "other", instant=True)
    return pool, lumen, other


def test_quotes_of_a_tenant_are_a_429_that_says_when_to_come_again() -> None:
    _, lumen, other = market()
    body = {"pool": "main", "name": "x", "lane": "batch", "spec": SPEC}
    one, colleague = program_of(OWNER, lumen), program_of(OWNER, lumen)
    full(f"tenant:{lumen.pk}")
    for caller in (one, colleague):
        reply = caller.post("tenants/lumen/quotes/", body)
        problem(reply, 429, "too_many_at_once")
        assert reply["Retry-After"] == "1"
    assert one.get("tenants/lumen/jobs/").status_code == 200
    assert one.post("tenants/lumen/jobs/", body).status_code == 201  # a submission is none
    assert program_of(OWNER, other).post("tenants/other/quotes/", body).status_code == 200
    counters().delete(f"bourse:costly:tenant:{lumen.pk}")
    assert one.post("tenants/lumen/quotes/", body).status_code == 200
    assert counters().exists(f"bourse:costly:tenant:{lumen.pk}") == 0


def test_every_operation_that_computes_for_long_is_limited() -> None:
    costly = {operation.name for operation in operations() if operation.handler.operation.costly}
    assert costly == {
        "jobs_bulk",
        "quotes_create",
        "what_ifs_create",
        "studies_create",
        "intervals_verify",
        "charges_verify",
        "fairness_verify",
        "fairness_bundles_create",
        "sharing_plans",
    }


def test_verifications_count_for_the_tenant_of_the_token_and_for_each_of_the_staff() -> None:
    pool, lumen, _ = market()
    make_waiting(pool, lumen)
    (decided,) = run_slots(pool, 0, 0)
    address = f"pools/main/intervals/{decided.number}/verify/"
    member, auditor = program_of(VIEWER, lumen), program_of(AUDITOR, lumen)
    full(f"tenant:{lumen.pk}")
    problem(member.post(address), 429, "too_many_at_once")
    assert auditor.post(address).status_code == 200
    assert auditor.token is not None
    full(f"person:{auditor.token.user_id}")
    problem(auditor.post(address), 429, "too_many_at_once")


def test_pages_say_so_in_words_and_a_submission_goes_on() -> None:
    pool, lumen, _ = market()
    job = make_waiting(pool, lumen)
    (decided,) = run_slots(pool, 0, 0)
    client, sentence = client_as(OWNER, lumen), "verifications under way already"
    full(f"tenant:{lumen.pk}")
    quote = client.post("/t/lumen/submit/quote/", FIELDS, secure=True)
    assert sentence in text_of(quote.content.decode())
    for path in (f"/t/lumen/intervals/main/{decided.number}/", f"/t/lumen/jobs/{job.pk}/charge/"):
        assert sentence in text_of(client.post(path, secure=True).content.decode()), path
    assert client.post("/t/lumen/submit/", FIELDS, secure=True).status_code == 302

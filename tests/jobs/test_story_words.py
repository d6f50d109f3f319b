"""Every kind of event has words in a job's story, and whoever sees a job sees what it pays, in each place alike."""

from __future__ import annotations

import pytest

from scheduling.feed import EventKind, message_text
from scheduling.feed.kinds import Audience
from scheduling.jobs.read_life import _heading
from scheduling.market.reads import slots_words
from scheduling.notices.kinds import KINDS_OF_EVENTS
from tenants.roles import BILLING, OWNER, SUBMITTER, VIEWER, Permission, allows
from tests.scheduling.builders import make_pool, make_tenant
from tests.scheduling.live import fund, make_award
from tests.scheduling.pages import client_as

ABOUT_JOBS = [kind for kind in EventKind if kind.value.startswith(("job_", "award_"))]


@pytest.mark.parametrize("kind", ABOUT_JOBS)
def test_a_kind_of_a_jobs_story_has_a_heading(kind: EventKind) -> None:
    assert kind.heading
    assert kind.heading[0].isupper()
    assert "_" not in kind.heading


def test_kinds_for_readers_of_jobs_are_all_about_jobs() -> None:
    assert {kind for kind in EventKind if kind.audience == Audience.TENANT_JOBS} <= set(ABOUT_JOBS)


@pytest.mark.parametrize("stored", [*EventKind, "job_dreamt_of"])
def test_no_code_is_shown_raw(stored: str) -> None:
    assert "_" not in _heading(stored)
    assert _heading(stored) != stored


@pytest.mark.parametrize(("start", "end", "words"), [(21, 28, "slots 21 to 27"), (21, 22, "slot 21"), (8, 8, "slot 8")])
def test_the_last_slot_that_is_named_is_the_last_one(start: int, end: int, words: str) -> None:
    """For people; in the interface `end_slot` is the first one after them."""
    assert slots_words(start, end) == words


# One rule: what a job pays, and what came back of it, is the job's. Whoever may see the job sees it: on its page, in
# the interface, in the feed and in notices. The book (entries, balances, budgets, statements) is for those who may see
# the ledger.


@pytest.mark.django_db
@pytest.mark.parametrize(("role", "book"), [(VIEWER, False), (SUBMITTER, False), (OWNER, True)])
def test_whoever_sees_a_job_sees_what_it_pays_and_not_the_book(role: str, book: bool) -> None:
    pool, lumen, castor = make_pool(), make_tenant("lumen"), make_tenant("castor")
    fund(lumen, 10)
    award = make_award(pool, lumen, charges=[[(castor, 1_230_000)]] * 2)
    client = client_as(role, lumen)
    page = client.get(f"/t/lumen/jobs/{award.job_id}/").content.decode()
    assert "2.46" in page
    assert ('id="book"' in page) == book
    award_fields = client.get(f"/api/v1/tenants/lumen/awards/{award.pk}/").json()
    assert "2.46" in str(award_fields)
    assert client.get("/t/lumen/ledger/").status_code == (200 if book else 403)


def test_notices_with_amounts_of_jobs_are_for_readers_of_jobs_and_those_of_the_book_for_readers_of_the_book() -> None:
    kind = EventKind.JOB_AWARDED
    assert kind.message is not None
    assert message_text(kind.message, "vision", {"paid": 2_460_000}) == "vision: 2.46 credits are set aside for it."
    for event in (kind for kind in EventKind if kind.message is not None):
        permission = KINDS_OF_EVENTS[event].permission
        if event in ABOUT_JOBS:
            assert permission == Permission.JOBS_VIEW
        elif event.audience == Audience.TENANT_MONEY:
            assert permission == Permission.LEDGER_VIEW
    assert not allows([BILLING], Permission.JOBS_VIEW)  # who sees the book alone hears of no job

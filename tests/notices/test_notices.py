"""Notices: who is told of what, exactly once, and what of it they may still read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from threading import Event as Signal
from threading import Thread
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduling.feed.events import event, events_append
from scheduling.feed.kinds import EventKind
from scheduling.feed.read_events import feed_cursor
from scheduling.models import Event, Notice, NoticeCursor, Pool, TrainingJob
from scheduling.notices import collecting
from scheduling.notices.choices import choices_set, notices_read
from scheduling.notices.collecting import notices_collect, notices_skip
from scheduling.notices.kinds import KINDS_OF_EVENTS, NoticeKind, notice_kind
from scheduling.notices.read_choices import Ways, usual_ways
from scheduling.notices.read_notices import MOST_COUNTED, NoticeLine, notice_lines, notices_of, page_opening
from scheduling.notices.read_toasts import toasts_after
from tenants.models import Membership, Tenant, User
from tenants.roles import BILLING, OPERATOR, OWNER, SUBMITTER, TENANT_ROLES, VIEWER
from tenants.scoping import scope
from tenants.selectors import access_of
from tenants.services import join_request_accept, join_request_create, join_request_decline, may_be_asked_set
from tenants.services.invitations import invitation_accept, invitation_create, invitation_revoke, token_hash
from tests.database import overwrite
from tests.feed.test_events import Writer
from tests.patience import PATIENCE
from tests.scheduling.builders import make_pool
from tests.scheduling.markets import make_waiting
from tests.tenants.builders import NOW, done, make_member, make_person, make_staff, make_tenant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("committed")]

ALL = Ways(bell=True, toast=True)
NONE = Ways(bell=False, toast=False)


def tell(tenant: Tenant | None, kind: EventKind, subject: str = "", **data: Any) -> Event:
    news = event(kind, pool_id=None, tenant_id=tenant.pk if tenant else None, subject=subject, at=NOW, data=data)
    events_append([news])
    return news


def member(tenant: Tenant, role: str) -> User:
    return make_member(tenant, role).user


def job_of(tenant: Tenant, person: User | None, name: str = "train") -> TrainingJob:
    pool = Pool.objects.first() or make_pool()
    job = make_waiting(pool, tenant, 0.0)
    job.submitted_by, job.name = person, name
    with scope(tenant):
        overwrite(job)
    return job


def lines(person: User) -> list[NoticeLine]:
    return notice_lines(notices_of(person).select_related("event", "tenant"))


def notice_counts(persons: Iterable[User]) -> list[int]:
    """How many notices each has in the list."""
    return [len(lines(person)) for person in persons]


def test_owners_and_nobody_else_are_told_that_a_webhook_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.feed.read_events._settled", collecting.feed_cursor)  # the test's own transaction
    tenant = make_tenant()
    owner, viewer = make_member(tenant, OWNER), make_member(tenant, VIEWER)
    for person in (owner.user, viewer.user):
        choices_set(person=person, ways={NoticeKind.WEBHOOK: ALL}, all_jobs=False)
    tell(tenant, EventKind.WEBHOOK_SWITCHED_OFF, subject="webhook:7", webhook=7, failures=41)
    notices_collect(at=NOW)
    (line,) = lines(owner.user)
    assert (line.title, line.is_good, line.link) == ("Webhook.", False, f"/t/{tenant.slug}/webhooks/7/")
    assert line.text == (
        "Webhook 7 is switched off, as nothing was taken there for days. Switched on again, it is told what it missed."
    )
    assert lines(viewer.user) == []
    with scope(tenant):
        assert [len(toasts_after(by=access_of(one.user, tenant), after=0).toasts) for one in (owner, viewer)] == [1, 0]


def test_a_tenants_event_reaches_its_members_by_their_roles_and_nobody_else() -> None:
    tenant, other = make_tenant(), make_tenant()
    persons = [member(tenant, role) for role in TENANT_ROLES]
    stranger, operator = member(other, OWNER), make_staff(OPERATOR).user
    tell(tenant, EventKind.LOW_BALANCE, available=5_000_000, slots_left=2)
    assert notices_collect(at=NOW) == 2
    by_role = dict(zip(TENANT_ROLES, notice_counts(persons), strict=True))
    assert by_role == {VIEWER: 0, SUBMITTER: 0, BILLING: 1, OWNER: 1}
    assert notice_counts([stranger, operator]) == [0, 0]


def test_a_past_that_was_made_rings_for_nobody() -> None:
    tenant = make_tenant()
    owner = member(tenant, OWNER)
    tell(tenant, EventKind.LOW_BALANCE, available=5_000_000, slots_left=2)
    notices_skip()
    assert notices_collect(at=NOW) == 0
    tell(tenant, EventKind.LOW_BALANCE, available=4_000_000, slots_left=1)
    assert notices_collect(at=NOW) == 1
    assert notice_counts([owner]) == [1]


def test_a_jobs_event_reaches_who_submitted_it_and_who_wants_to_hear_of_all_jobs() -> None:
    tenant = make_tenant()
    submitter, colleague, owner, billing = (member(tenant, role) for role in (SUBMITTER, SUBMITTER, OWNER, BILLING))
    choices_set(person=owner, ways={}, all_jobs=True)
    choices_set(person=billing, ways={}, all_jobs=True)
    job = job_of(tenant, submitter, "vision")
    tell(tenant, EventKind.JOB_FINISHED, f"job:{job.pk}")
    notices_collect(at=NOW)
    assert notice_counts([submitter, colleague, owner, billing]) == [1, 0, 1, 0]
    (line,) = lines(submitter)
    assert (line.title, line.text) == ("Finished.", "vision is done.")
    assert line.link == f"/t/{tenant.slug}/jobs/{job.pk}/"


def test_what_everybody_may_know_reaches_members_and_staff_once() -> None:
    person = member(make_tenant(), VIEWER)
    make_member(make_tenant(), OWNER, person)
    nobody, operator = make_person(), make_staff(OPERATOR).user
    tell(None, EventKind.SERVER_LOST, "server:s1", server="s1")
    notices_collect(at=NOW)
    assert notice_counts([person, operator, nobody]) == [1, 1, 0]
    assert lines(person)[0].text == "s1 in the market does not answer."


def test_events_are_read_once_and_those_that_come_later_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "EVENTS_AT_ONCE", 2)
    tenant = make_tenant()
    owner = member(tenant, OWNER)
    for _ in range(5):
        tell(tenant, EventKind.BUDGET_PASSED)
        tell(tenant, EventKind.BUDGET_CHANGED)  # nobody is told of it
    assert notices_collect(at=NOW) == 5
    assert notices_collect(at=NOW) == 0
    tell(tenant, EventKind.BUDGET_PASSED)
    assert notices_collect(at=NOW) == 1
    assert notice_counts([owner]) == [6]


def test_an_end_in_the_middle_loses_nothing_and_doubles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The notices and the cursor are of one transaction: whoever dies between the two has written neither."""
    tenant = make_tenant()
    owner = member(tenant, OWNER)
    tell(tenant, EventKind.BUDGET_PASSED)
    with monkeypatch.context() as dies:
        dies.setattr(collecting, "persons_tell", _dies)
        with pytest.raises(_Death):
            notices_collect(at=NOW)
    assert not Notice.objects.exists()
    assert notices_collect(at=NOW) == 1
    NoticeCursor.objects.update(cursor=0)  # the same events once more, as if the cursor had been lost
    notices_collect(at=NOW)
    assert notice_counts([owner]) == [1]


class _Death(Exception):
    pass


def _dies(*_: object) -> None:
    raise _Death


def test_what_is_not_certain_yet_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = make_tenant()
    owner = member(tenant, OWNER)
    first = tell(tenant, EventKind.BUDGET_PASSED)
    with monkeypatch.context() as held:
        held.setattr(collecting, "feed_cursor", lambda: first.pk - 1)
        assert notices_collect(at=NOW) == 0
    assert notices_collect(at=NOW) == 1
    assert notice_counts([owner]) == [1]


def test_nobody_is_told_of_what_they_did_not_choose() -> None:
    tenant = make_tenant()
    owner, other = member(tenant, OWNER), member(tenant, OWNER)
    choices_set(person=owner, ways={NoticeKind.BUDGET: NONE}, all_jobs=False)
    tell(tenant, EventKind.BUDGET_PASSED)
    tell(None, EventKind.POOL_HELD)  # nobody's, unless they choose it
    choices_set(person=other, ways={NoticeKind.MARKET: ALL}, all_jobs=False)
    notices_collect(at=NOW)
    assert notice_counts([owner, other]) == [0, 2]


def test_whoever_leaves_or_loses_a_role_no_longer_reads_what_they_were_told() -> None:
    tenant = make_tenant()
    membership = make_member(tenant, OWNER)
    tell(tenant, EventKind.LOW_BALANCE, available=5_000_000, slots_left=2)
    tell(tenant, EventKind.FAIRNESS_CONCERN, title="Gini", days=7)
    notices_collect(at=NOW)
    person = membership.user
    assert (notice_counts([person]), page_opening(person).unread) == ([2], 2)
    with scope(tenant):
        Membership.objects.filter(pk=membership.pk).update(role=VIEWER)
    assert ([line.kind for line in lines(person)], page_opening(person).unread) == ([NoticeKind.FAIRNESS], 1)
    with scope(tenant):
        Membership.objects.filter(pk=membership.pk).delete()
    assert (notice_counts([person]), page_opening(person).unread) == ([0], 0)


def test_reading_marks_ones_own_up_to_the_newest_that_was_shown() -> None:
    tenant = make_tenant()
    owner, other = member(tenant, OWNER), member(tenant, OWNER)
    for _ in range(3):
        tell(tenant, EventKind.BUDGET_PASSED)
    notices_collect(at=NOW)
    newest, middle, _ = notices_of(owner).values_list("pk", flat=True)
    assert notices_read(person=owner, at=NOW, until=middle) == 2
    assert [line.is_unread for line in lines(owner)] == [True, False, False]
    assert notices_read(person=other, at=NOW, until=newest, only=newest) == 0  # not the other's
    assert page_opening(other).unread == 3
    assert notices_read(person=owner, at=NOW, until=newest, only=newest) == 1
    assert page_opening(owner).unread == 0


def test_a_job_that_waits_is_news_only_where_it_is_outbid() -> None:
    assert notice_kind(EventKind.JOB_WAITING, {"reason": "outbid"}) is NoticeKind.OUTBID
    assert notice_kind(EventKind.JOB_WAITING, {"reason": "waiting_for_interval"}) is None
    assert notice_kind("a kind of another version", {}) is None


def test_every_event_with_words_makes_notices_of_one_kind() -> None:
    with_words = {kind for kind in EventKind if kind.message is not None}
    assert set(KINDS_OF_EVENTS) == with_words
    assert sum(len(kind.events) for kind in NoticeKind) == len(with_words)
    for kind in NoticeKind:
        assert len(kind) <= Notice._meta.get_field("kind").max_length
        assert kind.label
        assert kind.help.endswith(".")


def test_an_invitation_is_told_once_to_whoever_has_proved_the_address() -> None:
    tenant = make_tenant(name="Lumen")
    owner = make_member(tenant, OWNER)
    guest, other = make_person("guest@example.org"), make_person("other@example.org")
    by = access_of(owner.user, tenant)
    done(invitation_create(tenant=tenant, email="guest@example.org", role=VIEWER, by=by, at=NOW))
    done(invitation_create(tenant=tenant, email="nobody@example.org", role=VIEWER, by=by, at=NOW))
    assert [notices_collect(at=NOW + timedelta(seconds=second)) for second in range(3)] == [1, 0, 0]
    assert notice_counts([guest, other]) == [1, 0]
    assert lines(guest)[0].text == f"{owner.user} invites you to Lumen, as viewer."
    assert notices_collect(at=NOW + timedelta(days=30)) == 0


@pytest.mark.parametrize("is_accepted", [True, False])
def test_a_notice_of_an_invitation_is_read_once_that_is_accepted_or_withdrawn(is_accepted: bool) -> None:
    tenant = make_tenant(name="Lumen")
    owner = make_member(tenant, OWNER)
    guest, other = make_person("guest@example.org"), make_person("other@example.org")
    by = access_of(owner.user, tenant)
    invite = {"tenant": tenant, "role": VIEWER, "by": by, "at": NOW}
    issued = done(invitation_create(email="guest@example.org", **invite))
    done(invitation_create(email="other@example.org", **invite))
    notices_collect(at=NOW)
    at = NOW + timedelta(minutes=5)
    if is_accepted:
        done(invitation_accept(token_hash=token_hash(issued.token), user=guest, at=at))
    else:
        assert invitation_revoke(invitation=issued.invitation, by=by, at=at) is None
    assert notices_collect(at=at + timedelta(seconds=1)) == 0
    assert [[line.is_unread for line in lines(person)] for person in (guest, other)] == [[False], [True]]


def test_owners_are_told_of_a_request_to_join_and_whoever_asked_of_the_answer() -> None:
    tenant = make_tenant(name="Lumen")
    owner, viewer = make_member(tenant, OWNER), make_member(tenant, VIEWER)
    other = make_member(make_tenant(), OWNER)
    ines, kim = make_person("ines@example.org", "Ines"), make_person("kim@example.org", "Kim")
    by = access_of(owner.user, tenant)
    done(may_be_asked_set(tenant=tenant, on=True, by=by, at=NOW))
    requests = [
        done(join_request_create(tenant=tenant.slug, why="The speech models.", person=person, at=NOW))
        for person in (ines, kim)
    ]
    assert [notices_collect(at=NOW + timedelta(seconds=second)) for second in range(2)] == [2, 0]
    assert notice_counts([owner.user, viewer.user, other.user, ines, kim]) == [2, 0, 0, 0, 0]
    newest, oldest = lines(owner.user)
    assert oldest.text == "Ines (ines@example.org) asks to join: \u201cThe speech models.\u201d"
    assert oldest.link == f"/t/{tenant.slug}/members/"
    done(join_request_accept(request=requests[0], role=VIEWER, by=by, at=NOW))
    done(join_request_decline(request=requests[1], by=by, at=NOW, reason="Ask Castor."))
    assert [notices_collect(at=NOW + timedelta(seconds=second)) for second in range(2, 4)] == [2, 0]
    assert lines(ines)[0].text == "Lumen accepted your request: you are a member now, as viewer."
    assert (lines(kim)[0].text, lines(kim)[0].is_good) == ("Lumen declined your request: Ask Castor.", False)
    assert lines(owner.user)[0].text == "Kim (kim@example.org) asked to join; the request is declined."
    assert newest.is_good
    make_member(tenant, OWNER)  # what is answered is no news to somebody who came later
    assert notices_collect(at=NOW + timedelta(seconds=5)) == 0


def test_a_statement_is_told_when_its_month_is_over() -> None:
    tenant = make_tenant()
    owner, viewer = member(tenant, OWNER), member(tenant, VIEWER)
    created = tenant.created_at
    first = datetime(created.year + 1, 5, 31, 23, 59, tzinfo=created.tzinfo)
    assert notices_collect(at=first) == 0  # the first call only notes the month
    assert notices_collect(at=first + timedelta(minutes=2)) == 1
    assert notices_collect(at=first + timedelta(minutes=3)) == 0
    assert notice_counts([owner, viewer]) == [1, 0]
    assert lines(owner)[0].text == f"The statement of May {created.year + 1} is complete."


def test_a_toast_is_shown_to_whoever_asked_for_its_kind_and_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.feed.read_events._settled", collecting.feed_cursor)  # the test's own transaction
    tenant = make_tenant()
    person = member(tenant, OWNER)
    job = job_of(tenant, person, "vision")
    before = Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0

    def toasts() -> list[str]:
        with scope(tenant):
            return [toast.title for toast in toasts_after(by=access_of(person, tenant), after=before).toasts]

    tell(tenant, EventKind.JOB_FINISHED, f"job:{job.pk}")
    tell(tenant, EventKind.JOB_FINISHED, f"job:{job_of(tenant, None, 'of a colleague').pk}")
    tell(tenant, EventKind.BUDGET_PASSED)
    assert toasts() == []
    ways = {kind: usual_ways(kind) for kind in NoticeKind} | {NoticeKind.ENDED: ALL}
    choices_set(person=person, ways=ways, all_jobs=False)
    assert toasts() == ["Finished."]
    choices_set(person=person, ways=ways, all_jobs=True)
    assert toasts() == ["Finished.", "Finished."]


@pytest.mark.django_db(transaction=True)
def test_a_toast_that_waits_for_an_earlier_event_is_shown_with_the_next_answer() -> None:
    tenant = make_tenant()
    person = member(tenant, OWNER)
    choices_set(person=person, ways={NoticeKind.LOW_BALANCE: ALL}, all_jobs=False)

    def toasts(after: int) -> tuple[list[str], int | None, bool]:
        with scope(tenant):
            answer = toasts_after(by=access_of(person, tenant), after=after)
        return [toast.title for toast in answer.toasts], answer.cursor, answer.more

    before = feed_cursor()
    earlier = Writer(lambda: tell(make_tenant(), EventKind.BUDGET_CHANGED))
    waits = tell(tenant, EventKind.LOW_BALANCE, available=5_000_000, slots_left=2)
    try:
        titles, cursor, more = toasts(before)
    finally:
        earlier.commit()
    assert (titles, more) == ([], True)
    assert cursor is not None
    assert before <= cursor < waits.pk
    assert toasts(cursor) == (["Low balance."], waits.pk, False)
    assert toasts(waits.pk) == ([], waits.pk, False)


def test_the_bell_asks_nothing_of_its_own_and_counts_no_further_than_it_shows() -> None:
    """The count comes with the feed's cursor, which every page asks for."""
    person = member(make_tenant(), OWNER)
    rows = [
        Notice(person=person, kind=NoticeKind.SERVER_LOST, source=f"test:{number}", at=NOW, bell=True)
        for number in range(MOST_COUNTED + 20)
    ]
    Notice.objects.bulk_create(rows)
    cache.clear()
    with CaptureQueriesContext(connection) as queries:
        assert page_opening(person).unread == MOST_COUNTED
    assert len(queries) == 1


@pytest.mark.django_db(transaction=True)
def test_whoever_finds_somebody_at_it_leaves() -> None:
    tenant = make_tenant()
    owner = member(tenant, OWNER)
    notices_collect(at=NOW)
    tell(tenant, EventKind.BUDGET_PASSED)
    locked, over = Signal(), Signal()

    def at_it() -> None:
        with transaction.atomic():
            NoticeCursor.objects.select_for_update().get()
            locked.set()
            over.wait(PATIENCE)
        connection.close()

    other = Thread(target=at_it)
    other.start()
    try:
        assert locked.wait(PATIENCE)
        assert notices_collect(at=NOW) == 0
    finally:
        over.set()
        other.join(PATIENCE)
    assert notices_collect(at=NOW) == 1
    assert notice_counts([owner]) == [1]


def test_a_notice_of_a_pool_names_it_and_leads_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are several, one of them is on hold, and another page would open."""
    monkeypatch.setattr("scheduling.feed.read_events._settled", collecting.feed_cursor)  # the test's own transaction
    tenant, pools = make_tenant(), [make_pool("runs", name="Long runs"), make_pool("main", name="Main")]
    person = member(tenant, OWNER)
    choices_set(person=person, ways=dict.fromkeys(NoticeKind, ALL), all_jobs=False)
    concern = {"title": "Lowest ratio", "days": 7}
    for pool in pools:
        about: dict[str, Any] = {"pool_id": pool.pk, "at": NOW}
        lost = event(EventKind.SERVER_LOST, data={"server": "s1", "awards": 0}, **about)
        held = event(EventKind.POOL_HELD, **about)
        events_append([lost, held, event(EventKind.FAIRNESS_CONCERN, tenant_id=tenant.pk, data=concern, **about)])
    notices_collect(at=NOW)
    assert [(line.text, line.link) for line in lines(person)[:3]] == [
        (
            "Lowest ratio of 7 days in Main passed its limit, and it concerns you.",
            f"/t/{tenant.slug}/fairness/?pool=main",
        ),
        ("Main: nothing new is decided.", ""),
        ("s1 in Main does not answer. Nothing was booked on it.", ""),
    ]
    assert [line.text for line in lines(person)[4:]] == [
        "Long runs: nothing new is decided.",
        "s1 in Long runs does not answer. Nothing was booked on it.",
    ]
    with scope(tenant):
        toasts = toasts_after(by=access_of(person, tenant), after=0).toasts
    assert [toast.text for toast in toasts] == [line.text for line in reversed(lines(person)[:3])]

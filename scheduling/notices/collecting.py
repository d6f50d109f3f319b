"""Make notices of the feed, by one reader with a cursor.

What is made of a page of events is committed together with the cursor, so a crash loses nothing and doubles nothing;
the database keeps each notice unique besides. Open pages of the persons concerned are notified after the commit.

1. Lock the cursor. A process that finds it locked leaves, as another one is at work.
2. Read a page of events before which no other can appear any more, and the persons whom they may concern.
3. Decide who is notified of what: a pure function of these rows.
4. Write the notices and the cursor.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.db import transaction
from django.db.models import Q

from scheduling.feed import feed_cursor, persons_tell, subject_job
from scheduling.models import Event, Notice, NoticeCursor, TrainingJob
from scheduling.notices.kinds import KINDS_OF_EVENTS, OF_JOBS, NoticeKind, notice_kind
from scheduling.notices.mails import mail_due
from scheduling.notices.read_choices import Choices, choices_of
from tenants.joining import join_requests_to_tell
from tenants.models import Invitation, JoinState, Membership, StaffGrant
from tenants.roles import ROLES_ALLOWED, Permission
from tenants.scoping import scope_disabled
from tenants.selectors import persons_by_addresses

EVENTS_AT_ONCE = 500
ANSWER_TOLD_WITHIN = timedelta(days=3)  # of a request to join; an older answer is only on the page
OVER_WITHIN = timedelta(hours=1)  # of an invitation; a collector that stood still for longer leaves its notice unread
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Circle:
    """The persons whom events of some tenants may concern."""

    roles: Mapping[int, Mapping[int, str]]  # tenant -> person -> role
    everybody: frozenset[int]  # persons who get what is public: members of any tenant, and the staff
    submitters: Mapping[int, int | None]  # job -> person


def notices_collect(*, at: datetime) -> int:
    """Make notices, page of events by page, until none is left. Return how many were made."""
    count, more = 0, True
    while more:
        with scope_disabled("the feed of every tenant is read together, and each person is told of their own tenants"):
            number, more = _page(at)
        count += number
    return count


@transaction.atomic
def notices_skip() -> None:
    """Move the cursor to the end, so that nobody is notified of what has happened until now, such as a past that was
    made in a moment."""
    NoticeCursor.objects.bulk_create([NoticeCursor()], ignore_conflicts=True)
    row = NoticeCursor.objects.select_for_update().get()
    row.cursor = max(row.cursor, feed_cursor())
    row.save(update_fields=["cursor"])


@transaction.atomic
def _page(at: datetime) -> tuple[int, bool]:
    """Make the notices of one page of events. Return (notices, whether there may be more events)."""
    NoticeCursor.objects.bulk_create([NoticeCursor()], ignore_conflicts=True)
    row = NoticeCursor.objects.select_for_update(skip_locked=True).first()
    if row is None:
        return 0, False
    settled = feed_cursor()
    rows = Event.objects.filter(id__gt=row.cursor, id__lte=settled, kind__in=list(KINDS_OF_EVENTS)).order_by("id")
    events = list(rows.only("id", "kind", "tenant_id", "subject", "at", "data")[:EVENTS_AT_ONCE])
    more = len(events) == EVENTS_AT_ONCE
    fresh = [*_of_events(events, at), *_of_invitations(at), *_of_join_requests(at), *_of_months(row, at)]
    Notice.objects.bulk_create(fresh, ignore_conflicts=True, batch_size=5_000)
    cursor = events[-1].pk if more else max(settled, row.cursor)
    if (cursor, _month(at)) != (row.cursor, row.month):
        NoticeCursor.objects.filter(pk=row.pk).update(cursor=cursor, month=_month(at))
    persons_tell({notice.person_id for notice in fresh if notice.bell} | _invitations_read(at))
    if fresh:
        log.info("notices: %s of %s events, up to %s", len(fresh), len(events), cursor)
    return len(fresh), more


def _of_events(events: Sequence[Event], at: datetime) -> list[Notice]:
    events_with_kind = [(event, kind) for event in events if (kind := notice_kind(event.kind, event.data)) is not None]
    if not events_with_kind:
        return []
    circle = _circle([event for event, _ in events_with_kind])
    persons = circle.everybody.union(*(circle_role.keys() for circle_role in circle.roles.values()))
    return notices_for(events_with_kind, circle, choices_of(persons), at)


def notices_for(
    events: Iterable[tuple[Event, NoticeKind]], circle: Circle, choices: Choices, made_at: datetime
) -> list[Notice]:
    """Return the notices of these events. Events of a tenant are for its members only, by their roles; those of a job
    are for its submitter, and for members who want to hear of all jobs; and nobody gets a kind that they do not want.

    They are sent by the time at which they are made: a market that catches up tells of days before, and each mail of
    these would be due at once."""
    return [
        _notice(
            person_id,
            kind,
            at=event.at,
            made_at=made_at,
            tenant_id=event.tenant_id,
            event_id=event.pk,
            choices=choices,
        )
        for event, kind in events
        for person_id in sorted(_concerned(event, kind, circle, choices.all_jobs))
        if choices.now(person_id, kind).is_stored
    ]


def _concerned(event: Event, kind: NoticeKind, circle: Circle, all_jobs: Collection[int]) -> set[int]:
    if event.tenant_id is None:
        return set(circle.everybody)
    allowed = ROLES_ALLOWED[kind.permission]
    persons = {person for person, role in circle.roles.get(event.tenant_id, {}).items() if role in allowed}
    if kind in OF_JOBS:
        submitter = circle.submitters.get(subject_job(event.subject) or 0)
        persons = {person for person in persons if person == submitter or person in all_jobs}
    return persons


def _notice(
    person_id: int,
    kind: NoticeKind,
    *,
    at: datetime,
    choices: Choices,
    made_at: datetime | None = None,
    tenant_id: int | None = None,
    event_id: int | None = None,
    source: str = "",
) -> Notice:
    ways = choices.now(person_id, kind)
    return Notice(
        person_id=person_id,
        kind=kind,
        at=at,
        tenant_id=tenant_id,
        event_id=event_id,
        source=source,
        bell=ways.bell,
        mail_due_at=mail_due(ways.mail, made_at or at),
        chat_due_at=at if ways.chat else None,
    )


def _circle(events: Iterable[Event]) -> Circle:
    events = list(events)
    is_public = any(event.tenant_id is None for event in events)
    memberships = Membership.objects.filter(user__is_active=True)
    if not is_public:
        memberships = memberships.filter(tenant__in={event.tenant_id for event in events})
    roles: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for tenant_id, person_id, role in memberships.values_list("tenant_id", "user_id", "role"):
        roles[tenant_id][person_id] = role
    everybody: set[int] = set()
    if is_public:
        staff = StaffGrant.objects.filter(revoked_at=None, user__is_active=True)
        everybody = {person for role_persons in roles.values() for person in role_persons} | set(
            staff.values_list("user", flat=True)
        )
    jobs = {job_id for event in events if (job_id := subject_job(event.subject)) is not None}
    submitters = dict(TrainingJob.objects.filter(pk__in=jobs).values_list("pk", "submitted_by_id")) if jobs else {}
    return Circle(roles, frozenset(everybody), submitters)


def _of_invitations(at: datetime) -> list[Notice]:
    """Return notices of invitations, for persons who have proved the invited address. No event reports them, as an
    invited person belongs to no tenant yet. They are few, and each is read until it is accepted, withdrawn or over: its
    person may come later."""
    waiting = Invitation.objects.filter(accepted_at=None, revoked_at=None, expires_at__gt=at)
    invited = list(waiting.order_by("pk").values_list("pk", "email"))
    if not invited:
        return []
    persons: defaultdict[str, set[int]] = defaultdict(set)
    for email, person in persons_by_addresses({email for _, email in invited}):
        persons[email].add(person)
    sources = [(f"invitation:{number}", person) for number, email in invited for person in sorted(persons[email])]
    notices_made = set(
        Notice.objects.filter(source__in=[source for source, _ in sources]).values_list("source", "person")
    )
    choices = choices_of({person for _, person in sources})
    return [
        _notice(person, NoticeKind.INVITATION, at=at, source=source, choices=choices)
        for source, person in sources
        if (source, person) not in notices_made and choices.now(person, NoticeKind.INVITATION).is_stored
    ]


def _invitations_read(at: datetime) -> set[int]:
    """Mark notices of invitations as read that were accepted or withdrawn lately, and return their persons: nothing is
    left to do about them."""
    since = at - OVER_WITHIN
    over = Invitation.objects.filter(Q(accepted_at__gt=since) | Q(revoked_at__gt=since))
    sources = [f"invitation:{number}" for number in over.values_list("pk", flat=True)]
    if not sources:
        return set()
    unread = Notice.objects.filter(source__in=sources, read_at=None, bell=True)
    persons = set(unread.values_list("person", flat=True))
    unread.update(read_at=at)
    return persons


def _of_join_requests(at: datetime) -> list[Notice]:
    """Return notices of requests to join: the owners get those that wait, and the person who asked gets an answer. No
    event reports them, as a person who asks belongs to no tenant yet."""
    rows = join_requests_to_tell(at - ANSWER_TOLD_WITHIN)
    if not rows:
        return []
    waiting = {row.tenant_id for row in rows if row.state == JoinState.WAITING}
    allowed = ROLES_ALLOWED[NoticeKind.JOIN_REQUEST.permission]
    members = Membership.objects.filter(tenant__in=waiting, role__in=allowed, user__is_active=True)
    owners: defaultdict[int, list[int]] = defaultdict(list)
    for tenant_id, person_id in members.order_by("pk").values_list("tenant_id", "user_id"):
        owners[tenant_id].append(person_id)
    notice_sources: list[tuple[NoticeKind, int | None, str, int]] = []
    for row in rows:
        if row.state == JoinState.WAITING:
            source = f"{NoticeKind.JOIN_REQUEST}:{row.pk}"
            notice_sources += [
                (NoticeKind.JOIN_REQUEST, row.tenant_id, source, owner) for owner in owners[row.tenant_id]
            ]
        else:
            notice_sources.append((NoticeKind.JOIN_ANSWER, None, f"{NoticeKind.JOIN_ANSWER}:{row.pk}", row.person_id))
    sources = {source for _, _, source, _ in notice_sources}
    notices_made = set(Notice.objects.filter(source__in=sources).values_list("source", "person"))
    choices = choices_of({person for _, _, _, person in notice_sources})
    return [
        _notice(person, kind, at=at, tenant_id=tenant_id, source=source, choices=choices)
        for kind, tenant_id, source, person in notice_sources
        if (source, person) not in notices_made and choices.now(person, kind).is_stored
    ]


def _of_months(row: NoticeCursor, at: datetime) -> list[Notice]:
    """Return notices that a month of UTC is over, for persons who may see the book of a tenant that had an account in
    it. The first call of an installation returns none."""
    if row.month is None or row.month >= _month(at):
        return []
    month = f"{_month(at) - timedelta(days=1):%Y-%m}"
    allowed = ROLES_ALLOWED[Permission.LEDGER_VIEW]
    members = Membership.objects.filter(user__is_active=True, role__in=allowed, tenant__created_at__lt=_month_start(at))
    members_listed = list(members.order_by("pk").values_list("tenant", "user"))
    choices = choices_of({person for _, person in members_listed})
    return [
        _notice(
            person,
            NoticeKind.STATEMENT,
            at=at,
            tenant_id=tenant,
            source=f"statement:{month}:{tenant}",
            choices=choices,
        )
        for tenant, person in members_listed
        if choices.now(person, NoticeKind.STATEMENT).is_stored
    ]


def _month(at: datetime) -> date:
    return at.date().replace(day=1)


def _month_start(at: datetime) -> datetime:
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)

"""Read a person's notices: the list, in words, and how many are unread.

A person who left a tenant, or may no longer see its jobs or its money, no longer sees notices of these: each reading
checks the membership and the role of that moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from scheduling.feed import feed_cursor, kind_of, message_text, subject_job
from scheduling.models import Event, Notice, TrainingJob
from scheduling.notices.kinds import NoticeKind, notice_kind_of
from tenants.models import Invitation, JoinRequest, JoinState, Membership, User
from tenants.names import in_one_line
from tenants.roles import ROLES_ALLOWED, TENANT_ROLES, Permission
from tenants.scoping import scope_disabled

MOST_COUNTED = 100  # the bell says "99+", so the rest need not be counted


@dataclass(frozen=True)
class Opening:
    """What a page needs as it opens: the cursor from which its socket catches up with the feed, and how many notices
    are unread."""

    cursor: int
    unread: int


@dataclass(frozen=True)
class NoticeLine:
    """A notice in words, as its person may read it now."""

    id: int
    kind: NoticeKind
    at: datetime
    tenant: str  # its name; empty where it is of none
    is_good: bool
    title: str
    text: str
    link: str  # to the page that it is about; empty where there is none
    is_unread: bool


def page_opening(person: User | None) -> Opening:
    """Return both in one query, as every page needs them. The count comes with the cursor, so nothing between the two
    is missed."""
    if person is None:
        return Opening(feed_cursor(), 0)
    sql, parameters = _counted(person).query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT scheduling_event_settled(), (SELECT count(*) FROM ({sql}) AS unread)",  # noqa: S608  Django's SQL
            parameters,
        )
        settled, unread = cursor.fetchone()
    return Opening(int(settled), int(unread))


def unread_count(person: User | None) -> int:
    """Return how many are unread, up to `MOST_COUNTED`, for a page that has no socket."""
    return _counted(person).count() if person else 0


def _counted(person: User) -> QuerySet[Notice]:
    return notices_of(person).filter(read_at=None).order_by().only("pk")[:MOST_COUNTED]


def notices_of(person: User) -> QuerySet[Notice]:
    """Return the notices in the person's list that they may still see; in any scope."""
    return may_be_seen().filter(person=person, bell=True)


def may_be_seen() -> QuerySet[Notice]:
    """Return the notices of all persons that each of them may see now."""
    with scope_disabled("a person's own notices lie in several tenants, and each asks for a membership there"):
        memberships = Membership.objects.filter(tenant=OuterRef("tenant"), user=OuterRef("person"))
        condition = Q(tenant=None)
        for permission, kinds in _kinds_by_permission().items():
            roles = sorted(ROLES_ALLOWED[permission] & set(TENANT_ROLES))
            condition |= Q(Exists(memberships.filter(role__in=roles)), kind__in=kinds)
    return Notice.objects.filter(condition)


def _kinds_by_permission() -> Mapping[Permission, list[str]]:
    kinds: dict[Permission, list[str]] = {}
    for kind in NoticeKind:
        kinds.setdefault(kind.permission, []).append(kind.value)
    return kinds


def notice_lines(notices: Iterable[Notice]) -> list[NoticeLine]:
    """Return the lines of notices that their person may see, with their events, the pools of these, and tenants at
    hand."""
    rows = list(notices)
    names, invitations, requests = _job_names(rows), _invitations(rows), _join_requests(rows)
    return [line for row in rows if (line := _line(row, names, invitations, requests)) is not None]


def _line(
    row: Notice,
    names: Mapping[int, str],
    invitations: Mapping[int, Invitation],
    requests: Mapping[int, JoinRequest],
) -> NoticeLine | None:
    """Return a notice in words, or None if another version wrote it."""
    kind, tenant = notice_kind_of(row.kind), row.tenant
    if kind is None:
        return None
    slug, link, is_good = tenant.slug if tenant else "", "", True
    if row.event is not None:
        about = kind_of(row.event.kind)
        if about is None or about.message is None:
            return None
        job_id = subject_job(row.event.subject)
        is_good, title = about.message.is_good, about.message.title
        name = pool_name(row.event) if job_id is None else names.get(job_id, "A job")
        text = message_text(about.message, name, row.event.data)
        if job_id in names and slug:
            link = reverse("job", args=[slug, job_id])
        elif kind is NoticeKind.WEBHOOK and slug:
            link = reverse("tenant_webhook", args=[slug, row.event.data["webhook"]])
        elif slug:
            link = reverse(_PAGES.get(kind, "tenant_market"), args=[slug])
            link += f"?pool={row.event.pool.slug}" if kind in _OF_A_POOL and row.event.pool else ""
    elif kind is NoticeKind.INVITATION:
        invitation = invitations.get(_number(row.source))
        title = "Invitation."
        text = (
            f"{invitation.invited_by} invites you to {invitation.tenant}, as {invitation.role}." if invitation else ""
        )
        link = reverse("my_tenants")
    elif kind in _OF_JOIN_REQUESTS:
        request = requests.get(_number(row.source))
        title = f"{kind.label}."
        is_own = kind is NoticeKind.JOIN_ANSWER
        text = (_answer_words(request) if is_own else _request_words(request)) if request else ""
        is_good = request is None or request.state != JoinState.DECLINED
        link = reverse("my_tenants") if is_own else reverse("tenant_members", args=[slug]) if slug else ""
    else:
        month = datetime.strptime(row.source.split(":")[1], "%Y-%m")  # noqa: DTZ007  a month, and no moment
        title, text = "Statement ready.", f"The statement of {month:%B %Y} is complete."
        link = reverse("tenant_statements", args=[slug]) if slug else ""
    return NoticeLine(
        row.pk, kind, row.at, tenant.name if tenant else "", is_good, title, text, link, row.read_at is None
    )


def pool_name(event: Event) -> str:
    """Return the name by which words for people call the pool that an event is about."""
    return event.pool.name if event.pool else "the market"


def _request_words(request: JoinRequest) -> str:
    who = f"{request.person} ({request.person.email})"
    if request.state == JoinState.WAITING:
        return f"{who} asks to join: \N{LEFT DOUBLE QUOTATION MARK}{request.why}\N{RIGHT DOUBLE QUOTATION MARK}"
    return f"{who} asked to join; the request is {request.state}."


def _answer_words(request: JoinRequest) -> str:
    if request.state == JoinState.ACCEPTED:
        return f"{request.tenant} accepted your request: you are a member now, as {request.role}."
    return f"{request.tenant} declined your request: {request.answer}"


def paragraph(line: NoticeLine, base: str) -> str:
    """Return the line for mails and chat tools. `base` is how links begin, as there is no request there that says
    it."""
    where = f" ({in_one_line(line.tenant)})" if line.tenant else ""
    words = f"{line.at.astimezone(UTC):%d %b %H:%M}{where}  {in_one_line(f'{line.title} {line.text}')}"
    return f"{words}\n{base}{line.link}" if line.link else words


_PAGES: Mapping[NoticeKind, str] = {
    NoticeKind.LOW_BALANCE: "tenant_ledger",
    NoticeKind.BUDGET: "tenant_share",
    NoticeKind.FAIRNESS: "tenant_fairness",
}
_OF_A_POOL = frozenset({NoticeKind.FAIRNESS})  # whose page is about one pool; what is about credits is about all


_OF_JOIN_REQUESTS = (NoticeKind.JOIN_REQUEST, NoticeKind.JOIN_ANSWER)


def _number(source: str) -> int:
    number = source.partition(":")[2]
    return int(number) if number.isdigit() else 0


def _job_names(rows: Iterable[Notice]) -> dict[int, str]:
    ids = {job_id for row in rows if row.event is not None and (job_id := subject_job(row.event.subject)) is not None}
    if not ids:
        return {}
    with scope_disabled("a person's own notices lie in several tenants; those of jobs are of whoever may see jobs"):
        return dict(TrainingJob.objects.filter(pk__in=ids).values_list("pk", "name"))


def _invitations(rows: Iterable[Notice]) -> dict[int, Invitation]:
    ids = [_number(row.source) for row in rows if row.kind == NoticeKind.INVITATION]
    if not ids:
        return {}
    with scope_disabled("the invited person belongs to none of these tenants yet"):
        return {row.pk: row for row in Invitation.objects.filter(pk__in=ids).select_related("tenant", "invited_by")}


def _join_requests(rows: Iterable[Notice]) -> dict[int, JoinRequest]:
    ids = [_number(row.source) for row in rows if row.kind in _OF_JOIN_REQUESTS]
    if not ids:
        return {}
    with scope_disabled(
        "owners are told of requests in several tenants, and whoever asked belongs to none of them yet"
    ):
        return {row.pk: row for row in JoinRequest.objects.filter(pk__in=ids).select_related("tenant", "person")}

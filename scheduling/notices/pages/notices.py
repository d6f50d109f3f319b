"""Pages of a person's notices, and of what they want to be notified of and how."""

from __future__ import annotations

from dataclasses import replace

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.db.models import Max
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe

from scheduling.models import ChatForm, MailWay
from scheduling.notices.choices import choices_set, notices_read
from scheduling.notices.kinds import NoticeKind
from scheduling.notices.mails import mails_stop, person_of
from scheduling.notices.read_choices import Ways, chat_of, choices_of
from scheduling.notices.read_notices import notice_lines, notices_of, unread_count
from tenants.access import AccessRequest
from tenants.models import User
from tenants.views.gate import posted_from
from tenants.views.parts import part_or_page
from tenants.views.tables import Table, table_of

PARTS = {"bell": "shell/bell.html"}
LIST = Table(columns=(), sort="-id", rows=15)


@require_safe
def notices(request: AccessRequest) -> HttpResponse:
    """Show the list. `?part=bell` is the bell alone; `?show=unread` leaves out notices that were read."""
    if "part" in request.GET:
        return part_or_page(request, "shell/bell.html", PARTS, {})
    person = _person(request)
    rows = notices_of(person).select_related("event__pool", "tenant")
    only_unread = request.GET.get("show") == "unread"
    table = table_of(request, rows.filter(read_at=None) if only_unread else rows, LIST)
    context = {
        "unread": unread_count(person),
        "table": replace(table, export=""),  # no export, as the rows are words for a person and nothing to count with
        "lines": notice_lines(table.rows),
        "newest": notices_of(person).aggregate(newest=Max("pk"))["newest"] or 0,
        "only_unread": only_unread,
    }
    return render(request, "notices/notices.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def notice_choices(request: AccessRequest) -> HttpResponse:
    """Show or save the table of choices. A form has all of its ticks at once: what is not ticked is not wanted."""
    person = _person(request)
    if request.method != "POST":
        choices = choices_of([person.pk])
        kinds = [(kind, choices.of(person.pk, kind)) for kind in NoticeKind]
        context = {"kinds": kinds, "mail_ways": MailWay.choices, "all_jobs": person.pk in choices.all_jobs}
        context |= {"chat": chat_of(person), "chat_forms": ChatForm.choices}
        return render(request, "notices/choices.html", context)
    ways = {kind: _ways(request, kind) for kind in NoticeKind}
    choices_set(person=person, ways=ways, all_jobs="all_jobs" in request.POST)
    messages.success(request, "Saved. It holds for what happens from now on.")
    return redirect("notice_choices")


@posted_from("notices")
def notices_mark(request: AccessRequest) -> HttpResponse:
    """Mark as read the notice that was pressed, or all up to the newest that there was when the page was made, on
    whichever page of the list. The answer is the list that it was pressed in."""
    until, only = _number(request.POST.get("until")), request.POST.get("notice")
    if only is not None:
        until = _number(only)
    notices_read(person=_person(request), at=timezone.now(), until=until, only=None if only is None else until)
    page = reverse("notices")
    return redirect(f"{page}?show=unread" if request.POST.get("show") == "unread" else page)


def _ways(request: AccessRequest, kind: NoticeKind) -> Ways:
    mail = request.POST.get(f"{kind}.mail", MailWay.NONE)
    return Ways(
        bell=f"{kind}.bell" in request.POST,
        toast=f"{kind}.toast" in request.POST,
        mail=mail if mail in MailWay.values else MailWay.NONE,
        chat=f"{kind}.chat" in request.POST,
    )


@require_safe
def notices_guide(request: AccessRequest) -> HttpResponse:
    """Show what one is notified of, and how: the list of kinds, and how a chat tool is set up."""
    return render(request, "notices/guide.html", {"kinds": list(NoticeKind), "chat_forms": ChatForm.choices})


@login_not_required
@csrf_exempt  # a mail program sends the form; the signed address says whose mails end
@require_http_methods(["GET", "HEAD", "POST"])
def notices_stop(request: AccessRequest, token: str) -> HttpResponse:
    """Answer the link in the last line of a mail. A GET changes nothing, as mail programs open links by themselves."""
    person = person_of(token)
    if person is None:
        raise Http404
    if request.method == "POST":
        mails_stop(person)
    return render(request, "notices/stop.html", {"person": person, "is_done": request.method == "POST"})


def _person(request: AccessRequest) -> User:
    assert request.access.user is not None  # noqa: S101  the log-in middleware lets nobody else through
    return request.access.user


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else 0

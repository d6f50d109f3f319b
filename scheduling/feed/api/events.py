"""What happened, for whoever follows it: as a list by cursor, and as a stream of server-sent events."""

from __future__ import annotations

from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common import event_document
from scheduling.common.api.views import UNKNOWN_POOL, pool_by_slug
from scheduling.feed.api.hub import open_streams
from scheduling.feed.api.stream import StreamReader, pieces_now, stream
from scheduling.feed.notify import pool_group, tenant_group
from scheduling.feed.read_events import event_rows, feed_cursor
from scheduling.models import Event, Pool
from tenants.api.authentication import person_name
from tenants.api.fields import Answer, Moment, Numbers
from tenants.api.listing import Listing, moment, whole, word
from tenants.api.operations import EVENT_STREAM, operation
from tenants.api.problems import Problem, problem_response
from tenants.api.views import TenantView
from tenants.roles import Permission

MOST_STREAMS = 16  # open streams of one person in one process
TOO_MANY = Problem(
    429,
    "too_many_streams",
    f"{MOST_STREAMS} streams of yours are open already. Close one first.",
    headers={"Retry-After": "5"},
)


class EventShown(Answer):
    id = serializers.IntegerField(help_text="Rising in the order of the feed; the cursor.")
    kind = serializers.CharField()
    at = Moment()
    pool = serializers.CharField(allow_null=True)
    public = serializers.BooleanField(help_text="Everybody of the coalition sees it; else it is the tenant's own.")
    subject = serializers.CharField(help_text='What it is about: "job:4711".')
    data = Numbers(help_text="By kind; credits as decimal texts.")  # type: ignore[assignment]  # as in ProblemDocument

    def to_representation(self, event: Event) -> dict[str, Any]:
        return event_document(event, event.pool)


EXAMPLE: dict[str, Any] = {
    "id": 120344,
    "kind": "job_awarded",
    "at": "2026-03-02T12:19:51.204000Z",
    "pool": "main",
    "public": False,
    "subject": "job:4711",
    "data": {"job": 4711, "award": 902, "lane": "instant", "phase": "shared", "workers": 4, "paid": "12.500000"},
}
STREAM_EXAMPLE = (
    "retry: 2000\nid: 120343\n\n"
    'id: 120344\nevent: job_awarded\ndata: {"id":120344,"kind":"job_awarded"}\n\n: still here\n\n'
)
EVENTS = Listing(
    EventShown,
    orderings=("id", "-id"),
    filters=(
        whole("after", "Only events with a larger id: how to go on where the last page ended.", "id__gt"),
        word("kind", "Only events of this kind."),
        word("subject", "Only events about exactly this."),
        word("pool", "Only events of the pool of this short name.", "pool__slug"),
        moment("from", "At this time or later.", "at__gte"),
        moment("before", "Before this time.", "at__lt"),
    ),
)
VISIBILITY = (
    "Seen are the tenant's own events, as far as the caller's role shows jobs and money, and those that everybody may "
    "know. "
)


class Events(TenantView):
    @operation(
        "events_list",
        summary="What happened",
        description=VISIBILITY
        + "The oldest first. None is ever skipped or comes in before one that was read. To follow the "
        "feed, ask again with `after` and the last id that was read.",
        permission=Permission.TENANT_VIEW,
        listing=EVENTS,
        answer_example=EXAMPLE,
        refusals=("unknown_pool",),
        tag="events",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        if "pool" in self.parameters and pool_by_slug(self.parameters["pool"]) is None:
            return self.refused(UNKNOWN_POOL)
        return self.listed(event_rows(by=self.access))


class EventStream(TenantView):
    @operation(
        "events_stream",
        summary="What happens, as it happens",
        description=VISIBILITY
        + "Server-sent events: `id` is the cursor, `event` the kind, `data` the event as in the list. "
        "It begins behind the header `Last-Event-ID`, else behind `after`, else now; its first `id`, without an event, "
        "says where. A comment comes every fifteen "
        "seconds in which nothing happens. The stream ends after half an hour, or when the caller loses the right to "
        "it, as by a log-out or a new password; a client comes back with the last id and misses nothing. Whoever has "
        "sixteen open already gets 429 `too_many_streams`.",
        permission=Permission.TENANT_VIEW,
        filters=(whole("after", "Only events with a larger id. The header `Last-Event-ID` goes before it."),),
        answer_example=STREAM_EXAMPLE,
        stream=True,
        tag="events",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        reader = StreamReader(self.access, self._after(request))
        assert self.access.user is not None  # noqa: S101  the gate has made sure
        caller = person_name(self.access.user)
        if open_streams[caller] >= MOST_STREAMS:
            return problem_response(TOO_MANY)
        if request.method == "HEAD":  # the server would read a stream for as long as it goes on, and send none of it
            return HttpResponse(content_type=EVENT_STREAM)
        if isinstance(request._request, ASGIRequest):
            pools = Pool.objects.values_list("pk", flat=True)
            groups = [tenant_group(self.tenant.pk), *(pool_group(pool_id) for pool_id in pools)]
            content: Any = stream(reader, groups, caller)
        else:
            content = pieces_now(reader)
        response = StreamingHttpResponse(content, content_type=EVENT_STREAM)
        response.headers["X-Accel-Buffering"] = "no"
        response.headers["Cache-Control"] = "no-store"
        return response

    def _after(self, request: Request) -> int:
        """Return the cursor to begin after. A header that cannot be read counts as not given, as in the standard."""
        last = request.headers.get("Last-Event-ID", "").strip()
        if last.isascii() and last.isdigit() and len(last) < 19:
            return int(last)
        after = self.parameters.get("after")
        return feed_cursor() if after is None else int(after)

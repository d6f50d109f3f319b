"""What webhooks and their deliveries look like to a program; with examples."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.feed import OWN_KINDS
from scheduling.feed.api.events import EXAMPLE as EVENT_EXAMPLE
from scheduling.feed.api.events import EventShown
from scheduling.models import DeliveryState, Webhook, WebhookForm
from scheduling.webhooks.addresses import LONGEST_URL
from scheduling.webhooks.signing import ID_HEADER, SIGNATURE_HEADER, TIME_HEADER
from tenants.api.fields import Answer, Flag, Form, Moment, Several, Text
from tenants.api.listing import Listing, choice, flag, word

SIGNED = (
    "Each call is a POST with the event as JSON, signed as Standard Webhooks says, for which there are libraries. "
    f"`{ID_HEADER}` is the delivery's number, the same for every try; `{TIME_HEADER}` the time in seconds since 1970; "
    f"`{SIGNATURE_HEADER}` is `v1,` and the HMAC-SHA256, in base64, of number, time and body with points between them. "
    "Its key is what stands in base64 after the secret's `whsec_`. Refuse what is older than five minutes. Webhooks "
    "whose `form` is `before` keep the headers and the form of versions before 1.0. Answer with 200 to 299 within five "
    "seconds; anything else, redirects included, counts as a failure and is tried again, later each time. An event may "
    "come twice, and events may come out of order."
)
KINDS_TOLD = "Which kinds of events; empty, or left out: all."


def _kinds(**options: Any) -> Several:
    return Several(
        child=Text(max_length=40), max_length=len(OWN_KINDS), help_text=KINDS_TOLD, required=False, **options
    )


class NewWebhook(Form):
    url = Text(max_length=LONGEST_URL, help_text="A public address that begins with https://.")
    kinds = _kinds(default=list)


class WebhookChange(Form):
    url = Text(required=False, max_length=LONGEST_URL)
    kinds = _kinds()
    active = Flag(required=False)


class WebhookShown(Answer):
    id = serializers.IntegerField()
    url = serializers.CharField()
    kinds = serializers.ListField(child=serializers.CharField(), help_text="Empty: all.")
    active = serializers.BooleanField()
    form = serializers.ChoiceField(WebhookForm.choices, help_text="How calls are signed; it never changes.")
    created_at = Moment()
    failures = serializers.IntegerField(help_text="In a row, since it last worked.")
    failing_since = Moment(allow_null=True)
    switched_off_at = Moment(allow_null=True, help_text="By the market, after three days without success.")


class WebhookIssued(WebhookShown):
    secret = serializers.SerializerMethodField(
        help_text="Shown in this answer only. A replay of the request has null here."
    )

    def get_secret(self, webhook: Webhook) -> str | None:
        return str(self.context["secret"])


class WebhookGone(Answer):
    removed = serializers.BooleanField()


class TryShown(Answer):
    number = serializers.IntegerField()
    started_at = Moment()
    ended_at = Moment(allow_null=True, help_text="Null while it runs, and for good where it was cut short.")
    status = serializers.IntegerField(allow_null=True, help_text="Of the answer, where one came.")
    flaw = serializers.CharField(help_text="Why it failed; empty where it worked.")
    answer = serializers.CharField(help_text="How the answer began.")


class DeliveryShown(Answer):
    id = serializers.IntegerField(source="delivery.pk")
    state = serializers.ChoiceField(DeliveryState.choices, source="delivery.state")
    event = EventShown(source="delivery.event")
    next_at = Moment(source="delivery.next_at", help_text="While it waits: not tried before.")
    created_at = Moment(source="delivery.created_at")
    ended_at = Moment(source="delivery.ended_at", allow_null=True)
    tries = TryShown(many=True)


EXAMPLE: dict[str, Any] = {
    "id": 3,
    "url": "https://hooks.lumen.example/bourse",
    "kinds": ["job_awarded", "job_finished"],
    "active": True,
    "form": "standard",
    "created_at": "2026-03-02T12:00:00Z",
    "failures": 0,
    "failing_since": None,
    "switched_off_at": None,
}
ISSUED_EXAMPLE = EXAMPLE | {"secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}
DELIVERY_EXAMPLE: dict[str, Any] = {
    "id": 88,
    "state": "delivered",
    "event": EVENT_EXAMPLE,
    "next_at": "2026-03-02T12:19:52Z",
    "created_at": "2026-03-02T12:19:52Z",
    "ended_at": "2026-03-02T12:19:52.310000Z",
    "tries": [
        {
            "number": 1,
            "started_at": "2026-03-02T12:19:52Z",
            "ended_at": "2026-03-02T12:19:52.310000Z",
            "status": 204,
            "flaw": "",
            "answer": "",
        }
    ],
}
WEBHOOKS = Listing(
    WebhookShown, orderings=("id", "-id"), filters=(flag("active", "Only those that are switched on, or off."),)
)
DELIVERIES = Listing(
    DeliveryShown,
    orderings=("-id", "id"),
    filters=(
        choice("state", DeliveryState.values, "Only deliveries in one of these states."),
        word("kind", "Only events of this kind.", "event__kind"),
    ),
)

"""Webhooks of a tenant: make, list, change, remove, a new secret; and the log of deliveries with replay."""

from __future__ import annotations

from http import HTTPStatus

from django.http import Http404
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request

from scheduling.models import Webhook
from scheduling.webhooks import changes
from scheduling.webhooks.api.fields import (
    DELIVERIES,
    DELIVERY_EXAMPLE,
    EXAMPLE,
    ISSUED_EXAMPLE,
    SIGNED,
    WEBHOOKS,
    DeliveryShown,
    NewWebhook,
    WebhookChange,
    WebhookGone,
    WebhookIssued,
    WebhookShown,
)
from scheduling.webhooks.read_webhooks import deliveries_seen, delivery_list, webhook_by_id, webhook_list
from tenants.access import Refused
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.roles import Permission

URL_REFUSALS = ("invalid_webhook_url", "webhook_address_private", "invalid_webhook_kinds")


class _Webhooks(TenantView):
    def _answer_with(
        self, outcome: Webhook | changes.IssuedWebhook | Refused, status: int = HTTPStatus.OK
    ) -> HttpResponseBase:
        if isinstance(outcome, Refused):
            return self.refused(outcome)
        if isinstance(outcome, Webhook):
            return self.shown(WebhookShown, outcome, status)
        return self.shown(WebhookIssued, outcome.webhook, status, context={"secret": outcome.secret})


class Webhooks(_Webhooks):
    @operation(
        "webhooks_list",
        summary="Webhooks of the tenant",
        description="Where events are told, and how it goes. No secret is shown.",
        permission=Permission.WEBHOOKS_CHANGE,
        listing=WEBHOOKS,
        answer_example=EXAMPLE,
        tag="webhooks",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.listed(webhook_list())

    @operation(
        "webhooks_create",
        summary="Make a webhook",
        description=f"The tenant's own events are told there from now on. {SIGNED}",
        permission=Permission.WEBHOOKS_CHANGE,
        body=NewWebhook,
        answer=WebhookIssued,
        status=HTTPStatus.CREATED,
        request_example={"url": "https://hooks.lumen.example/bourse", "kinds": ["job_awarded", "job_finished"]},
        answer_example=ISSUED_EXAMPLE,
        refusals=(*URL_REFUSALS, "too_many_webhooks"),
        secret_fields=("secret",),
        tag="webhooks",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body = self.read(NewWebhook)
        outcome = changes.webhook_create(by=self.access, at=timezone.now(), **body)
        return self._answer_with(outcome, HTTPStatus.CREATED)


class OneWebhook(_Webhooks):
    @operation(
        "webhooks_read",
        summary="One webhook",
        description="As in the list.",
        permission=Permission.WEBHOOKS_CHANGE,
        answer=WebhookShown,
        answer_example=EXAMPLE,
        tag="webhooks",
    )
    def get(self, request: Request, tenant_slug: str, webhook_id: int) -> HttpResponseBase:
        return self.shown(WebhookShown, found_or_404(webhook_id))


class WebhookChanged(_Webhooks):
    @operation(
        "webhooks_change",
        summary="Change a webhook",
        description="What is left out stays. Switched on again, it goes on where it stopped: what happened meanwhile "
        "is told too.",
        permission=Permission.WEBHOOKS_CHANGE,
        body=WebhookChange,
        answer=WebhookShown,
        request_example={"active": False},
        answer_example=EXAMPLE | {"active": False},
        refusals=(*URL_REFUSALS, "unknown_webhook"),
        tag="webhooks",
    )
    def post(self, request: Request, tenant_slug: str, webhook_id: int) -> HttpResponseBase:
        body = self.read(WebhookChange)
        outcome = changes.webhook_change(webhook_id=webhook_id, by=self.access, at=timezone.now(), **body)
        return self._answer_with(outcome)


class WebhookSecret(_Webhooks):
    @operation(
        "webhooks_secret",
        summary="A new secret for a webhook",
        description="The one before proves nothing any more, from the next try on. " + SIGNED,
        permission=Permission.WEBHOOKS_CHANGE,
        answer=WebhookIssued,
        answer_example=ISSUED_EXAMPLE,
        refusals=("unknown_webhook",),
        secret_fields=("secret",),
        tag="webhooks",
    )
    def post(self, request: Request, tenant_slug: str, webhook_id: int) -> HttpResponseBase:
        outcome = changes.webhook_secret_renew(webhook_id=webhook_id, by=self.access, at=timezone.now())
        return self._answer_with(outcome)


class WebhookRemove(_Webhooks):
    @operation(
        "webhooks_remove",
        summary="Remove a webhook",
        description="Nothing is told there any more, what waits included.",
        permission=Permission.WEBHOOKS_CHANGE,
        answer=WebhookGone,
        answer_example={"removed": True},
        refusals=("unknown_webhook",),
        tag="webhooks",
    )
    def post(self, request: Request, tenant_slug: str, webhook_id: int) -> HttpResponseBase:
        refused = changes.webhook_remove(webhook_id=webhook_id, by=self.access, at=timezone.now())
        return self.refused(refused) if refused else self.shown(WebhookGone, {"removed": True})


class Deliveries(_Webhooks):
    @operation(
        "webhook_deliveries",
        summary="What was told at a webhook",
        description="One line for each event, the newest first, with every try and how the answer began.",
        permission=Permission.WEBHOOKS_CHANGE,
        listing=DELIVERIES,
        answer_example=DELIVERY_EXAMPLE,
        tag="webhooks",
    )
    def get(self, request: Request, tenant_slug: str, webhook_id: int) -> HttpResponseBase:
        return self.listed(delivery_list(found_or_404(webhook_id)), deliveries_seen)


class DeliveryReplay(_Webhooks):
    @operation(
        "webhook_replay",
        summary="Tell an event again",
        description="Whatever became of the delivery. Its number stays, so that the receiver knows the repetition.",
        permission=Permission.WEBHOOKS_CHANGE,
        answer=DeliveryShown,
        answer_example=DELIVERY_EXAMPLE | {"state": "waiting", "ended_at": None},
        refusals=("unknown_webhook", "unknown_delivery", "webhook_off", "still_waiting"),
        tag="webhooks",
    )
    def post(self, request: Request, tenant_slug: str, webhook_id: int, delivery_id: int) -> HttpResponseBase:
        outcome = changes.webhook_replay(
            webhook_id=webhook_id, delivery_id=delivery_id, by=self.access, at=timezone.now()
        )
        return (
            self.refused(outcome)
            if isinstance(outcome, Refused)
            else self.shown(DeliveryShown, deliveries_seen([outcome])[0])
        )


def found_or_404(webhook_id: int) -> Webhook:
    webhook = webhook_by_id(webhook_id)
    if webhook is None:
        raise Http404
    return webhook

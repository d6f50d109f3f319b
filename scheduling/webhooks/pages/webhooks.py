"""Pages of the open tenant's webhooks, and of the log of what was sent to one of them. Secrets are shown once."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.functional import lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from scheduling.feed import OWN_KINDS
from scheduling.models import DeliveryState, Webhook, WebhookDelivery
from scheduling.webhooks import changes
from scheduling.webhooks.addresses import LONGEST_URL, address_help
from scheduling.webhooks.read_webhooks import DeliverySeen, deliveries_seen, delivery_list, webhook_by_id, webhook_list
from tenants.access import AccessRequest, Refused
from tenants.form_fields import WholeForm
from tenants.roles import Permission
from tenants.views.gate import posted_from, requires, tell
from tenants.views.tables import Column, Table, asks_csv, csv_response, table_of

KINDS = [(kind, kind.replace("_", " ").capitalize()) for kind in sorted(OWN_KINDS)]
ELSEWHERE = {"invalid_webhook_kinds": "kinds", "too_many_webhooks": None, "unknown_webhook": None}  # not the address
LOG = Table(
    columns=(
        Column("id", "delivery"),
        Column("event_id", "event"),
        Column("kind", "kind", value=lambda row: row.event.kind),
        Column("subject", "subject", value=lambda row: row.event.subject),
        Column("state", "state"),
        Column("tries", "tries", numeric=True),
        Column("created_at", "created"),
        Column("ended_at", "ended"),
    ),
    file="deliveries",
)


class NewWebhookForm(forms.Form):
    url = forms.CharField(
        max_length=LONGEST_URL,
        label="Address",
        help_text=lazy(lambda: f"{address_help()} Events are sent there as they happen.", str)(),
        widget=forms.URLInput(attrs={"autocomplete": "off"}),
    )
    kinds = forms.MultipleChoiceField(
        choices=KINDS, required=False, widget=forms.CheckboxSelectMultiple, label="Which events? None chosen: all."
    )


class WebhookChangeForm(WholeForm, NewWebhookForm):
    """The address and kinds of a webhook that is there."""

    changed_meanwhile = (
        "Somebody has changed this webhook while you looked at it. Open its page anew to see what it is now, or save "
        "once more to set what stands here."
    )

    def __init__(self, webhook: Webhook, data: Any = None) -> None:
        version = " ".join([webhook.url, *webhook.kinds])
        super().__init__(version, data, initial={"url": webhook.url, "kinds": webhook.kinds})


@require_safe
@requires(Permission.WEBHOOKS_CHANGE)
def tenant_webhooks(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    return _page(request, NewWebhookForm())


@never_cache
@posted_from("tenant_webhooks")
@requires(Permission.WEBHOOKS_CHANGE)
def webhook_create(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Make a webhook. The answer shows its secret, once."""
    form = NewWebhookForm(request.POST)
    if not form.is_valid():
        return _page(request, form)
    outcome = changes.webhook_create(by=request.access, at=timezone.now(), **form.cleaned_data)
    if isinstance(outcome, Refused):
        form.add_error(_field_of(outcome), outcome.sentence)
        return _page(request, form)
    return _page(request, NewWebhookForm(), outcome)


@require_safe
@requires(Permission.WEBHOOKS_CHANGE)
def tenant_webhook(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponseBase:
    """Show one webhook with its log: a delivery for each event, with every try."""
    webhook = webhook_by_id(pk)
    if webhook is None:
        raise Http404
    if asks_csv(request):
        return csv_response(request, _log(webhook, _state_asked(request)), LOG)
    return _webhook_page(request, webhook, WebhookChangeForm(webhook))


@posted_from("tenant_webhook")
@requires(Permission.WEBHOOKS_CHANGE)
def webhook_change(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    """Change its address and kinds, or switch it on or off where that was pressed."""
    at = timezone.now()
    if "active" in request.POST:
        active = request.POST["active"] == "on"
        outcome = changes.webhook_change(webhook_id=pk, active=active, by=request.access, at=at)
        tell(request, outcome, "It is switched on, and told what it missed." if active else "It is switched off.")
        return redirect("tenant_webhook", tenant_slug, pk)
    webhook = webhook_by_id(pk)
    if webhook is None:
        raise Http404
    form = WebhookChangeForm(webhook, request.POST)
    if form.is_valid():
        url, kinds = form.cleaned_data["url"], form.cleaned_data["kinds"]
        outcome = changes.webhook_change(webhook_id=pk, url=url, kinds=kinds, by=request.access, at=at)
        if not isinstance(outcome, Refused):
            messages.success(request, "The webhook is changed.")
            return redirect("tenant_webhook", tenant_slug, pk)
        form.add_error(_field_of(outcome), outcome.sentence)
    messages.error(request, "Nothing was changed: see what the form says.")
    return _webhook_page(request, webhook, form)


@never_cache
@posted_from("tenant_webhook")
@requires(Permission.WEBHOOKS_CHANGE)
def webhook_secret(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    outcome = changes.webhook_secret_renew(webhook_id=pk, by=request.access, at=timezone.now())
    if isinstance(outcome, Refused):
        raise Http404
    return _page(request, NewWebhookForm(), outcome)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.WEBHOOKS_CHANGE)
def webhook_remove(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    """Say what ends with the webhook, or remove it where the form is posted."""
    if request.method != "POST":
        webhook = webhook_by_id(pk)
        if webhook is None:
            raise Http404
        return render(request, "webhooks/webhook_remove.html", {"webhook": webhook})
    outcome = changes.webhook_remove(webhook_id=pk, by=request.access, at=timezone.now())
    tell(request, outcome, "The webhook is removed.")
    return redirect("tenant_webhooks", tenant_slug)


@posted_from("tenant_webhook")
@requires(Permission.WEBHOOKS_CHANGE)
def webhook_replay(request: AccessRequest, tenant_slug: str, pk: int, delivery: int) -> HttpResponse:
    outcome = changes.webhook_replay(webhook_id=pk, delivery_id=delivery, by=request.access, at=timezone.now())
    tell(request, outcome, "The event is told again in a moment.")
    return redirect("tenant_webhook", tenant_slug, pk)


def _field_of(refusal: Refused) -> str | None:
    """The field that a refusal is about; none for one that nothing typed here would change."""
    return ELSEWHERE.get(refusal.code, "url")


def _state_asked(request: AccessRequest) -> str:
    state = request.GET.get("state", "")
    return state if state in DeliveryState.values else ""


def _log(webhook: Webhook, state: str) -> QuerySet[WebhookDelivery]:
    rows = delivery_list(webhook)
    return rows.filter(state=state) if state else rows


def _webhook_page(request: AccessRequest, webhook: Webhook, form: WebhookChangeForm) -> HttpResponse:
    state = _state_asked(request)
    table = table_of(request, _log(webhook, state), LOG)
    deliveries: list[DeliverySeen] = deliveries_seen(table.rows)
    context = {"webhook": webhook, "table": table, "deliveries": deliveries, "form": form, "state": state}
    return render(request, "webhooks/webhook.html", context | {"states": DeliveryState.choices})


def _page(request: AccessRequest, form: NewWebhookForm, issued: changes.IssuedWebhook | None = None) -> HttpResponse:
    context = {"webhooks": list(webhook_list().order_by("pk")), "form": form, "issued": issued}
    return render(request, "webhooks/webhooks.html", context)

"""Webhooks of tenants: the addresses, the events to be delivered to each, and every try."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from scheduling.models.feed import Event
from tenants.scoping import TenantOwned


class WebhookForm(models.TextChoices):
    """How calls are signed. A webhook keeps its form for good, since its receiver knows that one."""

    BEFORE = "before"  # the form of versions before 1.0
    STANDARD = "standard"


class Webhook(TenantOwned):
    """One address. Its secret is encrypted (`tenants.common.stored_secrets`): no copy of the database reveals it."""

    url = models.CharField(max_length=500)
    kinds = ArrayField(models.CharField(max_length=40), default=list, blank=True)  # empty for all kinds
    # Empty where a version before 1.0 made the webhook; its secret then follows from SECRET_KEY and `salt`.
    secret = models.TextField(blank=True, default="", db_default="")
    salt = models.CharField(max_length=64, blank=True, default="", db_default="")
    form = models.CharField(
        max_length=8, choices=WebhookForm.choices, default=WebhookForm.STANDARD, db_default=WebhookForm.BEFORE
    )
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    removed_at = models.DateTimeField(null=True, blank=True)
    # Every event up to this one that is wanted here has its delivery.
    cursor = models.BigIntegerField()
    # No try begins before this moment: while one is running, and for a while after one that failed.
    quiet_until = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)  # failures since the last success
    failing_since = models.DateTimeField(null=True, blank=True)
    switched_off_at = models.DateTimeField(null=True, blank=True)  # by the market, as it failed for too long

    class Meta(TenantOwned.Meta):
        ordering = ["id"]
        indexes = [models.Index(fields=["id"], condition=Q(active=True), name="webhook_active")]
        constraints = [
            models.CheckConstraint(condition=Q(form__in=WebhookForm.values), name="webhook_form_known"),
            models.CheckConstraint(
                condition=Q(active=False) | Q(removed_at=None, switched_off_at=None), name="webhook_active_is_there"
            ),
            models.CheckConstraint(
                condition=Q(failures=0, failing_since=None) | Q(failures__gt=0, failing_since__isnull=False),
                name="webhook_failing_since_a_failure",
            ),
        ]

    def __str__(self) -> str:
        return f"webhook {self.pk} of tenant {self.tenant_id}"


class DeliveryState(models.TextChoices):
    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class WebhookDelivery(TenantOwned):
    """One event to be delivered to one address, at least once."""

    webhook = models.ForeignKey(Webhook, on_delete=models.PROTECT, related_name="+", db_index=False)
    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="+", db_index=False)
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    tries = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)  # failures since it was last made to wait
    next_at = models.DateTimeField()
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantOwned.Meta):
        verbose_name_plural = "webhook deliveries"
        ordering = ["id"]
        indexes = [
            models.Index(fields=["webhook", "-id"], name="delivery_of_webhook"),
            models.Index(fields=["webhook", "next_at", "id"], condition=Q(state="waiting"), name="delivery_waiting"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["webhook", "event"], name="delivery_once_per_event"),
            models.CheckConstraint(condition=Q(state__in=DeliveryState.values), name="delivery_state_known"),
        ]

    def __str__(self) -> str:
        return f"delivery {self.pk} to webhook {self.webhook_id}"


class WebhookTry(TenantOwned):
    """One try. It is written before the call and completed after it; one without an end was cut short."""

    delivery = models.ForeignKey(WebhookDelivery, on_delete=models.PROTECT, related_name="+", db_index=False)
    number = models.PositiveIntegerField()  # from 1
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    status = models.PositiveSmallIntegerField(null=True, blank=True)  # the status of the answer, if there was one
    flaw = models.CharField(max_length=200, blank=True)  # why no answer came or counts; empty where it worked
    answer = models.CharField(max_length=1_000, blank=True)  # the beginning of the answer

    class Meta(TenantOwned.Meta):
        verbose_name_plural = "webhook tries"
        ordering = ["delivery", "number"]
        constraints = [models.UniqueConstraint(fields=["delivery", "number"], name="try_once_per_number")]

    def __str__(self) -> str:
        return f"try {self.number} of delivery {self.delivery_id}"

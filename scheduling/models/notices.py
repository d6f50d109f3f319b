"""Notices to persons: the notices, each person's choice of kinds and ways, and how far the feed was read."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from scheduling.models.feed import Event
from tenants.models import Tenant


class MailWay(models.TextChoices):
    NONE = "", "No"
    NOW = "now", "At once"
    DIGEST = "digest", "Once a day"


class Notice(models.Model):
    """One notice to one person: about an event, or about something that is no event (`source`).

    It is not tenant-owned, since a person's notices lie in several tenants. Read it through `scheduling.notices`, which
    checks at each reading that the person still belongs to the tenant, with a role that may see the notice. The row
    holds no words and no amounts: the page, mail or chat message makes them from the event.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False)
    # None where it belongs to no tenant, or to one of which the person is not a member yet.
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    kind = models.CharField(max_length=20)
    event = models.ForeignKey(Event, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    source = models.CharField(max_length=80, blank=True)  # "invitation:5", "statement:2026-10:3"; empty: an event
    at = models.DateTimeField()
    bell = models.BooleanField()  # whether it is in the person's list
    read_at = models.DateTimeField(null=True, blank=True)
    mail_due_at = models.DateTimeField(null=True, blank=True)  # None where no mail has to be sent, or none any more
    mail_tries = models.PositiveSmallIntegerField(default=0)
    chat_due_at = models.DateTimeField(null=True, blank=True)  # None where nothing is to be sent, or no more
    chat_tries = models.PositiveSmallIntegerField(default=0, db_default=0)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["person", "-id"], condition=Q(bell=True), name="notice_of_person"),
            models.Index(fields=["person"], condition=Q(bell=True, read_at=None), name="notice_unread"),
            models.Index(fields=["mail_due_at"], condition=Q(mail_due_at__isnull=False), name="notice_to_mail"),
            models.Index(
                fields=["person", "chat_due_at"], condition=Q(chat_due_at__isnull=False), name="notice_to_chat"
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["person", "event"], name="notice_once_per_event"),
            models.UniqueConstraint(
                fields=["person", "source"], condition=~Q(source=""), name="notice_once_per_source"
            ),
            models.CheckConstraint(
                condition=Q(event=None) & ~Q(source="") | Q(event__isnull=False, source=""),
                name="notice_has_one_origin",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for {self.person_id}"


class NoticeChoice(models.Model):
    """A person's choice for one kind of notice. Without a row, the default of the kind applies."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False)
    kind = models.CharField(max_length=20)
    bell = models.BooleanField()
    toast = models.BooleanField()
    mail = models.CharField(max_length=6, choices=MailWay.choices, blank=True)
    chat = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "kind"], name="notice_choice_once_per_kind"),
            models.CheckConstraint(condition=Q(mail__in=MailWay.values), name="notice_choice_mail_known"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for {self.person_id}"


class ChatForm(models.TextChoices):
    """What the incoming webhook of a chat tool accepts."""

    TEXT = "text", "Slack, Mattermost, Rocket.Chat, Google Chat"
    CARD = "card", "Microsoft Teams"


class ChatAddress(models.Model):
    """The chat address at which a person gets notices. Anybody who knows it can write there, so it is a secret: it is
    encrypted (`tenants.common.stored_secrets`), and only `shown` is ever shown again."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", primary_key=True
    )
    secret = models.TextField()  # the address
    shown = models.CharField(max_length=120)  # its host, and its last characters
    form = models.CharField(max_length=4, choices=ChatForm.choices)
    created_at = models.DateTimeField()
    active = models.BooleanField(default=True)
    said_at = models.DateTimeField(null=True, blank=True)  # when it last accepted a message; None before the greeting
    flaw = models.CharField(max_length=200, blank=True)  # why the last try failed; empty where it worked
    # These four are as in a webhook (`scheduling.webhooks.receivers`).
    quiet_until = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True, blank=True)
    switched_off_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "chat addresses"
        constraints = [
            models.CheckConstraint(condition=Q(form__in=ChatForm.values), name="chat_form_known"),
            models.CheckConstraint(condition=~Q(secret=""), name="chat_has_address"),
            models.CheckConstraint(
                condition=Q(active=False) | Q(switched_off_at=None), name="chat_active_is_not_switched_off"
            ),
            models.CheckConstraint(
                condition=Q(failures=0, failing_since=None) | Q(failures__gt=0, failing_since__isnull=False),
                name="chat_failing_since_a_failure",
            ),
        ]

    def __str__(self) -> str:
        return f"chat of {self.person_id}"


class NoticeProfile(models.Model):
    """A person's choices for all kinds of notices."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", primary_key=True
    )
    all_jobs = models.BooleanField(default=False)  # also notices of jobs that other people submitted

    def __str__(self) -> str:
        return f"notices of {self.person_id}"


class NoticeCursor(models.Model):
    """How far the feed was turned into notices: one row, locked while notices are made."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    cursor = models.BigIntegerField(default=0)  # every event up to this one has its notices
    month = models.DateField(null=True, blank=True)  # statements of months before this one were announced

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="notice_cursor_single")]

    def __str__(self) -> str:
        return f"notices up to {self.cursor}"

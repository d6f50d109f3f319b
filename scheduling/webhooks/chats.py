"""Send notices to a chat tool: a person names the address of an incoming webhook of theirs, and the kinds that they
ticked are sent there. The address is checked, tried again, and switched off as a tenant's webhook is (`receivers`,
`calls`).

All that is due for a person is one message. It is claimed in the transaction in which it is made, as due again later;
then the message is sent; then it is marked as sent. A process that dies in between leaves it to the next round, so a
message may come twice and is never lost. It has what its person may see at that moment, and nothing else.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.urls import reverse

from scheduling.models import ChatAddress, ChatForm, Notice
from scheduling.notices import NoticeLine, may_be_seen, notice_lines, paragraph
from scheduling.webhooks.addresses import target_of
from scheduling.webhooks.calls import CallOutcome
from scheduling.webhooks.receivers import (
    AT_ONCE,
    LEASE,
    MOST_FAILURES,
    STATE,
    backoff,
    receiver_failed,
    receiver_on,
    receiver_worked,
)
from scheduling.webhooks.signing import PLAIN_HEADERS
from tenants.access import Refused
from tenants.common.stored_secrets import Carried, UnreadableSecret, reveal, store, stored_anew
from tenants.models import User

MOST_LINES = 20  # of one message
UNKNOWN_FORM = Refused("invalid_chat_form", "Choose which chat tool it is.")
NO_CHAT = Refused("unknown_chat_address", "There is no address of a chat tool. Save one first.")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChatLetter:
    """All that a call needs. `notices` are those that the message has; they are empty for the greeting."""

    person_id: int
    notices: tuple[int, ...]
    url: str
    body: bytes
    headers: dict[str, str]


@transaction.atomic
def chat_set(*, person: User, url: str, form: str, at: datetime) -> ChatAddress | Refused:
    """Set the one address of this person, in place of the one before. It is sent a greeting, and notices from now
    on."""
    if form not in ChatForm.values:
        return UNKNOWN_FORM
    target = target_of(url)
    if isinstance(target, Refused):
        return target
    values = {"secret": store(url), "shown": shown_of(url), "form": form, "created_at": at, "said_at": None, "flaw": ""}
    row, _ = ChatAddress.objects.select_for_update().get_or_create(person=person, defaults=values)
    _forget_due(person)
    for name, value in values.items():
        setattr(row, name, value)
    receiver_on(row)
    row.save()
    return row


@transaction.atomic
def chat_switch(*, person: User, active: bool) -> ChatAddress | Refused:
    """Switch the person's address off, so that nothing is sent there, or on, for what happens from then on."""
    row = ChatAddress.objects.select_for_update().filter(person=person).first()
    if row is None:
        return NO_CHAT
    _forget_due(person)
    if active:
        receiver_on(row)
    else:
        row.active, row.switched_off_at = False, None
    row.save(update_fields=STATE)
    return row


@transaction.atomic
def chat_remove(*, person: User) -> Refused | None:
    """Remove the address, with its secret."""
    row = ChatAddress.objects.select_for_update().filter(person=person).first()
    _forget_due(person)
    if row is None:
        return NO_CHAT
    row.delete()
    return None


@transaction.atomic
def chat_secrets_carry() -> Carried:
    """Store addresses that are stored under an older SECRET_KEY under today's."""
    return stored_anew(ChatAddress.objects.select_for_update().order_by("pk"))


def shown_of(url: str) -> str:
    """Return the address's host and its last four letters, where these are a small part of what is secret."""
    parts = urlsplit(url)
    secret = parts.path.strip("/") + parts.query
    return f"{(parts.hostname or '')[:100]}/…{secret[-4:] if len(secret) >= 16 else ''}"


def _forget_due(person: User) -> None:
    """Drop what is due to be told. The caller has locked the person's address: whoever changes an address and its
    notices takes the address first, as the sender does, so that none has what the other needs."""
    Notice.objects.filter(person=person, chat_due_at__isnull=False).update(chat_due_at=None)


@transaction.atomic
def chats_begin(*, at: datetime) -> list[ChatLetter]:
    """Return one message for each of some persons for whom something is due. Their addresses are then busy for the next
    caller."""
    due = Notice.objects.filter(person=OuterRef("person"), chat_due_at__lte=at)
    rows = ChatAddress.objects.select_for_update(of=("self",), skip_locked=True).select_related("person")
    rows = rows.filter(Q(quiet_until=None) | Q(quiet_until__lte=at), active=True, person__is_active=True)
    rows = rows.filter(Q(said_at=None) | Exists(due))
    begun = [_begin(row, at) for row in rows.order_by("quiet_until", "pk")[:AT_ONCE]]
    return [letter for letter in begun if letter]


def _begin(row: ChatAddress, at: datetime) -> ChatLetter | None:
    """Return a person's message; None if the address cannot be read, or its person may see nothing of what is due any
    more."""
    ChatAddress.objects.filter(pk=row.pk).update(quiet_until=at + LEASE)
    try:
        url = reveal(row.secret)
    except UnreadableSecret as error:
        log.error("the chat address of person %s is not told: %s", row.person_id, error)
        return None
    if row.said_at is None:
        return _letter(row, url, (), [f"Bourse tells {row.person.email} here from now on. {_choose()}"])
    due = Notice.objects.filter(person=row.person_id, chat_due_at__lte=at)
    numbers = tuple(due.order_by("pk").values_list("pk", flat=True))
    Notice.objects.filter(pk__in=numbers).update(chat_due_at=at + LEASE, chat_tries=F("chat_tries") + 1)
    events = may_be_seen().filter(pk__in=numbers).select_related("event__pool", "tenant").order_by("pk")
    lines = notice_lines(events[:MOST_LINES])
    if not lines:
        Notice.objects.filter(pk__in=numbers).update(chat_due_at=None)
        ChatAddress.objects.filter(pk=row.pk).update(quiet_until=None)
        return None
    return _letter(row, url, numbers, message_of(lines, events.count() - MOST_LINES))


def message_of(lines: Sequence[NoticeLine], rest: int) -> list[str]:
    """Return the paragraphs of a message. `rest` is how many more notices are on the page."""
    paragraphs = [paragraph(line, settings.PUBLIC_URL) for line in lines]
    return [*paragraphs, f"And {rest} more: {settings.PUBLIC_URL}{reverse('notices')}"] if rest > 0 else paragraphs


def _choose() -> str:
    return f"Choose what you are told: {settings.PUBLIC_URL}{reverse('notice_choices')}"


def _letter(row: ChatAddress, url: str, numbers: tuple[int, ...], paragraphs: Sequence[str]) -> ChatLetter:
    body = json.dumps(document_of(row.form, paragraphs), ensure_ascii=False).encode()
    return ChatLetter(row.person_id, numbers, url, body, dict(PLAIN_HEADERS))


def document_of(form: str, paragraphs: Sequence[str]) -> dict[str, Any]:
    """Return the message as the tool's incoming webhook takes it. Names that others have given must not notify anybody
    there."""
    if form == ChatForm.TEXT:
        return {"text": "\n\n".join(_plain(each) for each in paragraphs)}
    blocks = [{"type": "TextBlock", "text": _nobody_called(each), "wrap": True} for each in paragraphs]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.2",
        "body": blocks,
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "contentUrl": None, "content": card}]}


def _plain(text: str) -> str:
    """Escape the three characters that control Slack and, like it, Mattermost: <!channel> would notify everybody."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _nobody_called(text)


def _nobody_called(text: str) -> str:
    """Disarm @all: an invisible character is put after each @."""
    return text.replace("@", "@\N{ZERO WIDTH SPACE}")


@transaction.atomic
def chat_end(*, letter: ChatLetter, outcome: CallOutcome, at: datetime, draw: float) -> bool:
    """Record what came of a message. Return False if somebody changes the address at this moment: nothing is recorded
    then, so that the others' messages need not wait."""
    addresses = ChatAddress.objects.filter(person=letter.person_id)
    row = addresses.select_for_update(skip_locked=True).first()
    if row is None and addresses.exists():
        return False
    if row is None or _address(row) != letter.url:
        return True  # it was removed or replaced meanwhile: nothing is due any more
    row.flaw = outcome.flaw[:200]
    notices = Notice.objects.filter(pk__in=letter.notices, chat_due_at__isnull=False)
    if outcome.worked:
        row.said_at = at
        receiver_worked(row)
        notices.update(chat_due_at=None)
    else:
        _again_later(notices, at, draw)
        receiver_failed(row, at, draw)
    row.save(update_fields=[*STATE, "said_at", "flaw"])
    return True


def _address(row: ChatAddress) -> str | None:
    try:
        return reveal(row.secret)
    except UnreadableSecret:
        return None


def _again_later(notices: QuerySet[Notice], at: datetime, draw: float) -> None:
    """Set when each notice is tried again, by how often it was tried; after `MOST_FAILURES` tries it is not."""
    for row in notices:
        row.chat_due_at = None if row.chat_tries >= MOST_FAILURES else at + backoff(row.chat_tries, draw)
        row.save(update_fields=["chat_due_at"])

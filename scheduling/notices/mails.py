"""Send notices by mail: at once, or once a day together. Each is sent at least once, and tried at most a few times.

One process at a time sends. For each person the due notices are claimed in a transaction of their own, as due again
later; then the mail is sent; then they are marked as sent. A process that dies in between leaves them to the next
round, so a mail may come twice and is never lost. A person who may no longer see a notice gets no mail of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from smtplib import SMTPException

from django.conf import settings
from django.core import signing
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import F
from django.urls import reverse

from scheduling.common import alone
from scheduling.models import MailWay, Notice, NoticeChoice, NoticeCursor
from scheduling.notices.read_notices import NoticeLine, may_be_seen, notice_lines, paragraph
from tenants.models import User
from tenants.names import in_one_line

DIGEST_HOUR = 7  # of UTC
ROUND = timedelta(seconds=20)
PAUSE = timedelta(minutes=2)  # after the first try; twice as long after each
MOST_TRIES = 10  # of the oldest notice in a mail: about 17 hours
MOST_LINES = 100  # of one mail
_LOCK = 0x626F757273650006  # of the database: "bourse", 6
_SALT = "bourse.notices.stop"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NoticeMail:
    """A mail to one person. `notices` are those that are sent with it; `rest` is how many more are on the page."""

    person: User
    notices: tuple[int, ...]
    lines: tuple[NoticeLine, ...]
    rest: int


def mail_due(way: str, at: datetime) -> datetime | None:
    """Return when a notice of this moment is mailed, or None if it is not."""
    if way == MailWay.NOW:
        return at
    if way != MailWay.DIGEST:
        return None
    today = at.astimezone(UTC).replace(hour=DIGEST_HOUR, minute=0, second=0, microsecond=0)
    return today if at <= today else today + timedelta(days=1)


def mails_round(*, clock: Callable[[], datetime]) -> int:
    """Send mails until none is due or the time is over, and return how many were sent: 0 where another process
    sends."""
    with alone(_LOCK) as ours:
        if not ours:
            return 0
        ends, count = clock() + ROUND, 0
        while clock() < ends and (letter := _claim(clock())) is not None:
            if letter.lines and not _send(letter):
                continue
            _mark_sent(letter)
            count += bool(letter.lines)
        return count


@transaction.atomic
def _claim(at: datetime) -> NoticeMail | None:
    """Claim all that is due for the person who has waited longest. These notices are due again later, unless they are
    marked as sent. The claim is empty if nothing is due any more."""
    first = Notice.objects.filter(mail_due_at__lte=at).order_by("mail_due_at", "pk").first()
    if first is None:
        return None
    # Rows are locked as they are read: of a person who stops all mails at this moment nothing is due any more.
    due = Notice.objects.select_for_update().filter(person=first.person_id, mail_due_at__lte=at)
    numbers = list(due.order_by("pk").values_list("pk", flat=True))
    is_last = first.mail_tries + 1 >= MOST_TRIES
    again = None if is_last else at + PAUSE * 2**first.mail_tries
    Notice.objects.filter(pk__in=numbers).update(mail_due_at=again, mail_tries=F("mail_tries") + 1)
    person = User.objects.get(pk=first.person_id)
    notices = may_be_seen().filter(pk__in=numbers, person__is_active=True).select_related("event__pool", "tenant")
    lines = notice_lines(notices.order_by("pk")[:MOST_LINES])
    return NoticeMail(person, tuple(numbers), tuple(lines), max(notices.count() - MOST_LINES, 0))


def _send(letter: NoticeMail) -> bool:
    """Send the mail, and return whether the mail server took it."""
    try:
        message_of(letter).send()
    except (OSError, SMTPException):
        log.warning("a mail of notices to person %s could not be sent", letter.person.pk, exc_info=True)
        return False
    return True


def message_of(letter: NoticeMail) -> EmailMessage:
    base, stop = settings.PUBLIC_URL, settings.PUBLIC_URL + stop_path(letter.person)
    first = letter.lines[0]
    one = in_one_line(f"{first.title} {first.tenant}")
    subject = one if len(letter.lines) == 1 else f"{len(letter.lines)} notices"
    parts = [paragraph(line, base) for line in letter.lines]
    if letter.rest:
        parts.append(f"And {letter.rest} more: {base}{reverse('notices')}")
    parts.append(f"Times are UTC. Choose what you are told, and how: {base}{reverse('notice_choices')}")
    parts.append(f"No more mails of notices: {stop}")
    headers = {"List-Unsubscribe": f"<{stop}>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}
    return EmailMessage(f"[Bourse] {subject}", "\n\n".join(parts) + "\n", None, [letter.person.email], headers=headers)


@transaction.atomic
def _mark_sent(letter: NoticeMail) -> None:
    Notice.objects.filter(pk__in=letter.notices).update(mail_due_at=None)


def stop_path(person: User) -> str:
    """Return the address at which the person ends all mails without a log-in: everybody who has a mail of theirs
    may."""
    return reverse("notices_stop", args=[signing.Signer(salt=_SALT).sign(str(person.pk))])


def person_of(token: str) -> User | None:
    try:
        number = signing.Signer(salt=_SALT).unsign(token)
    except signing.BadSignature:
        return None
    return User.objects.filter(pk=number, is_active=True).first()


@transaction.atomic
def mails_stop(person: User) -> None:
    """Stop the person's mails from now on, also those that wait. The bell goes on.

    Notices that are being made at this moment follow the choices of before. So the cursor of those who make them is
    locked first: their notices are there by then, or are made by what is chosen here."""
    NoticeCursor.objects.select_for_update().first()
    NoticeChoice.objects.filter(person=person).update(mail=MailWay.NONE)
    Notice.objects.filter(person=person, mail_due_at__isnull=False).update(mail_due_at=None)

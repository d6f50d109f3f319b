"""Bodies that are longer than any other: who may send one is known before a byte of it is read.

A page or a call from which somebody may send a file has a ticket for it: tenant and person, signed, good for an hour.
It stands in the address that the file is sent to, so the event loop can look at it without the database. It lets a
body be longer, and nothing else: who acts, and what they may, is still asked of the session or the token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

from django.core import signing

from tenants.access import Access

PARAMETER = "upload"  # of the address
GOOD_FOR = timedelta(hours=1)
MOST_BYTES = 21 << 20  # an archive of 20 MiB, and what stands beside it
MOST_AT_ONCE, MOST_OF_TENANT, MOST_OF_PERSON = 4, 2, 1  # bodies in a process, from the first byte to the answer
_SALT = "bourse.upload"


@dataclass(frozen=True)
class Sender:
    """Whose a ticket is. `tenant`: 0 for the operator."""

    tenant: int
    person: int


def ticket_for(by: Access) -> str:
    """Good where these ids are; empty for whoever is no person."""
    if by.user is None:
        return ""
    return signing.dumps([by.tenant.pk if by.tenant else 0, by.user.pk], salt=_SALT)


def sender_of(scope: Mapping[str, Any]) -> Sender | None:
    """Who may send this body though it is long. None: nobody said so, or it does not say how long it is."""
    if scope.get("method") != "POST" or not _says_its_length(scope):
        return None
    tickets = parse_qs(scope.get("query_string", b"").decode("latin-1")).get(PARAMETER, [])
    try:
        tenant, person = signing.loads(tickets[0], salt=_SALT, max_age=GOOD_FOR)
    except (IndexError, signing.BadSignature):
        return None
    return Sender(tenant, person)


def _says_its_length(scope: Mapping[str, Any]) -> bool:
    """What comes in chunks of no told length would be read into memory by whoever asks for it."""
    return any(name == b"content-length" for name, _ in scope["headers"])


class Uploads:
    """How many long bodies a process takes at once; used by its event loop alone."""

    def __init__(self) -> None:
        self._tenants: Counter[int] = Counter()
        self._people: Counter[int] = Counter()

    def begin(self, sender: Sender) -> bool:
        """Whether there is a place; whoever gets one gives it back by `end`."""
        if (
            self._tenants.total() >= MOST_AT_ONCE
            or self._tenants[sender.tenant] >= MOST_OF_TENANT
            or self._people[sender.person] >= MOST_OF_PERSON
        ):
            return False
        self._tenants[sender.tenant] += 1
        self._people[sender.person] += 1
        return True

    def end(self, sender: Sender) -> None:
        for counter, one in ((self._tenants, sender.tenant), (self._people, sender.person)):
            counter[one] -= 1
            if not counter[one]:
                del counter[one]

"""Bodies that are longer than any other: who may send one is known before a byte of it is read.

A page or a call from which somebody may send a file has a ticket for it: tenant, person and how much it is good for,
signed, good for an hour. It stands in the address that the file is sent to, so the event loop can look at it without
the database. It lets a body be longer, and nothing else: who acts, and what they may, is still asked of the session or
the token.
"""

from __future__ import annotations

import asyncio
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
MOST_WAITING = 2  # of a person: who presses a button twice sends a second one while the first is still answered
_SALT = "bourse.upload"


@dataclass(frozen=True)
class Sender:
    """Whose a ticket is, and what it is good for. `tenant`: 0 for the operator."""

    tenant: int
    person: int
    most_bytes: int = MOST_BYTES


def ticket_for(by: Access, most_bytes: int = MOST_BYTES) -> str:
    """Good where these ids are; empty for whoever is no person."""
    if by.user is None:
        return ""
    return signing.dumps([by.tenant.pk if by.tenant else 0, by.user.pk, most_bytes], salt=_SALT)


def sender_of(scope: Mapping[str, Any]) -> Sender | None:
    """Who may send this body though it is long. None: nobody said so, or it does not say how long it is."""
    if scope.get("method") != "POST" or not _says_its_length(scope):
        return None
    try:
        return Sender(*signing.loads(_ticket_in(scope), salt=_SALT, max_age=GOOD_FOR))
    except signing.BadSignature:
        return None


def ticket_is_over(scope: Mapping[str, Any]) -> bool:
    """Whether its ticket was good once: the page that it came from was open for too long."""
    try:
        signing.loads(_ticket_in(scope), salt=_SALT, max_age=GOOD_FOR)
    except signing.SignatureExpired:
        return True
    except signing.BadSignature:
        pass
    return False


def _ticket_in(scope: Mapping[str, Any]) -> str:
    return parse_qs(scope.get("query_string", b"").decode("latin-1")).get(PARAMETER, [""])[0]


def _says_its_length(scope: Mapping[str, Any]) -> bool:
    """What comes in chunks of no told length would be read into memory by whoever asks for it."""
    return any(name == b"content-length" for name, _ in scope["headers"])


class Uploads:
    """How many long bodies a process takes at once; used by its event loop alone."""

    def __init__(self) -> None:
        self._tenants: Counter[int] = Counter()
        self._people: Counter[int] = Counter()
        self._waiting: Counter[int] = Counter()  # by person
        self._wakes: set[asyncio.Future[None]] = set()

    async def wait(self, sender: Sender, seconds: float) -> bool:
        """`begin` as soon as there is a place; False where there is none for so long."""
        if self.begin(sender):
            return True
        if self._waiting[sender.person] >= MOST_WAITING:
            return False
        self._waiting[sender.person] += 1
        try:
            async with asyncio.timeout(seconds):
                while not self.begin(sender):
                    await self._ended()
            return True
        except TimeoutError:
            return False
        finally:
            _less(self._waiting, sender.person)

    async def _ended(self) -> None:
        """Until somebody gives a place back."""
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wakes.add(wake)
        try:
            await wake
        finally:
            self._wakes.discard(wake)

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
        _less(self._tenants, sender.tenant)
        _less(self._people, sender.person)
        for wake in self._wakes:
            if not wake.done():
                wake.set_result(None)


def _less(counter: Counter[int], one: int) -> None:
    counter[one] -= 1
    if not counter[one]:
        del counter[one]

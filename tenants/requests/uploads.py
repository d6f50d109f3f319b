"""Long request bodies: who may send one is known before a byte of it is read.

A page or a call from which a person may send a file has a ticket for it: tenant, person and the largest size, signed,
valid for an hour. It is in the address to which the file is sent, so the event loop can check it without the database.
It allows a longer body, and nothing else: who acts, and what they may do, still comes from the session or the token.
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

PARAMETER = "upload"  # parameter of the address
GOOD_FOR = timedelta(hours=1)
MOST_BYTES = 21 << 20  # an archive of 20 MiB, and the fields beside it
MOST_AT_ONCE, MOST_OF_TENANT, MOST_OF_PERSON = 4, 2, 1  # bodies in a process, from the first byte to the answer
MOST_WAITING = 2  # of a person: pressing a button twice sends a second body while the first is still answered
_SALT = "bourse.upload"


@dataclass(frozen=True)
class Sender:
    """To whom a ticket belongs, and for how many bytes it is good. `tenant` is 0 for the operator."""

    tenant: int
    person: int
    most_bytes: int = MOST_BYTES


def ticket_for(by: Access, most_bytes: int = MOST_BYTES) -> str:
    """Return a ticket for the person who acts, or an empty text where no person does. It works where their ids are
    known."""
    if by.user is None:
        return ""
    return signing.dumps([by.tenant.pk if by.tenant else 0, by.user.pk, most_bytes], salt=_SALT)


def sender_of(scope: Mapping[str, Any]) -> Sender | None:
    """Return who may send this long body, or None if it has no valid ticket or does not give its length."""
    if scope.get("method") != "POST" or not _says_its_length(scope):
        return None
    try:
        return Sender(*signing.loads(_ticket_in(scope), salt=_SALT, max_age=GOOD_FOR))
    except signing.BadSignature:
        return None


def ticket_is_over(scope: Mapping[str, Any]) -> bool:
    """Return whether its ticket has expired: the page that it came from was open for too long."""
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
    """Return whether the body's length is given. A body in chunks of unknown length would be read into memory."""
    return any(name == b"content-length" for name, _ in scope["headers"])


class Uploads:
    """The number of long bodies that a process takes at once. Only its event loop uses this."""

    def __init__(self) -> None:
        self._tenants: Counter[int] = Counter()
        self._people: Counter[int] = Counter()
        self._waiting: Counter[int] = Counter()  # by person
        self._wakes: set[asyncio.Future[None]] = set()

    async def wait(self, sender: Sender, seconds: float) -> bool:
        """Wait for a place and take it as `begin` does. Return False if there is none for this many seconds."""
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
        """Wait until a place is returned."""
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wakes.add(wake)
        try:
            await wake
        finally:
            self._wakes.discard(wake)

    def begin(self, sender: Sender) -> bool:
        """Take a place if there is one, and return whether there was. The caller returns it by `end`."""
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

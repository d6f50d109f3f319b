"""Check which open sockets may still listen, for all sockets of a process together: thousands take a few statements."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.utils import timezone

from tenants.access import Access
from tenants.selectors import Place, accesses_of

PAUSE_SECONDS = 0.5  # how long further checks are collected


class _Questions:
    """The checks of one event loop that wait for the next answer."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Place, asyncio.Future[Access]]] = []
        self._round: asyncio.Task[None] | None = None

    async def ask(self, place: Place) -> Access:
        answer: asyncio.Future[Access] = asyncio.get_running_loop().create_future()
        self._waiting.append((place, answer))
        if self._round is None:
            self._round = asyncio.create_task(self._answer())
        return await answer

    async def _answer(self) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        waiting, self._waiting, self._round = self._waiting, [], None
        still = [(place, answer) for place, answer in waiting if not answer.done()]  # a page may have been closed
        try:
            places = {place for place, _ in still}
            accesses = await database_sync_to_async(accesses_of)(places, timezone.now())
        except Exception as error:  # every waiting check gets the error, in its own task
            for _, answer in still:
                if not answer.done():
                    answer.set_exception(error)
            return
        for place, answer in still:
            if not answer.done():
                answer.set_result(accesses[place])


_questions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Questions] = WeakKeyDictionary()


async def access_still(place: Place) -> Access:
    """Return what a log-in allows at a place, as of the next round of checks."""
    return await _questions.setdefault(asyncio.get_running_loop(), _Questions()).ask(place)

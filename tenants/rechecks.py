"""Who may still listen, asked for the open sockets of a process together: thousands of them cost a few statements."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async

from tenants.access import Access
from tenants.selectors import Place, accesses_of

PAUSE_SECONDS = 0.5  # in which others may join a question


class _Questions:
    """Of one event loop: those that wait for the next answer."""

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
        still = [(place, answer) for place, answer in waiting if not answer.done()]  # a page may have left
        try:
            accesses = await database_sync_to_async(accesses_of)({place for place, _ in still})
        except Exception as error:  # whoever asked is told, each in its own task
            for _, answer in still:
                if not answer.done():
                    answer.set_exception(error)
            return
        for place, answer in still:
            if not answer.done():
                answer.set_result(accesses[place])


_questions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Questions] = WeakKeyDictionary()


async def access_still(place: Place) -> Access:
    """What a person may at a place, as of a moment from now."""
    return await _questions.setdefault(asyncio.get_running_loop(), _Questions()).ask(place)

"""What every command has at hand: the words it was given, the screen, and the client, made when it is first used."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TextIO

from bourse_client.client import Client
from bourse_client.command.parser import LONGEST_KEY
from bourse_client.command.screen import Screen
from bourse_client.command.settings import Settings, settings_found
from bourse_client.transport import Pace, new_key


@dataclass
class Session:
    words: Namespace
    environment: Mapping[str, str]
    screen: Screen
    stdin: TextIO
    _client: Client | None = field(default=None, repr=False)

    @cached_property
    def settings(self) -> Settings:
        return settings_found(
            self.environment, url=self.words.url, tenant=self.words.tenant, warn=lambda text: self.screen.note(text)
        )

    @property
    def client(self) -> Client:
        if self._client is None:
            settings_kept = self.settings
            self._client = Client(settings_kept.url, settings_kept.token, tenant=settings_kept.tenant, pace=self.pace)
        return self._client

    def client_of(self, url: str, token: str) -> Client:
        """Make the client of a server and a token that are not kept yet."""
        self._client = Client(url, token, pace=self.pace)
        return self._client

    @property
    def pool(self) -> str:
        """Return the pool that the command names, else the one that is set, else the only one there is."""
        return self.words.pool or self.settings.pool or self.client.only_pool()

    @cached_property
    def key(self) -> str:
        """Return the Idempotency-Key of what the command does. With it, the whole command can be given again."""
        return self.words.key or new_key()

    def key_of(self, part: int | str) -> str:
        """Return the key of one call of a command that makes several: the same one whenever it is given again, and not
        that of another command, however long both keys are."""
        key = f"{self.key}-{part}"
        return key if len(key) <= LONGEST_KEY else f"{hashlib.sha256(self.key.encode()).hexdigest()}-{part}"

    @property
    def is_unanswered(self) -> bool:
        """Return whether a change was sent of which nobody knows what became of it."""
        return self._client is not None and self._client.transport.unanswered is not None

    @property
    def was_answered(self) -> bool:
        """Return whether an answer came, of which this version of the client thought that it knows it."""
        return self._client is not None and self._client.transport.was_answered

    @property
    def pace(self) -> Pace:
        return Pace(timeout=self.words.patience, patience=3 * self.words.patience, notice=self._say_outage)

    def _say_outage(self, sentence: str) -> None:
        self.screen.note(f"bourse: {sentence}")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

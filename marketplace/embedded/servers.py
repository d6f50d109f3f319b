"""Both servers together, and how the other commands find the ones that `manage.py up` is running."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from marketplace import children
from marketplace.children import Child
from marketplace.embedded import postgres, programs, valkey
from marketplace.embedded.state import State, make_private, state_for

DURABLE: tuple[str, ...] = ()
FORGETFUL = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")  # for tests


@dataclass
class Servers:
    """`with Servers(state): ...` starts both and stops both. Start it from the main thread (see `children.start`)."""

    state: State
    settings: tuple[str, ...] = DURABLE
    with_database: bool = True
    with_redis: bool = True
    logs: Path | None = None
    running: list[Child] = field(default_factory=list)
    _lock: IO[str] | None = None

    def __enter__(self) -> "Servers":
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def start(self) -> None:
        self._lock = self.state.hold()
        try:
            account = programs.server_account()
            where = programs.installed_for(account)
            make_private(self.state.sockets, account)
            if self.with_database:
                log = self._log("postgres")
                child = postgres.start(self.state, where.postgres_folder, account, settings=self.settings, log=log)
                self._await(child, postgres.is_ready)
            if self.with_redis:
                child = valkey.start(self.state, where.valkey, account, log=self._log("valkey"))
                self._await(child, valkey.is_ready)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        while self.running:
            children.stop(self.running.pop(), patience=20.0)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _await(self, child: Child, is_ready: Any) -> None:
        self.running.append(child)
        children.wait_until(lambda: is_ready(self.state), child)

    def _log(self, name: str) -> Path:
        folder = self.logs or self.state.folder / "log"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder / f"{name}.log"


def announce(state: State) -> None:
    """Addresses for this process and its children, before the settings are read. A given address is left alone."""
    os.environ.setdefault("DATABASE_URL", state.database_url)
    os.environ.setdefault("REDIS_URL", state.redis_url)


def join_running(var: Path) -> None:
    """A command typed beside a running `manage.py up` works on the same database, with DEBUG as there."""
    state = state_for(var)
    if "DATABASE_URL" not in os.environ and state.is_held():
        announce(state)
        os.environ.setdefault("DEBUG", "true")

"""Both servers together, and how other commands find the ones that `manage.py up` is running."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from marketplace.embedded import postgres, programs, valkey
from marketplace.embedded.postgres import POSTGRESQL
from marketplace.embedded.programs import ServerPrograms, SystemAccount
from marketplace.embedded.state import State, make_private, state_for
from marketplace.embedded.valkey import VALKEY
from marketplace.processes import children
from marketplace.processes.children import Child

RECOVERY_SECONDS = 300.0  # for recovering what was written before an unexpected end
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
    tell: Callable[[str], None] = lambda line: None
    running: list[Child] = field(default_factory=list)
    _lock: IO[str] | None = None
    _account: SystemAccount | None = None
    _programs: ServerPrograms | None = None

    def __enter__(self) -> "Servers":
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def start(self) -> None:
        self._lock = self.state.hold()
        try:
            self._account = programs.server_account()
            self._programs = programs.installed_for(self._account)
            make_private(self.state.sockets, self._account)
            for name in [POSTGRESQL] * self.with_database + [VALKEY] * self.with_redis:
                if name == POSTGRESQL and not self.state.data.exists():
                    self.tell(f"Making an empty database in {self.state.folder} ...")
                self.tell(f"Starting {name} ...")
                child = self._start(name)
                self.running.append(child)
                children.wait_until(partial(self.answers, name), child, patience=RECOVERY_SECONDS)
        except BaseException:
            self.stop()
            raise

    def start_again(self, name: str) -> Child:
        """Start another process in place of one that has ended. The caller waits until it `answers`.

        PostgreSQL recovers what was committed from its own files; if these are gone, an empty database must not replace
        it. Valkey begins empty (decision 0192).
        """
        if name == POSTGRESQL and not self.state.data.exists():
            raise children.ChildFailed(f"The data of PostgreSQL are gone from {self.state.data}.")
        child = self._start(name)
        self.running = [child if each.name == name else each for each in self.running]
        return child

    def answers(self, name: str) -> bool:
        return postgres.is_ready(self.state) if name == POSTGRESQL else valkey.is_ready(self.state)

    def stop(self) -> None:
        while self.running:
            children.stop(self.running.pop(), patience=20.0)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _start(self, name: str) -> Child:
        assert self._programs is not None  # noqa: S101  `start` set it
        if name == POSTGRESQL:
            folder, log = self._programs.postgres_folder, self._log("postgres")
            return postgres.start(self.state, folder, self._account, settings=self.settings, log=log)
        return valkey.start(self.state, self._programs.valkey, self._account, log=self._log("valkey"))

    def _log(self, name: str) -> Path:
        folder = self.logs or self.state.folder / "log"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder / f"{name}.log"


def announce(state: State) -> None:
    """Set the addresses for this process and its children, before the settings are read. A given address is kept."""
    if "DATABASE_URL" not in os.environ:
        os.environ |= {"DATABASE_URL": state.database_url, "DATABASE_OWNER_URL": state.owner_url}
    os.environ.setdefault("REDIS_URL", state.redis_url)


def join_running(var: Path) -> None:
    """Make a command beside a running `manage.py up` use the same database, with DEBUG as there."""
    state = state_for(var)
    if "DATABASE_URL" not in os.environ and state.is_held():
        announce(state)
        os.environ.setdefault("DEBUG", "true")

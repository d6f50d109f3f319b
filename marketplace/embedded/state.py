"""The folder of the servers' data, sockets, passwords and logs; and the lock that lets one process use it at a time."""

import fcntl
import hashlib
import json
import os
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

from marketplace.embedded import programs
from marketplace.embedded.programs import CannotStart, SystemAccount

PORT = "5432"  # it only names the socket file
LONGEST_SOCKET_PATH = 103  # bytes; Linux allows 107, macOS 103
SUPERUSER, OWNER, ROLE, DATABASE = "postgres", "bourse_owner", "bourse", "bourse"


class AlreadyRunning(Exception):
    """Another process holds this state folder. The message names it."""


@dataclass(frozen=True)
class State:
    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "postgres"

    @property
    def sockets(self) -> Path:
        """Return the folder of the sockets: beside the data if its path is short enough for a socket, else a temporary
        folder."""
        near = self.folder / "sockets"
        if len(os.fsencode(near / f".s.PGSQL.{PORT}")) <= LONGEST_SOCKET_PATH:
            return near
        return Path(tempfile.gettempdir()) / f"bourse-{os.geteuid()}-{_short_hash(self.folder)}"

    @property
    def database_url(self) -> str:
        return self._postgres_url(ROLE, DATABASE)

    @property
    def owner_url(self) -> str:
        return self._postgres_url(OWNER, DATABASE)

    @property
    def superuser_url(self) -> str:
        return self._postgres_url(SUPERUSER, "postgres")

    @property
    def redis_url(self) -> str:
        return f"unix://{self.sockets}/valkey?db=0"

    def passwords(self) -> dict[str, str]:
        """Return the passwords, which are made on first use: of the superuser, and of the role with which the product
        logs in. The password of the role that owns the tables follows from the superuser's, so that older folders, from
        before there was such a role, need no new one."""
        path = self.folder / "passwords.json"
        if not path.exists():
            make_passable(self.folder)
            new_passwords = {name: secrets.token_urlsafe(24) for name in (SUPERUSER, ROLE)}
            write_private(path, json.dumps(new_passwords))
        passwords: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        return {**passwords, OWNER: hashlib.sha256(f"{OWNER} {passwords[SUPERUSER]}".encode()).hexdigest()}

    def hold(self) -> IO[str]:
        """Take the lock, until the file is closed. The kernel releases it when its holder dies, however it dies."""
        make_passable(self.folder)
        file = (self.folder / "lock").open("a+", encoding="ascii")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip()
            file.close()
            raise AlreadyRunning(f"Already running as process {holder}, with its data in {self.folder}.") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        return file

    def is_held(self) -> bool:
        try:
            with (self.folder / "lock").open(encoding="ascii") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # there is no such folder, or we may not read it
            return False
        return False

    def _postgres_url(self, role: str, database: str) -> str:
        return f"postgresql://{role}:{self.passwords()[role]}@:{PORT}/{database}?host={quote(str(self.sockets))}"


def state_for(var: Path) -> State:
    """Return the state in `var`; but root, where the servers' account cannot enter, uses the system's state folder."""
    if os.geteuid() == 0 and not programs.reachable(var):
        return State(programs.SYSTEM_STATE / _short_hash(var))
    return State(var)


def write_private(path: Path, content: str) -> None:
    """Write a file that nobody else can ever read, not even between making it and changing its mode."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(content)
    part.replace(path)


def make_passable(folder: Path) -> None:
    """Let others pass through the folder to what is theirs inside (the servers' account, when root starts it), without
    listing it."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        folder.chmod(0o711)
    else:
        folder.chmod(0o700)


def make_private(path: Path, account: SystemAccount | None) -> None:
    """Make a folder for the servers' account alone, or for us where there is none. Root can enter anyway."""
    path.mkdir(exist_ok=True, mode=0o700)
    state = path.lstat()
    owner = account.uid if account else os.geteuid()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid not in (owner, os.geteuid()):
        raise CannotStart(f"{path} belongs to somebody else: remove it, or choose another folder with BOURSE_VAR.")
    path.chmod(0o700)
    if account:
        os.chown(path, account.uid, account.gid)


def _short_hash(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]

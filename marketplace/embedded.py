"""PostgreSQL and Valkey as children of ours, for `manage.py up`, the tests and the benchmarks.

Both listen on a socket file in a folder that only we and they may enter, and on no network at all. The addresses follow
from the folder, so they are known before anything runs. docs/decisions/0001 says why.
"""

import fcntl
import hashlib
import json
import os
import secrets
import signal
import stat
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from marketplace import children, programs
from marketplace.children import Child
from marketplace.programs import Account

PORT = "5432"  # only names the socket file
LONGEST_SOCKET_PATH = 103  # bytes; Linux allows 107, macOS 103
SUPERUSER, ROLE, DATABASE = "postgres", "bourse", "bourse"

DURABLE = ("synchronous_commit=on",)
FORGETFUL = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class AlreadyRunning(Exception):
    """Somebody holds this state folder."""


class CannotStart(Exception):
    """Something about the folders is wrong. The message says what."""


@dataclass(frozen=True)
class State:
    """The folder that holds the servers' data, sockets, passwords and logs."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "postgres"

    @property
    def sockets(self) -> Path:
        """Beside the data where the path is short enough for a socket, else in the temporary folder."""
        near = self.folder / "sockets"
        if len(os.fsencode(near / f".s.PGSQL.{PORT}")) <= LONGEST_SOCKET_PATH:
            return near
        return Path(tempfile.gettempdir()) / f"bourse-{os.geteuid()}-{_short_hash(self.folder)}"

    @property
    def database_url(self) -> str:
        return self._postgres_url(ROLE, DATABASE)

    @property
    def superuser_url(self) -> str:
        return self._postgres_url(SUPERUSER, "postgres")

    @property
    def redis_url(self) -> str:
        return f"unix://{self.sockets}/valkey?db=0"

    def passwords(self) -> dict[str, str]:
        """Made on first use; one for the superuser, one for the role that the product logs in with."""
        path = self.folder / "passwords.json"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o711)
            made = {name: secrets.token_urlsafe(24) for name in (SUPERUSER, ROLE)}
            write_private(path, json.dumps(made))
        passwords: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        return passwords

    def _postgres_url(self, role: str, database: str) -> str:
        return f"postgresql://{role}:{self.passwords()[role]}@:{PORT}/{database}?host={quote(str(self.sockets))}"


@dataclass
class Servers:
    """`with Servers(state): ...` starts both and stops both. Start it from the main thread (see `children.start`)."""

    state: State
    settings: tuple[str, ...] = DURABLE
    database: bool = True
    redis: bool = True
    running: list[Child] = field(default_factory=list)
    _lock: IO[str] | None = None

    def __enter__(self) -> "Servers":
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def start(self) -> None:
        account = programs.server_account()
        self.state.folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        self._lock = _hold(self.state.folder / "lock")
        try:
            _private_folder(self.state.sockets, account)
            where = programs.installed_for(account)
            if self.database:
                self._start_postgres(where.postgres_folder, account)
            if self.redis:
                self._start_valkey(where.valkey, account)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        while self.running:
            children.stop(self.running.pop(), patience=20.0)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _start_postgres(self, folder: Path, account: Account | None) -> None:
        _stop_orphan(self.state.data)
        log = self._log("postgres")
        if not self.state.data.exists():
            _initialise(self.state, folder, account, log)
        command: list[str | Path] = [folder / "postgres", "-D", self.state.data, "-p", PORT, "-k", self.state.sockets]
        for setting in ("listen_addresses=", "unix_socket_permissions=0700", "max_connections=100", *self.settings):
            command += ["-c", setting]
        # SIGINT is PostgreSQL's fast shutdown: it ends the sessions and checkpoints.
        child = children.start(
            "PostgreSQL", command, log=log, environment=_bare(), account=account, stop_signal=signal.SIGINT
        )
        self.running.append(child)
        children.wait_until(lambda: _has_our_database(self.state), child)

    def _start_valkey(self, program: Path, account: Account | None) -> None:
        socket = self.state.sockets / "valkey"
        _stop_valkey(socket)
        command: list[str | Path] = [program, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700"]
        # A full broker must refuse loudly; evicting would lose tasks in silence.
        command += ["--save", "", "--appendonly", "no", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction"]
        command += ["--dir", self.state.sockets]
        child = children.start("Valkey", command, log=self._log("valkey"), environment=_bare(), account=account)
        self.running.append(child)
        children.wait_until(lambda: _answers(socket), child)

    def _log(self, name: str) -> Path:
        folder = self.state.folder / "log"
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder / f"{name}.log"


def state_for(var: Path) -> State:
    """In `var`; but root, working where the servers' account cannot enter, uses the system's state folder."""
    if os.geteuid() == 0 and not programs.reachable(var):
        return State(programs.SYSTEM_STATE / _short_hash(var))
    return State(var)


def write_private(path: Path, content: str) -> None:
    """Nobody else may ever read it, not even for the moment between making it and changing its mode."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(content)
    part.replace(path)


def is_held(state: State) -> bool:
    """Are servers running from this folder right now?"""
    try:
        _hold(state.folder / "lock", writable=False).close()
    except AlreadyRunning:
        return True
    except FileNotFoundError:
        return False
    return False


def _hold(path: Path, *, writable: bool = True) -> IO[str]:
    """The kernel lets go of the lock when its holder dies, however it dies."""
    file = path.open("a+" if writable else "r", encoding="ascii")
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if writable else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip()
        file.close()
        raise AlreadyRunning(f"The servers in {path.parent} are already running (process {holder}).") from None
    if writable:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
    return file


def _short_hash(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]


def _bare() -> dict[str, str]:
    """Neither our secrets nor PG* variables are the servers' business."""
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "TZ": "UTC"}


def _private_folder(path: Path, account: Account | None) -> None:
    path.mkdir(exist_ok=True, mode=0o700)
    found = path.lstat()
    owner = account.uid if account else os.geteuid()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (owner, os.geteuid()):
        raise CannotStart(f"{path} belongs to somebody else: remove it, or choose another folder with BOURSE_VAR.")
    path.chmod(0o700)
    if account:
        os.chown(path, account.uid, account.gid)


def _initialise(state: State, folder: Path, account: Account | None, log: Path) -> None:
    """Into a folder beside the final one, renamed at the end: a start that was cut off leaves nothing half made."""
    passwords = state.passwords()
    with tempfile.TemporaryDirectory(dir=state.folder, prefix="new-") as scratch:
        _private_folder(Path(scratch), account)
        password_file, data = Path(scratch) / "password", Path(scratch) / "postgres"
        write_private(password_file, passwords[SUPERUSER])
        if account:
            os.chown(password_file, account.uid, account.gid)
        command: list[str | Path] = [folder / "initdb", "-D", data, "--username", SUPERUSER, "--pwfile", password_file]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--no-sync", "--no-instructions"]
        # PostgreSQL's own locale sorts the same on every machine; the system's may change under an index.
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        child = children.start("initdb", command, log=log, environment=_bare(), account=account)
        if child.process.wait(120) != 0:
            raise children.ChildFailed(children.describe_end(child))
        data.rename(state.data)


def _has_our_database(state: State) -> bool:
    """False while PostgreSQL does not answer yet. Once it does, the role and the database are made if missing."""
    import psycopg

    try:
        connection = psycopg.connect(state.superuser_url, autocommit=True)
    except psycopg.OperationalError as error:
        if "password authentication failed" in str(error):
            raise CannotStart(f"{state.folder}/passwords.json does not fit the data in {state.data}.") from None
        return False
    with connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone():
            password = psycopg.sql.Literal(state.passwords()[ROLE])
            make = psycopg.sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD {}")
            connection.execute(make.format(psycopg.sql.Identifier(ROLE), password))
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
            make = psycopg.sql.SQL("CREATE DATABASE {} OWNER {}")
            connection.execute(make.format(psycopg.sql.Identifier(DATABASE), psycopg.sql.Identifier(ROLE)))
    return True


def _stop_orphan(data: Path) -> None:
    """A PostgreSQL that outlived its parent is stopped; a lock file that names a stranger's process is removed."""
    import psutil

    note = data / "postmaster.pid"
    try:
        process = psutil.Process(int(note.read_text(encoding="utf-8").splitlines()[0]))
        ours = str(data) in process.cmdline()
    except (FileNotFoundError, psutil.NoSuchProcess, ValueError, IndexError):
        return  # PostgreSQL itself removes the note of a process that is gone.
    if not ours:
        note.unlink()
        return
    process.send_signal(signal.SIGINT)
    process.wait(20)


def _valkey(socket: Path) -> Any:
    import redis

    return redis.Redis(unix_socket_path=str(socket), socket_timeout=2)


def _answers(socket: Path) -> bool:
    import redis

    client = _valkey(socket)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()


def _stop_valkey(socket: Path) -> None:
    if not _answers(socket):
        return
    _valkey(socket).shutdown(nosave=True)
    deadline = time.monotonic() + 10
    while _answers(socket) and time.monotonic() < deadline:
        time.sleep(0.02)


# --- How other commands find what `manage.py up` is running --------------------------------------------------------


def announce(state: State) -> None:
    """Addresses for this process and its children, before the settings are read. A given address is left alone."""
    os.environ.setdefault("DATABASE_URL", state.database_url)
    os.environ.setdefault("REDIS_URL", state.redis_url)


def join_running(var: Path) -> None:
    """A command typed beside a running `manage.py up` works on the same database, with DEBUG as there."""
    state = state_for(var)
    if is_held(state):
        announce(state)
        os.environ.setdefault("DEBUG", "true")

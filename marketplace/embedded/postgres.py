"""Make, start and recover the embedded PostgreSQL."""

import contextlib
import os
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from marketplace.embedded.programs import CannotStart, SystemAccount
from marketplace.embedded.state import (
    DATABASE,
    OWNER,
    PORT,
    ROLE,
    SUPERUSER,
    State,
    make_private,
    write_private,
)
from marketplace.processes import children
from marketplace.processes.children import Child

POSTGRESQL = "PostgreSQL"
# The server gets neither our secrets nor PG* variables of our environment.
ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8", "TZ": "UTC"}


def start(state: State, folder: Path, account: SystemAccount | None, *, settings: Sequence[str], log: Path) -> Child:
    stop_orphan(state.data)
    if not state.data.exists():
        _initialise(state, folder, account, log)
    command: list[str | Path] = [folder / "postgres", "-D", state.data, "-p", PORT, "-k", state.sockets]
    for setting in ("listen_addresses=", "unix_socket_permissions=0700", "max_connections=100", *settings):
        command += ["-c", setting]
    # SIGINT is PostgreSQL's fast shutdown: it ends the sessions and writes everything to disk.
    return children.start(
        POSTGRESQL, command, log=log, environment=ENVIRONMENT, account=account, stop_signal=signal.SIGINT
    )


def is_ready(state: State) -> bool:
    """Return whether PostgreSQL answers. Once it does, this has set up our roles and database."""
    try:
        connection = psycopg.connect(state.superuser_url, autocommit=True)
    except psycopg.OperationalError as error:
        if "password authentication failed" in str(error):
            raise CannotStart(f"{state.folder}/passwords.json does not fit the data in {state.data}.") from None
        return False
    owner, role, database = (sql.Identifier(name) for name in (OWNER, ROLE, DATABASE))
    with connection:
        # Before there were two roles, the serving role made databases and owned everything in ours.
        is_older = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s AND rolcreatedb", [ROLE]).fetchone()
        for name in (OWNER, ROLE):
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone():
                make = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
                connection.execute(make.format(sql.Identifier(name), sql.Literal(state.passwords()[name])))
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, owner))
    if is_older:
        with psycopg.connect(state.superuser_url, dbname=DATABASE) as connection:  # both statements or neither
            connection.execute(sql.SQL("REASSIGN OWNED BY {} TO {}").format(role, owner))
            connection.execute(sql.SQL("ALTER ROLE {} NOCREATEDB").format(role))
    return True


def stop_orphan(data: Path) -> None:
    """Stop a PostgreSQL that outlived its parent, and sessions that outlived PostgreSQL."""
    _stop_main_process(data)
    _kill_sessions(data)


def _stop_main_process(data: Path) -> None:
    """Stop the main process that the note in the data folder names. If it is a stranger's process, the note
    is removed."""
    note = data / "postmaster.pid"
    try:
        process = psutil.Process(int(note.read_text(encoding="utf-8").splitlines()[0]))
        ours = str(data) in process.cmdline()
    except (FileNotFoundError, psutil.NoSuchProcess, ValueError, IndexError):
        return  # PostgreSQL itself removes the note of a process that is gone
    if not ours:
        note.unlink()
        return
    process.resume()  # somebody may have stopped it
    process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    except psutil.TimeoutExpired:
        process.kill()  # its data are intact all the same
        process.wait(20)


def _kill_sessions(data: Path) -> None:
    """Kill sessions whose main process was killed. They end by themselves as soon as they check; but one that is
    stopped or computes does not check, and until it is gone the next main process refuses to start. What they had
    committed is on disk, and the rest was reported to nobody as done."""
    sessions = [process for process in psutil.process_iter() if _works_in(process, data)]
    for process in sessions:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(sessions, timeout=20)


def _works_in(process: psutil.Process, data: Path) -> bool:
    """Return whether the process is PostgreSQL's: each of those has its data as working folder."""
    try:
        return Path(process.exe()).name == "postgres" and Path(process.cwd()) == data.resolve()
    except psutil.Error:
        return False


def _initialise(state: State, folder: Path, account: SystemAccount | None, log: Path) -> None:
    """Make the data in a folder beside the final one, renamed at the end: an interrupted start leaves nothing half
    made."""
    with tempfile.TemporaryDirectory(dir=state.folder, prefix="new-") as scratch:
        make_private(Path(scratch), account)
        password_file, data = Path(scratch) / "password", Path(scratch) / "postgres"
        write_private(password_file, state.passwords()[SUPERUSER])
        if account:
            os.chown(password_file, account.uid, account.gid)
        command: list[str | Path] = [folder / "initdb", "-D", data, "-U", SUPERUSER, "--pwfile", password_file]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--no-instructions"]
        # PostgreSQL's own locale sorts the same on every machine; the system's may change under an index.
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        child = children.start("initdb", command, log=log, environment=ENVIRONMENT, account=account)
        if child.process.wait(120) != 0:
            raise children.ChildFailed(children.describe_end(child))
        data.rename(state.data)

"""`manage.py up` as its user sees it: started, asked, interrupted."""

import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import psutil
import psycopg
import pytest

from marketplace.embedded import Servers, State
from tests.engines.local import until
from tests.marketplace.test_embedded import as_an_older_version_left_it
from tests.patience import PATIENCE
from tests.ports import free_port

WEBS = 2
SERVERS = ("PostgreSQL", "Valkey")
WORDS = {  # of the command of each child
    "beat": "marketplace.celery --quiet beat",
    "web": "marketplace.web",
    "worker": "marketplace.celery --quiet worker",
    "engine": "django engine",
    "Valkey": "valkey-server",
    "PostgreSQL": "postgres -D",
}
ROOT = Path(__file__).parent.parent.parent


# What the tests themselves have set, and what would hide that lines wait in a buffer.
SETTINGS = ("DEBUG", "SECRET_KEY", "DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "BOURSE_VAR", "PYTHONUNBUFFERED")


def bare() -> dict[str, str]:
    """Our environment without what would change a command that a user types."""
    return {name: value for name, value in os.environ.items() if name not in SETTINGS}


def manage(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**bare(), **settings}, capture_output=True, text=True, timeout=PATIENCE
    )


class Up:
    """A running `manage.py up`. `with` guarantees its end, whatever the test finds."""

    def __init__(self, var: Path, port: int, **settings: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(port)],
            cwd=ROOT,
            env={**bare(), "BOURSE_VAR": str(var), "WEB_PROCESSES": str(WEBS), "DEMO_DAYS": "0", **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = f"http://127.0.0.1:{port}"

    def __enter__(self) -> "Up":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)

    def wait_for_address(self) -> list[str]:
        """Everything that it printed until it was ready."""
        return self.wait_for(f"is ready: {self.address}")

    def wait_for(self, words: str) -> list[str]:
        """What it printed up to the line with these words. Ends also when the process does, or takes too long."""
        assert self.process.stdout is not None
        lines: list[str] = []
        watch = threading.Timer(PATIENCE, self.process.terminate)
        watch.start()
        try:
            for line in self.process.stdout:
                lines.append(line)
                if words in line:
                    return lines
        finally:
            watch.cancel()
        raise AssertionError(f"{words!r} did not come\n" + "".join(lines) + self.process.communicate()[1])

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def lose(self, name: str) -> None:
        """One of its children is killed, and has come again."""
        children = psutil.Process(self.process.pid).children()
        victim = next(child for child in children if WORDS[name] in " ".join(look(child)[0]))
        victim.kill()
        self.wait_for(f"{name} (process {victim.pid}) was killed by SIGKILL. It is started again.")
        self.wait_for(f"{name} answers again" if name in SERVERS else f"{name} is process")

    def end(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


def ready(address: str) -> str:
    """What the page for load balancers says; empty while nobody answers."""
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=10) as reply:
            return str(reply.read().decode())
    except OSError:
        return ""


def look(process: psutil.Process) -> tuple[list[str], list[str]]:
    """Its command and where it listens; nothing for one of PostgreSQL's that has ended since."""
    try:
        listening = [c.laddr.ip for c in process.net_connections(kind="inet") if c.status == psutil.CONN_LISTEN]
        return process.cmdline(), listening
    except psutil.NoSuchProcess:
        return [], []


def assert_all_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE)
    assert alive == []


def test_runs_and_leaves_no_process_behind(short_folder: Path) -> None:
    var = short_folder / "var"
    with Up(var, free_port()) as up:
        printed = up.wait_for_address()
        assert printed[0] == f"Bourse is starting; its address will be {up.address}/\n"
        text = "".join(printed)
        for step in ("empty database", "Starting PostgreSQL", "Starting Valkey", "tables", "demonstration", "web-2"):
            assert step in text
        assert "owner@lumen.example" in text
        with urllib.request.urlopen(up.address + "/", timeout=PATIENCE) as reply:
            assert reply.status == 200
        joined = manage("verify_ledger", BOURSE_VAR=str(var))
        assert joined.returncode == 0, joined.stderr
        family = up.family()
        words = [word for process in family for word in look(process)[0]]
        assert all(
            any(name in word for word in words) for name in ("postgres", "valkey", "marketplace.web", "worker", "beat")
        )
        assert [address for process in family for address in look(process)[1]] == ["127.0.0.1"] * WEBS
        up.process.send_signal(signal.SIGINT)
        assert up.end()[0] == 0
    assert_all_gone(family)

    collected = short_folder / "collected"
    collected.mkdir()
    (collected / "staticfiles.json").touch()
    production = {"DEBUG": "false", "SECRET_KEY": "k" * 50, "STATIC_ROOT": str(collected)}
    refused = manage("up", BOURSE_VAR=str(var), PORT=str(free_port()), **production)
    assert refused.returncode == 1
    assert "holds the demonstration, whose password everybody knows" in refused.stderr


@pytest.mark.wide
def test_keeps_its_data_from_one_start_to_the_next_and_when_its_database_is_killed(short_folder: Path) -> None:
    var = short_folder / "var"
    with Up(var, free_port()) as up:
        up.wait_for_address()
        with psycopg.connect(State(var).owner_url) as connection:
            connection.execute("CREATE TABLE kept (word text)")
        up.process.send_signal(signal.SIGINT)
        assert up.end()[0] == 0

    with Servers(State(var), with_redis=False):
        as_an_older_version_left_it(State(var))
    with Up(var, free_port()) as up:
        assert "The role" not in "".join(up.wait_for_address()), "the roles are as they should be"
        with psycopg.connect(State(var).database_url) as connection:
            assert connection.execute("SELECT count(*) > 0 FROM ledger_entry").fetchone() == (True,)
        with psycopg.connect(State(var).owner_url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        up.lose("PostgreSQL")  # each of the others: `tests.concurrency.test_market_killed`
        with psycopg.connect(State(var).owner_url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        until(lambda: ready(up.address) == "database: ok\nbroker: ok\nworker: ok\n")
        family = up.family()
        up.process.send_signal(signal.SIGINT)
        assert up.end()[0] == 0
    assert_all_gone(family)


@pytest.mark.wide
def test_taken_port_is_one_clear_line(short_folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with Up(short_folder / "var", port) as up:
            code, errors = up.end()
    assert code == 1
    assert errors == (
        f"CommandError: Port {port} is taken by another program. Choose another: make run PORT={port + 1}\n"
    )


@pytest.mark.parametrize("command", ["migrate", "makemigrations", "shell"])
def test_command_without_settings_and_without_a_running_product_says_what_is_missing(
    short_folder: Path, command: str
) -> None:
    refused = manage(command, BOURSE_VAR=str(short_folder))
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        "SECRET_KEY is not set: expected a secret of at least 50 characters.\ndocs/operations.md lists"
    )
    assert refused.stderr.count("\n") == 2


def test_bad_variable_is_named_before_anything_starts(short_folder: Path) -> None:
    refused = manage("up", BOURSE_VAR=str(short_folder), LOG_LEVEL="loud")
    assert refused.returncode == 1
    assert refused.stderr.startswith("LOG_LEVEL: expected one of DEBUG, ERROR, INFO, WARNING, found 'loud'.\n")
    assert not (short_folder / "postgres").exists()


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        ({"ALLOWED_HOSTS": "bourse.example"}, "ALLOWED_HOSTS lacks 127.0.0.1"),
        ({"STATIC_ROOT": "/nowhere"}, "/nowhere has no collected files: run `manage.py collectstatic --noinput`."),
    ],
)
def test_what_no_page_can_be_shown_without_is_named_before_anything_starts(
    lacking: dict[str, str], words: str, short_folder: Path
) -> None:
    result = manage("up", DEBUG="false", SECRET_KEY="k" * 60, BOURSE_VAR=str(short_folder / "v"), **lacking)
    assert result.returncode == 1
    assert words in result.stderr
    assert "`manage.py doctor`" in result.stderr
    assert not (short_folder / "v" / "postgres").exists()

"""`manage.py up` as its user sees it: started, asked, interrupted."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import psycopg
import pytest

from marketplace.embedded import State

WEBS = 2
ROOT = Path(__file__).parent.parent.parent


SETTINGS = ("DEBUG", "SECRET_KEY", "DATABASE_URL", "REDIS_URL", "BOURSE_VAR")


def bare() -> dict[str, str]:
    """Our environment without what the tests themselves have set."""
    return {name: value for name, value in os.environ.items() if name not in SETTINGS}


def manage(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**bare(), **settings}, capture_output=True, text=True, timeout=60)


class Up:
    """A running `manage.py up`. `with` guarantees its end, whatever the test finds."""

    def __init__(self, var: Path, port: int, **settings: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(port)],
            cwd=ROOT,
            env={**bare(), "BOURSE_VAR": str(var), "WEB_PROCESSES": str(WEBS), "PYTHONUNBUFFERED": "1", **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = f"http://127.0.0.1:{port}"

    def __enter__(self) -> "Up":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)

    def wait_for_address(self) -> list[str]:
        """What it printed up to the address. Ends also when the process does."""
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line)
            if self.address in line:
                return lines
        raise AssertionError("".join(lines) + self.process.communicate()[1])

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def look(process: psutil.Process) -> tuple[list[str], list[str]]:
    """Its command and where it listens; nothing for one of PostgreSQL's that has ended since."""
    try:
        listening = [c.laddr.ip for c in process.net_connections(kind="inet") if c.status == psutil.CONN_LISTEN]
        return process.cmdline(), listening
    except psutil.NoSuchProcess:
        return [], []


def assert_all_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []


def test_runs_keeps_data_and_leaves_no_process_behind(short_folder: Path) -> None:
    var = short_folder / "var"
    with Up(var, free_port()) as up:
        printed = "".join(up.wait_for_address())
        assert "owner@lumen.example" in printed
        with urllib.request.urlopen(up.address + "/", timeout=10) as reply:
            assert reply.status == 200
        joined = manage("verify_ledger", BOURSE_VAR=str(var))
        assert joined.returncode == 0, joined.stderr
        family = up.family()
        words = [word for process in family for word in look(process)[0]]
        assert all(
            any(name in word for word in words) for name in ("postgres", "valkey", "marketplace.web", "worker", "beat")
        )
        assert [address for process in family for address in look(process)[1]] == ["127.0.0.1"] * WEBS
        with psycopg.connect(State(var).database_url) as connection:
            connection.execute("CREATE TABLE kept (word text)")
        up.process.send_signal(signal.SIGINT)
        assert up.end()[0] == 0
    assert_all_gone(family)

    with Up(var, free_port()) as up:
        up.wait_for_address()
        with psycopg.connect(State(var).database_url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        family = up.family()
        [beat] = [process for process in family if "beat" in look(process)[0]]
        beat.kill()
        code, errors = up.end()
    assert code == 1
    assert "beat was killed by SIGKILL" in errors
    assert_all_gone(family)

    refused = manage("up", BOURSE_VAR=str(var), DEBUG="false", SECRET_KEY="k" * 50, PORT=str(free_port()))
    assert refused.returncode == 1
    assert "holds the demonstration, whose password everybody knows" in refused.stderr


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

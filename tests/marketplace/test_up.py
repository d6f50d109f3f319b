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

from marketplace.embedded import State

ROOT = Path(__file__).parent.parent.parent


class Up:
    """A running `manage.py up`. `with` guarantees its end, whatever the test finds."""

    def __init__(self, var: Path, port: int) -> None:
        given = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(port)],
            cwd=ROOT,
            env={**given, "BOURSE_VAR": str(var), "PYTHONUNBUFFERED": "1"},
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
        family = up.family()
        names = " ".join(" ".join(process.cmdline()) for process in family)
        assert all(word in names for word in ("postgres", "valkey-server", "uvicorn", "worker", "beat"))
        listening = [
            connection.laddr.ip
            for process in family
            for connection in process.net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert listening == ["127.0.0.1"]
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
        [beat] = [process for process in family if "beat" in process.cmdline()]
        beat.kill()
        code, errors = up.end()
    assert code == 1
    assert "beat was killed by SIGKILL" in errors
    assert_all_gone(family)


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

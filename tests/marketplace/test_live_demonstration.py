"""What an operator asks of an installation, asked of a running demonstration: doctor, retention, archives, figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest

from marketplace.embedded import State
from tests.engines.local import until
from tests.filled import tables_filled_in
from tests.marketplace.test_monitoring import NO_PROMETHEUS, answer, prometheus, queries
from tests.marketplace.test_up import ROOT, Up, manage
from tests.patience import PATIENCE
from tests.ports import free_port

pytestmark = pytest.mark.wide

# Of these a cluster alone tells, or something that went wrong: the demonstration has neither. That they are figures
# that there are, and that their queries answer once there is one, is looked at in `test_monitoring`.
NOT_HERE = {"Commands to a cluster: p95", "Lost, by cause"}


def beside(var: Path) -> dict[str, str]:
    """For a process that works beside the product, with both roles."""
    state = State(var)
    return {
        "DATABASE_URL": state.database_url,
        "DATABASE_OWNER_URL": state.owner_url,
        "REDIS_URL": state.redis_url,
        "BOURSE_VAR": str(var),
        "DEBUG": "true",
    }


def commanded(var: Path, *words: str, status: int = 0) -> str:
    done = manage(*words, **beside(var))
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def token(var: Path) -> str:
    command = [sys.executable, "-m", "tests.marketplace.metrics_token", "operator@bourse.example"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | beside(var), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def findings(var: Path) -> dict[str, str]:
    """What doctor says: the worst of each check."""
    done = manage("doctor", "--json", **beside(var))
    assert done.stdout, done.stderr
    order = ("well", "warning", "broken")
    states: dict[str, str] = {}
    for one in json.loads(done.stdout):
        states[one["name"]] = max(states.get(one["name"], "well"), one["state"], key=order.index)
    return states


WELL = ("database", "roles", "migrations", "broker", "clocks", "workers", "beat", "market", "engine")


def rows_of(var: Path, question: str) -> list[tuple]:
    with psycopg.connect(State(var).database_url) as connection:
        return connection.execute(question).fetchall()


@contextmanager
def figures(address: str, secret: str) -> Iterator[int]:
    """A port at which the product's figures are read without a token, as they are at that moment."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            request = urllib.request.Request(f"{address}/metrics", headers={"Authorization": f"Bearer {secret}"})
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                text, kind = reply.read(), reply.headers["Content-Type"]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def dashboards_answer(address: str, secret: str, folder: Path) -> None:
    with figures(address, secret) as port, prometheus(folder, port) as prom:
        for name, expression in queries().items():
            if any(title in name for title in NOT_HERE):
                continue
            wanted = expression.replace("$pool", ".*").replace("[15m]", "[1m]").replace("[5m]", "[1m]")
            deadline = time.monotonic() + PATIENCE
            while not answer(prom, wanted):
                assert time.monotonic() < deadline, f"{name}: {wanted} has no answer"
                time.sleep(0.5)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason=NO_PROMETHEUS)
@pytest.mark.usefixtures("migrated")
def test_operators_commands_and_dashboards_on_a_running_demonstration(short_folder: Path, tmp_path: Path) -> None:
    var = short_folder / "var"
    tables_filled_in(State(var))
    with Up(var, free_port()) as up:
        up.wait_for_address()
        until(lambda: {findings(var)[name] for name in WELL} == {"well"}, lambda: str(findings(var)), PATIENCE)
        assert "broken" not in findings(var).values()
        forecast = {one["name"]: one for one in json.loads(commanded(var, "doctor", "--forecast", "--json"))}
        assert forecast["scheduling_interval"]["bytes_in_a_year"] > 0

        dashboards_answer(up.address, token(var), tmp_path)

        assert "RETENTION_DELIVERIES_DAYS: 90 days" in commanded(var, "retention")
        assert "removed" in commanded(var, "retention", "--apply")

        today = datetime.now(tz=UTC).date()
        assert "nothing from before" in commanded(var, "archive", "--before", today.isoformat(), "--apply")
        ((decided,),) = rows_of(var, "SELECT sum(decided_slot) FROM scheduling_laneclock")
        until(
            lambda: rows_of(var, "SELECT sum(decided_slot) FROM scheduling_laneclock") > [(decided,)], patience=PATIENCE
        )

        assert "the book is in order" in commanded(var, "verify_ledger")
        assert "unbroken" in commanded(var, "verify_history")
        assert "the intervals are in order" in commanded(var, "verify_intervals")

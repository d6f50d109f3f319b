"""A running `manage.py up`, the processes that belong to it by kind, and what it printed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[3]
START_SECONDS, STOP_SECONDS = 180.0, 90.0
SUPERVISOR = "scheduling.engines.launcher.watch"
CHILDREN = {  # what stands in the command of each child of `up`
    "PostgreSQL": "postgres -D",
    "Valkey": "valkey-server",
    "engine": "django engine",
    "worker": "marketplace.celery --quiet worker",
    "beat": "marketplace.celery --quiet beat",
    "web": "marketplace.web",
}
BELOW = {"PostgreSQL": "session", "worker": "task"}  # processes that a child has started
SETTINGS = ("DEBUG", "SECRET_KEY", "DATABASE_URL", "REDIS_URL", "BOURSE_VAR", "DJANGO_SETTINGS_MODULE")


@dataclass
class Product:
    var: Path
    port: int
    process: subprocess.Popen[str] | None = None
    lines: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Until it is ready. Everything that it says is kept."""
        environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(self.port)],
            cwd=ROOT,
            env=environment | {"BOURSE_VAR": str(self.var), "WEB_PROCESSES": "2", "DEMO_DAYS": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        ready = threading.Event()
        threading.Thread(target=self._read, args=(self.process, ready), daemon=True).start()
        deadline = time.monotonic() + START_SECONDS
        while not ready.wait(0.5):
            assert self.process.poll() is None, "it ended at its start:\n" + "".join(self.lines[-40:])
            assert time.monotonic() < deadline, "it does not get ready:\n" + "".join(self.lines[-40:])

    def _read(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.lines.append(line)
            if "Bourse is ready" in line:
                ready.set()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def answers(self) -> bool:
        """Database, broker and worker."""
        try:
            with urllib.request.urlopen(f"{self.address}/readyz", timeout=10) as reply:
                return reply.read().decode().count(": ok") == 3
        except OSError:
            return False

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Those that are there at the moment, by kind."""
        assert self.process is not None
        by_kind: dict[str, list[psutil.Process]] = {"up": [psutil.Process(self.process.pid)]}
        for child in by_kind["up"][0].children():
            command = words_of(child)
            for kind, words in CHILDREN.items():
                if words in command:
                    by_kind.setdefault(kind, []).append(child)
                    if kind in BELOW:
                        by_kind.setdefault(BELOW[kind], []).extend(children_of(child))
        for supervisor in self.family(SUPERVISOR):
            by_kind.setdefault("supervisor", []).append(supervisor)
            by_kind.setdefault("member", []).extend(children_of(supervisor))
        return {kind: processes for kind, processes in by_kind.items() if processes}

    def family(self, words: str = "") -> list[psutil.Process]:
        """Everybody who lives for this folder, as its command or its environment says, whoever started it; by the words
        of the command."""
        return [
            process
            for process in psutil.process_iter()
            if process.pid != os.getpid()
            and words in (command := words_of(process))
            and (str(self.var) in command or str(self.var) in environment_of(process))
        ]


def environment_of(process: psutil.Process) -> str:
    try:
        return str(process.environ().get("BOURSE_VAR", ""))
    except psutil.Error:
        return ""


def words_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def children_of(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children()
    except psutil.Error:
        return []

"""A training job of real processes on loopback; whatever it starts, it stops by its own id."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scheduling.engines.trainer.control import Control

PATIENCE = 60.0  # seconds of a busy machine; a test that waits longer has failed
QUICK = {
    "model": "logistic",
    "features": 6,
    "chunks": 4,
    "minibatches": 4,
    "batch_size": 8,
    "epochs": 3,
    "stragglers": "ignore",
}


class Gang:
    """One job. `PEERS` of every process names the coordinator and how many there are to be."""

    def __init__(
        self,
        folder: Path,
        workers: int = 1,
        servers: int = 1,
        arguments: tuple[str, ...] = (),
        slow: Mapping[int, float] = MappingProxyType({}),
        **parameters: Any,
    ):
        self.folder, self.arguments = folder, arguments
        self.parameters = {**QUICK, **parameters}
        self.slow = slow  # extra milliseconds of workers
        self.secret = secrets.token_hex(16)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}  # by role and rank, the last one of each
        self.changes_read = 0
        self.all: list[subprocess.Popen[bytes]] = []
        self.progress = folder / f"progress-{len(list(folder.glob('progress-*')))}.jsonl"
        self.coordinator = "127.0.0.1:0"
        self.counts = {"ps": servers, "worker": workers}

    def __enter__(self) -> Gang:
        lists = " ".join(f"{role}={','.join(['127.0.0.1:0'] * count)}" for role, count in self.counts.items())
        self.peers = f"coordinator=127.0.0.1:0 {lists}"
        self.start("coordinator", 0, *self.arguments)
        listening = self.wait("listening")
        self.coordinator = f"127.0.0.1:{listening['port']}"
        self.peers = self.peers.replace("coordinator=127.0.0.1:0", f"coordinator={self.coordinator}")
        for role, count in self.counts.items():
            for rank in range(count):
                slow = self.slow.get(rank) if role == "worker" else None
                self.start(role, rank, *(["--extra-ms", str(slow)] if slow else []))
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.all:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(PATIENCE)

    def start(self, role: str, rank: int, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start one of its processes."""
        command = [sys.executable, "-m", "scheduling.engines.trainer", "--parameters", json.dumps(self.parameters)]
        command += ["--folder", str(self.folder), "--progress", str(self.progress), *arguments]
        place = {"ROLE": role, "RANK": str(rank), "PEERS": self.peers, "JOB_SECRET": self.secret}
        with (self.folder / f"{role}-{rank}.log").open("ab") as log:
            process = subprocess.Popen(
                command, env={**os.environ, **place, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.processes[f"{role} {rank}"] = process
        self.all.append(process)
        return process

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """What the coordinator told so far; of one kind only, where it is named."""
        if not self.progress.exists():
            return []
        whole = self.progress.read_text().rpartition("\n")[0]  # the last line may still be on its way
        lines = [json.loads(line) for line in whole.splitlines()]
        return [line for line in lines if not kind or line["event"] == kind]

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for something; the story is told where it never comes true."""
        until(condition, self.story)

    def wait(self, kind: str, count: int = 1, patience: float = PATIENCE) -> dict[str, Any]:
        """The so-manieth event of a kind, when it has come."""
        until(lambda: len(self.events(kind)) >= count, self.story, patience)
        return self.events(kind)[count - 1]

    def end(self, name: str = "coordinator 0", patience: float = PATIENCE) -> int:
        """A process's exit code, when it has ended."""
        process = self.processes[name]
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} does not end.\n{self.story()}") from None

    def end_all(self) -> dict[str, int]:
        """Everybody's exit code, when all have ended."""
        return {name: self.end(name) for name in self.processes}

    def signal(self, name: str, number: int = signal.SIGTERM) -> None:
        """Send a signal to one of its processes."""
        self.processes[name].send_signal(number)

    @property
    def control(self) -> Control:
        """What an engine would use."""
        host, port = self.coordinator.split(":")
        return Control((host, int(port)), self.secret)

    def losses(self) -> list[float]:
        """By epoch."""
        return [event["loss"] for event in self.events("epoch")]

    def story(self) -> str:
        """Everything that is known, for a failed test."""
        logs = {path.name: path.read_text()[-1500:] for path in self.folder.glob("*.log")}
        codes = {name: process.poll() for name, process in self.processes.items()}
        return "\n".join(
            [*map(str, self.events()), str(codes), *(f"{name}: {text}" for name, text in logs.items() if text)]
        )


def until(condition: Callable[[], object], story: Callable[[], str] = lambda: "", patience: float = PATIENCE) -> None:
    """Ask again and again until it is true; the story is told where it never is."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"it did not come true in {patience:g} s\n{story()}"
        time.sleep(0.01)

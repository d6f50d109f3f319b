"""Celery's beat as `manage.py up` starts it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from marketplace.embedded import Servers
from marketplace.processes.product import _commands
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


class Broker(threading.Thread):
    """The real one, until a message is sent to its queue: from then on it says nothing, as one that was stopped."""

    def __init__(self, address: Path, real: Path) -> None:
        super().__init__(daemon=True)
        self.real, self.silent = real, threading.Event()
        self.open = ExitStack()
        self.listening = self.open.enter_context(socket.socket(socket.AF_UNIX))
        self.listening.bind(str(address))
        self.listening.listen()

    def run(self) -> None:
        with suppress(OSError):  # the test is over
            while True:
                caller, _ = self.listening.accept()
                real = socket.socket(socket.AF_UNIX)
                real.connect(str(self.real))
                for one, other in ((caller, real), (real, caller)):
                    self.open.enter_context(one)
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(100_000):
                if b"LPUSH" in data:
                    self.silent.set()
                if self.silent.is_set():
                    return
                other.sendall(data)


@pytest.fixture
def broker(servers: Servers, short_folder: Path) -> Iterator[Broker]:
    own_broker = Broker(short_folder / "broker", servers.state.sockets / "valkey")
    own_broker.start()
    yield own_broker
    own_broker.open.close()


@pytest.mark.wide
def test_beat_ends_when_it_is_asked_to_while_it_waits_for_the_broker(broker: Broker, short_folder: Path) -> None:
    """Celery's own handler would not do: beat would go on for ever, and nobody would be there to stop it."""
    [command] = [words for name, words in _commands(0) if name == "beat"]
    environment = os.environ | {"REDIS_URL": f"unix://{short_folder}/broker?db=0"}
    beat = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, env=environment)
    try:
        assert broker.silent.wait(PATIENCE)
        beat.send_signal(signal.SIGTERM)
        assert beat.wait(PATIENCE) == 0
    finally:
        beat.kill()
        beat.wait()

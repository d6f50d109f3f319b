"""Processes that we start: each in a session of its own, with a log file, stopped by its own id."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marketplace import launch

if TYPE_CHECKING:
    from marketplace.embedded.programs import Account

LONGEST_LOG = 5_000_000  # bytes; looked at when a child starts


class ChildFailed(Exception):
    """A process ended, or did not get ready in time. The message holds its last lines."""


@dataclass(frozen=True)
class Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path
    log_start: int  # where this child's lines begin; the file also holds those of earlier runs
    stop_signal: signal.Signals

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None


def start(
    name: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str],
    account: Account | None = None,
    stop_signal: signal.Signals = signal.SIGTERM,
) -> Child:
    """Call it from the main thread only: the kernel takes the end of the calling thread for the parent's end.

    A session of its own keeps Ctrl-C from reaching the child, so that we choose the order in which children stop.
    """
    owner = f"{account.uid}:{account.gid}" if account else "-"
    launcher = [sys.executable, "-I", "-S", launch.__file__, str(int(stop_signal)), owner]
    _keep_short(log)
    with log.open("ab") as output:
        log_start = output.tell()
        process = subprocess.Popen(
            [*launcher, *map(str, command)],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Child(name, process, log, log_start, stop_signal)


def stop(child: Child, *, patience: float = 10.0) -> None:
    """Ask, wait, insist. Whatever the child itself left behind in its process group goes with it."""
    if not child.ended:
        child.process.send_signal(child.stop_signal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(patience)
    _kill_group(child.pid)
    child.process.wait()


def wait_until(ready: Callable[[], Any], child: Child, *, patience: float = 30.0) -> None:
    """`ready` is asked until it returns something true; it raises nothing for `not yet`."""
    deadline = time.monotonic() + patience
    while not ready():
        if child.ended:
            raise ChildFailed(describe_end(child))
        if time.monotonic() > deadline:
            raise ChildFailed(f"{child.name} was not ready after {patience:.0f} seconds.\n{last_lines(child)}")
        time.sleep(0.02)


def describe_end(child: Child) -> str:
    code = child.process.returncode
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return f"{child.name} {how}. Its last lines, from {child.log}:\n{last_lines(child)}"


def last_lines(child: Child, count: int = 15) -> str:
    with child.log.open("rb") as file:
        file.seek(max(child.log_start, child.log.stat().st_size - 20_000))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-count:])


def _keep_short(log: Path) -> None:
    if log.exists() and log.stat().st_size > LONGEST_LOG:
        log.replace(log.with_suffix(".log.1"))


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)

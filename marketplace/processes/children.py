"""Start and stop processes: each in a session of its own, with a log file, stopped by its own id."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marketplace.processes import launch

if TYPE_CHECKING:
    from marketplace.embedded.programs import SystemAccount

LONGEST_LOG = 5_000_000  # bytes; checked when a child starts, and while it runs


class ChildFailed(Exception):
    """A process ended, or was not ready in time. The message contains its last lines."""


@dataclass(frozen=True)
class Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path
    log_start: int  # where this child's lines begin; the file also has those of earlier runs
    stop_signal: signal.Signals

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def ended(self) -> bool:
        """Return whether the process has ended, without reaping it: until `stop` its number, which is also that of its
        group, cannot be given to another process."""
        if self.process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def start(
    name: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str],
    account: SystemAccount | None = None,
    stop_signal: signal.Signals = signal.SIGTERM,
) -> Child:
    """Start a child. Call it from the main thread only: the kernel takes the end of the calling thread for the parent's
    end.

    A session of its own keeps Ctrl-C from reaching the child, so that we choose the order in which children stop.
    """
    owner = f"{account.uid}:{account.gid}" if account else "-"
    launcher = [sys.executable, "-I", "-S", launch.__file__, str(int(stop_signal)), owner]
    _cut(log)
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
    """Send the stop signal, wait, then kill. Everything that the child left in its process group is killed too."""
    if child.process.returncode is not None:
        return
    deadline = time.monotonic() + patience
    if not child.ended:
        os.kill(child.pid, child.stop_signal)
    while not child.ended and time.monotonic() < deadline:
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.process.wait()


def wait_until(ready: Callable[[], Any], child: Child, *, patience: float = 30.0) -> None:
    """Wait until `ready` returns something true. It must not raise for "not yet"."""
    deadline = time.monotonic() + patience
    while not ready():
        if child.ended:
            raise ChildFailed(describe_end(child))
        if time.monotonic() > deadline:
            raise ChildFailed(f"{child.name} was not ready after {patience:.0f} seconds.\n{last_lines(child)}")
        time.sleep(0.02)


def how_it_ended(child: Child) -> str:
    """Return how the child ended, once it has; it is not reaped by that, see `Child.ended`."""
    code = child.process.returncode
    if code is None:
        end = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert end is not None  # noqa: S101  without WNOHANG it waits
        code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def describe_end(child: Child) -> str:
    return f"{child.name} {how_it_ended(child)}. Its last lines, from {child.log}:\n{last_lines(child)}"


def last_lines(child: Child, count: int = 15) -> str:
    with child.log.open("rb") as file:
        file.seek(max(child.log_start, child.log.stat().st_size - 20_000))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-count:])


def keep_log_short(child: Child) -> Child:
    """Return the same child; if its log was too long, the log now begins anew. The earlier lines are in `.log.1`."""
    return replace(child, log_start=0) if _cut(child.log) else child


def _cut(log: Path) -> bool:
    """Copy and empty a log that is too long, because a running child keeps the file open. The child appends each line
    at the current end; a line that it writes between the copy and the cut is lost."""
    if not log.exists() or log.stat().st_size <= LONGEST_LOG:
        return False
    before = log.with_suffix(".log.1")
    try:
        shutil.copyfile(log, before)
    except OSError:
        before.unlink(missing_ok=True)  # a full disk is no reason to keep filling it
    os.truncate(log, 0)
    return True

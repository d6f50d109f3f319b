"""Run one part of a gang: a generation's members on one server of a cluster. A lock makes sure that it runs once, and a
second process guards its supervisor.

A job of the cluster runs `python3 launcher.pyz part ROOT HOME KEY GENERATION SERVER`; other commands of the same file
are `launch` and `probe` (`one_file`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import sys
import time
import traceback
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduling.engines.base import ENDED, GUARD_KILLED, LOST
from scheduling.engines.launcher import files, processes
from scheduling.engines.launcher.confine import PR_SET_CHILD_SUBREAPER, has_own_names, landlock_version, prctl
from scheduling.engines.launcher.files import Folder

LOOPBACK = "127.0.0.1"
FIRST_PORT, PORTS = 20_000, 12_000  # below those that the kernel gives to callers
RUNS_ALREADY, HAS_ENDED, NO_PLAN = 3, 4, 5  # exit codes
# The record of a part whose supervisor ended before it wrote one, with the fields that other parts read.
NOTHING_SAID: dict[str, Any] = {
    "started_at": None,
    "exit_code": None,
    "restarts": 0,
    "progress": {},
    "members": [],
    "begun": False,
    "delivered": [],
    "host": LOOPBACK,
    "ports": {},
}
DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


@dataclass(frozen=True)
class GangPart:
    """Identifies a part of a gang. It begins and ends with its generation."""

    generation: int
    server: str


def part_name(generation: int, server: str) -> str:
    """Return the name of a part's folder."""
    return f"part-{generation}-{server}"


def free_ports(about: str, count: int) -> list[int]:
    """Return free ports of this machine. The search begins at a hash of `about`, so that parts seldom collide."""
    first = zlib.crc32(about.encode())
    ports: list[int] = []
    for number in range(PORTS):
        if len(ports) == count:
            return ports
        port = FIRST_PORT + (first + number) % PORTS
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            ports.append(port)
    raise OSError("no port is free")


def dealt(
    members: Sequence[tuple[str, int]], each: Mapping[str, int], environment: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return by member ("worker 1") the variables that name its own GPUs, out of those that the cluster gave the
    part. `each` has the number of GPUs of one member, by role."""
    parts: dict[str, dict[str, str]] = {}
    for variable in DEVICES:
        there, at = [name for name in environment.get(variable, "").split(",") if name], 0
        for role, rank in members if there else ():
            count = each.get(role, 0)
            parts.setdefault(f"{role} {rank}", {})[variable] = ",".join(there[at : at + count])
            at += count
    return parts


def run(root: str, home: str, key: str, generation: str, server: str) -> int:
    """Run a part from its claim to its end, and return the exit code.

    Two processes watch over it. This one only waits, so that killing the other one does not kill both; each ends all
    its descendants when the other one is gone.
    """
    part = GangPart(int(generation), server)
    folder = Folder(Path(root), home, key, part_name(part.generation, server))
    if not folder.plan.exists():
        return _complain(f"There is no plan {folder.plan}.", NO_PLAN)
    folder.make()
    claim = os.open(folder.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return _complain("This part runs already.", RUNS_ALREADY)
    if (record := files.read(folder.state)) and record["state"] == ENDED:
        return _complain("This part has ended.", HAS_ENDED)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        _supervise(folder, part)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: processes.kill(child, signal.SIGTERM))
    while True:
        pid, status = os.wait()
        if pid == child:
            break
    processes.kill_family(None)
    record = files.read(folder.state) or {}
    if record.get("state") != ENDED:
        now = time.time()
        last = {"state": ENDED, "end": LOST, "detail": GUARD_KILLED, "ended_at": now, "beat": now}
        files.write(folder.state, {**NOTHING_SAID, **record, **last}, durable=True)
    return os.waitstatus_to_exitcode(status) and 1


def _supervise(folder: Folder, part: GangPart) -> None:
    """Supervise the part, in a process of its own. The process that waits for it keeps the claim's lock."""
    from scheduling.engines.launcher.watch import supervisor_of

    code = 1
    try:
        supervisor_of(folder, part).run()
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def probe(path: str) -> int:
    """Write this machine's time, Python's version, name, version of Landlock, and whether it gives programs names of
    their own, into a file, under a lock: what a check needs to know."""
    target = Path(path)
    about: dict[str, Any] = {"python": list(sys.version_info[:2]), "host": socket.gethostname()}
    about |= {"landlock": landlock_version(), "names": has_own_names()}
    with (target.with_suffix(".lock")).open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        files.write(target, about | {"at": time.time()})
    return 0


def main(words: Sequence[str]) -> int:
    what, *rest = words
    if what == "part":
        return run(*rest)
    if what == "probe":
        return probe(*rest)
    return _complain(f"There is no word {what!r}.", 2)


def _complain(sentence: str, code: int) -> int:
    print(sentence, file=sys.stderr)
    return code

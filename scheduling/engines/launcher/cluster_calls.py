"""Find the sockets by which a process of this server asks the cluster for something.

All jobs may run under one account, and Slurm takes orders of any process of it: to submit a job, which would run beside
what was sold and behind no walls of ours, or to cancel that of another tenant. It knows the account by a socket of
this machine, so a program that has no name for that socket can order nothing (`confine`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

LISTENERS = Path("/proc/net/unix")
MUNGE = "munge"  # in the name of the socket, or of its folder: it says who somebody is, on one machine
SACK = "sack.socket"  # Slurm's own service for the same
_FIELDS = 7  # of a line before the socket's path


def hidden_places(needs: Sequence[str], listeners: Path = LISTENERS) -> list[str]:
    """Return what a program may have no name for: sockets, and folders with nothing else that it needs. `needs` are its
    own folders, which stay."""
    return sorted({place for path in _sockets(listeners) if (place := _place(path, needs))})


def _sockets(listeners: Path) -> Iterable[str]:
    try:
        lines = listeners.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        parts = line.split(None, _FIELDS)
        if len(parts) > _FIELDS and parts[_FIELDS].startswith("/"):
            yield parts[_FIELDS]


def _place(path: str, needs: Sequence[str]) -> str | None:
    folder, name = os.path.split(path)
    is_step = _is_of_step(name)
    if not (is_step or MUNGE in name or MUNGE in os.path.basename(folder) or name.startswith(SACK)):
        return None
    if any(path.startswith(f"{own}/") for own in needs):
        return None  # a program that calls its socket so
    # Sockets of steps come and go: what hides one of a step that begins later is their folder. Others are in folders of
    # all kinds.
    is_needed = any(f"{own}/".startswith(f"{folder}/") for own in needs)
    return folder if (is_step or MUNGE in os.path.basename(folder)) and not is_needed else path


def _is_of_step(name: str) -> bool:
    """Return whether the daemon of a step of Slurm's listens there: `SERVER_JOB.STEP`."""
    server, _, numbers = name.rpartition("_")
    parts = numbers.split(".")
    return bool(server) and len(parts) > 1 and all(part.isdecimal() for part in parts)

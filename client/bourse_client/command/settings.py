"""Where the server is, and the token: from the command line, the environment, or the file that `bourse login`
writes."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bourse_client.command.exits import UsageError

NOTHING = "Run `bourse login` first, or set BOURSE_URL and BOURSE_TOKEN."

NOWHERE = Path(os.devnull) / "bourse" / "config.json"  # where nothing is, and nothing can be written
NAMES = ("url", "token", "tenant", "pool")  # the names in the file


@dataclass(frozen=True)
class Settings:
    url: str = ""
    token: str = ""
    tenant: str = ""
    pool: str = ""  # the pool that is meant where a command names none


class BrokenSettings(UsageError):
    """The file is there, and has no settings in it."""

    def __init__(self, file: Path) -> None:
        super().__init__(f"{file} cannot be read; `bourse login` writes it anew.")


def settings_file(environment: Mapping[str, str]) -> Path:
    if named := environment.get("BOURSE_CONFIG"):
        return Path(named)
    try:
        home = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME") or Path.home()) / ".config"
    except RuntimeError:  # a user without a home, as in a container; what is in the environment is enough
        return NOWHERE
    return Path(home) / "bourse" / "config.json"


def settings_found(environment: Mapping[str, str], *, url: str, tenant: str, warn: Callable[[str], None]) -> Settings:
    """Return the settings. The command line goes before the environment, and that before the file. Token, tenant and
    pool of the file are for the server of the file: they never go to another one."""
    address = url or environment.get("BOURSE_URL", "")
    token = environment.get("BOURSE_TOKEN", "").strip()
    try:
        settings = settings_read(settings_file(environment), warn=warn)
    except UsageError as error:
        if not (address and token):
            raise
        warn(f"{error} It is not needed: address and token are given.")
        settings = Settings()
    address = (address or settings.url).rstrip("/")
    same = address == settings.url
    if not address:
        raise UsageError(NOTHING)
    if not token and not same and settings.token:
        raise UsageError(
            f"The token that is kept is for {settings.url}. For {address} log in again, or set BOURSE_TOKEN."
        )
    token = token or (settings.token if same else "")
    if not token:
        raise UsageError(NOTHING)
    return Settings(
        address,
        token,
        tenant or environment.get("BOURSE_TENANT", "") or (settings.tenant if same else ""),
        environment.get("BOURSE_POOL", "") or (settings.pool if same else ""),
    )


def settings_read(file: Path, *, warn: Callable[[str], None]) -> Settings:
    try:
        text = file.read_text(encoding="utf-8")
        mode = stat.S_IMODE(file.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return Settings()
    except UnicodeDecodeError as error:
        raise BrokenSettings(file) from error
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}.") from error
    if os.name == "posix" and mode & 0o077:
        warn(f"{file} holds a token, and others can read it: chmod 600 {file}")
    try:
        document = json.loads(text)
        words = {name: document.get(name, "") for name in NAMES}
    except (ValueError, RecursionError, AttributeError) as error:
        raise BrokenSettings(file) from error
    if not all(isinstance(word, str) for word in words.values()):
        raise BrokenSettings(file)
    return Settings(**words)


def settings_write(file: Path, settings: Settings) -> None:
    """Write the file whole or not at all, and at no moment readable by anybody else."""
    text = json.dumps({name: getattr(settings, name) for name in NAMES}, indent=2) + "\n"
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as output:
            output.write(text)
        fresh.replace(file)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise UsageError(f"{file}: {error.strerror}.") from error

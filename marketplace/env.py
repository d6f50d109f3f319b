"""Typed reads of the environment. A bad value stops the start with a line that names the variable.

Every function reads one variable once. An unset or empty variable gives the default; without a default it is an error.
"""

import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NoReturn, TypeVar
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

REQUIRED: Final = object()

BYTE_ORDER_MARK = "\ufeff"  # some editors begin a file with it

YES = frozenset({"1", "true", "yes", "on"})
NO = frozenset({"0", "false", "no", "off"})

WHERE = "docs/operations.md lists the variables. Without any, `make run` runs everything, and commands join it."

T = TypeVar("T")


class BadEnvironment(ImproperlyConfigured):
    """A variable is missing or unreadable. The message names it and says what was expected."""


def settings_load() -> None:
    """Load the settings, as every process does first. A bad variable ends it with its line."""
    from django.conf import settings

    try:
        _ = settings.INSTALLED_APPS
    except BadEnvironment as problem:
        sys.exit(f"{problem}\n{WHERE}")


def text(name: str, default: str | object = REQUIRED) -> str:
    return _read(name, default, lambda raw: raw, "some text")


def integer(name: str, default: int | object = REQUIRED, *, least: int, most: int) -> int:
    def parse(raw: str) -> int:
        number = int(raw)
        if not least <= number <= most:
            raise ValueError
        return number

    return _read(name, default, parse, f"a whole number from {least} to {most}")


def integers(name: str, default: list[int] | object = REQUIRED, *, least: int, most: int) -> list[int]:
    """Read whole numbers separated by commas."""

    def parse(raw: str) -> list[int]:
        numbers = [int(word) for word in raw.split(",")]
        if not all(least <= number <= most for number in numbers):
            raise ValueError
        return numbers

    return _read(name, default, parse, f"whole numbers from {least} to {most} with commas")


def flag(name: str, default: bool | object = REQUIRED) -> bool:
    def parse(raw: str) -> bool:
        if raw.lower() not in YES | NO:
            raise ValueError
        return raw.lower() in YES

    return _read(name, default, parse, "true or false")


def words(name: str, default: list[str] | object = REQUIRED) -> list[str]:
    """Read a list separated by commas; blanks around the words are dropped."""
    return _read(
        name, default, lambda raw: [word.strip() for word in raw.split(",") if word.strip()], "a list with commas"
    )


def choice(name: str, default: str | object = REQUIRED, *, among: Collection[str]) -> str:
    def parse(raw: str) -> str:
        if raw not in among:
            raise ValueError
        return raw

    return _read(name, default, parse, "one of " + ", ".join(sorted(among)))


def hosts(name: str, default: list[str] | object = REQUIRED) -> list[str]:
    """Read names of hosts separated by commas, as a browser sends them: without scheme, port and path."""
    names = words(name, default)
    if wrong := [host for host in names if "/" in host or (":" in host and not host.startswith("["))]:
        raise BadEnvironment(f"{name}: expected names without https:// and without a port, found {wrong[0]!r}.")
    return names


def url(
    name: str,
    default: str | object = REQUIRED,
    *,
    schemes: Collection[str],
    flaw: Callable[[str], str] = lambda _: "",
) -> str:
    """Read an address. `flaw` returns what else is wrong with it, empty for nothing, and must not repeat what may be a
    password."""

    def parse(raw: str) -> str:
        parts = urlsplit(raw)
        if parts.scheme not in schemes or parts.port == 0:  # reading the port raises if it is no number
            raise ValueError
        return raw

    # An address may hold a password, so the error names what was expected and never the value.
    address = _read(
        name, default, parse, "an address that begins with " + " or ".join(f"{s}://" for s in schemes), quote=False
    )
    if what := flaw(address):
        raise BadEnvironment(f"{name}: {what}")
    return address


def secrets(name: str, default: list[str], *, least: int) -> list[str]:
    """Read several secrets separated by commas; in the file at NAME_FILE there is one per line, which may
    have commas. A file may be empty."""
    text = _in_file(name)
    words = _read(name, "", str, "secrets").split(",") if text is None else text.splitlines()
    words = [word.strip() for word in words if word.strip()]
    if short := [word for word in words if len(word) < least]:
        _short(name, f"{least} characters each", len(short[0]), in_file=text is not None)
    return words or default


def secret(name: str, default: str | object = REQUIRED, *, least: int = 1) -> str:
    """Read a secret from NAME, or from the file at NAME_FILE (as container platforms provide secrets)."""
    text = _in_file(name)
    if text == "":
        raise BadEnvironment(f"{name}_FILE: the file {os.environ[f'{name}_FILE']!r} is empty.")
    value = _read(name, default, str, f"a secret of at least {least} characters") if text is None else text
    if len(value) < least:
        _short(name, f"{least} characters", len(value), in_file=text is not None)
    return value


def _in_file(name: str) -> str | None:
    """Return what the file at NAME_FILE has, or None where no file is named, or NAME itself is set. An editor may have
    put a mark of the encoding before it, and ended its line."""
    path = os.environ.get(f"{name}_FILE", "")
    if not path or os.environ.get(name):
        return None
    try:
        return Path(path).read_text(encoding="utf-8").removeprefix(BYTE_ORDER_MARK).strip()
    except UnicodeDecodeError:
        raise BadEnvironment(f"{name}_FILE: the file {path!r} is not text in UTF-8.") from None
    except OSError as error:
        raise BadEnvironment(f"{name}_FILE: cannot read {path!r} ({error.strerror}).") from None


def _short(name: str, expected: str, length: int, *, in_file: bool) -> NoReturn:
    where, there = (f"{name}_FILE", f" in the file {os.environ[f'{name}_FILE']!r}") if in_file else (name, "")
    raise BadEnvironment(f"{where}: expected at least {expected}{there}, found {length}.")


def _read(name: str, default: T | object, parse: Callable[[str], T], expected: str, *, quote: bool = True) -> T:
    raw = os.environ.get(name, "").strip()
    if not raw:
        if default is REQUIRED:
            raise BadEnvironment(f"{name} is not set: expected {expected}.")
        return default  # type: ignore[return-value]
    try:
        return parse(raw)
    except ValueError:
        quotation = f", found {raw!r}" if quote else ""
        raise BadEnvironment(f"{name}: expected {expected}{quotation}.") from None

"""Reading and writing files, whole or not at all. Every failure is one line that names the file."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import tempfile
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path

from scheduling.core.scenario import BadScenario, Scenario, read

LARGEST = 2**29  # bytes of a scenario file: twenty times the busy part of Philly
PACKED = b"\x1f\x8b"  # how a file of gzip begins, whatever its name
WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # how UTF-16 begins, as some shells of Windows write it


def scenario_load(path: Path) -> Scenario:
    """Read the scenario in a file; the place of a flaw begins with the file's name."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = b"" if size > LARGEST else file.read(LARGEST + 1)  # a pipe or a terminal has no size
    except OSError as error:
        raise BadScenario(str(path), f"cannot be read ({reason(error)})") from None
    if max(size, len(content)) > LARGEST:
        raise BadScenario(str(path), f"is larger than {LARGEST:,} bytes")
    with flaws_of(path):
        return read(content)


@contextlib.contextmanager
def flaws_of(path: Path) -> Iterator[None]:
    """Add the file's name to the place of every flaw that is raised inside."""
    try:
        yield
    except BadScenario as error:
        raise BadScenario(f"{path}: {error.place}", error.message) from None


def table_lines(path: Path, errors: str = "strict") -> Generator[str, None, None]:
    """Return the lines of a table of a trace, packed with gzip or not; the file is closed with the iterator. With
    `errors` "replace", bytes that are not UTF-8 become U+FFFD, and the reader judges the line."""
    with _text_of(path, errors) as text:
        yield from text


def text_load(path: Path, longest: int) -> str:
    """Return a file's text, packed with gzip or not, of at most `longest` characters."""
    with _text_of(path, "strict") as text:
        content = text.read(longest + 1)
    if len(content) > longest:
        raise BadScenario(str(path), f"is larger than {longest:,} characters")
    return content


@contextlib.contextmanager
def _text_of(path: Path, errors: str) -> Iterator[io.TextIOWrapper]:
    """Open the file as text. Its first bytes say whether it is packed; the mark that Windows writes before UTF-8 is
    left out."""
    try:
        with path.open("rb") as file:
            is_packed = file.peek(len(PACKED)).startswith(PACKED)
            stream = io.BufferedReader(gzip.GzipFile(fileobj=file)) if is_packed else file
            if stream.peek(2)[:2] in WIDE:
                raise BadScenario(str(path), "is UTF-16; write it as UTF-8")
            with io.TextIOWrapper(stream, encoding="utf-8-sig", errors=errors, newline="") as text:
                yield text
    except UnicodeDecodeError:
        raise BadScenario(str(path), "is not UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        raise BadScenario(str(path), f"cannot be read ({reason(error)})") from None


def save(path: Path, content: str | bytes) -> None:
    """Put the content in place in one step: a reader sees the old file or the new one, never a part."""
    data = content.encode() if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file():  # a pipe or a terminal cannot be replaced
            path.write_bytes(data)
            return
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            mask = os.umask(0o077)
            os.umask(mask)
            Path(temporary).chmod(0o666 & ~mask)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BadScenario(str(path), f"cannot be written ({reason(error)})") from None


def place_check(path: Path) -> None:
    """Refuse, before a long run, a file that could not be put in place after it."""
    try:
        if path.exists() and not path.is_file():
            with path.open("ab"):
                return
        _writable(path.parent)
    except OSError as error:
        raise BadScenario(str(path), f"cannot be written ({reason(error)})") from None


def folder_make(path: Path) -> None:
    """Make the folder for results where it is missing. A folder that takes no files is refused here, before work that
    may be long."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        _writable(path)
    except OSError as error:
        raise BadScenario(str(path), f"is no folder to write to ({reason(error)})") from None


def _writable(folder: Path) -> None:
    """Raise the error with which a new file in the folder would fail."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def reason(error: BaseException) -> str:
    """Return what the system said, in a few words."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()

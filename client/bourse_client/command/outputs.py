"""The file that a command writes what it downloads to. One that is there already is overwritten only by force."""

from __future__ import annotations

from pathlib import Path

from bourse_client.command.exits import UsageError
from bourse_client.command.screen import plain
from bourse_client.command.session import Session


def require_free(session: Session) -> None:
    """Refuse a file that is there, before anything is downloaded. /dev/stdout or a pipe loses nothing."""
    words = session.words
    if not words.force and Path(words.output).is_file():
        raise UsageError(f"{plain(words.output)} is there already; --force overwrites it.")


def output_write(session: Session, content: bytes) -> None:
    output = session.words.output
    try:
        Path(output).write_bytes(content)
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror}.") from error
    session.screen.note(f"{len(content):,} bytes in {output}")

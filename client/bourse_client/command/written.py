"""The job that is asked for: the file's words, and those of the command line before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from bourse_client.command.exits import UsageError
from bourse_client.command.parser import LANES
from bourse_client.command.session import Session
from bourse_client.job_file import BadFile, JobFile, read_job
from bourse_client.shapes import Lane

INPUT = "-"


@dataclass(frozen=True)
class Asked:
    spec: Mapping[str, Any]
    pool: str
    name: str
    lane: Lane


def asked_of(session: Session) -> Asked:
    words = session.words
    written = _written(session)
    lane = words.lane or written.lane or "batch"
    if lane not in LANES:
        raise UsageError(f"{words.file}: lane: must be batch or instant, not {lane}.")
    price = {} if words.max_price is None else {"max_price": words.max_price}
    name = words.name or written.name or ("job" if words.file == INPUT else Path(words.file).stem)
    pool = words.pool or written.pool or session.client.only_pool()
    return Asked({**written.spec, **price}, pool, name, cast(Lane, lane))


def _written(session: Session) -> JobFile:
    name = session.words.file
    try:
        text = session.stdin.read() if name == INPUT else Path(name).read_text(encoding="utf-8")
        return read_job(text)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: it is no text in UTF-8.") from error
    except BadFile as error:
        raise UsageError(f"{name}: {error}") from error

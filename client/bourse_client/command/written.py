"""Read the job that a command is about: the file's words, and those of the command line, which go before them."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from bourse_client.command.exits import UsageError
from bourse_client.command.parser import LANES
from bourse_client.command.session import Session
from bourse_client.job_file import BadFile, read_job
from bourse_client.shapes import Lane

INPUT = "-"
BYTE_ORDER_MARK = "\ufeff"  # some editors begin a file with it
Document = TypeVar("Document")


@dataclass(frozen=True)
class JobRequest:
    spec: Mapping[str, Any]
    pool: str
    name: str
    lane: Lane
    otherwise: Literal["batch"] | None  # as the file says, where the command line names no lane


def asked_of(session: Session) -> JobRequest:
    name = session.words.file
    text = text_in(session, name)
    if is_script(text):
        raise UsageError(
            f"{name}: a batch script is quoted on the page Submit a job; what it would ask for is said by "
            f"`bourse jobs submit {name} --dry-run`, with --worth and --by."
        )
    if is_of_many(name, text):
        raise UsageError(
            f"{name}: a quote is for one job, and this file has one on each line: `bourse jobs submit {name} --bulk` "
            "submits them."
        )
    return asked_in(session, text)


def is_script(text: str) -> bool:
    """Return whether it is a script for a shell, and no job in YAML or JSON."""
    return text.startswith("#!") or any(line.startswith("#SBATCH") for line in text.splitlines())


def is_of_many(name: str, text: str) -> bool:
    """Return whether it is a file for `--bulk`: by its name, or as each of its first two lines is an object of JSON,
    with which no single job in YAML or JSON begins."""
    first = [line for line in text.split("\n") if line.strip()][:2]
    return name.lower().endswith(".jsonl") or (len(first) == 2 and all(map(_is_object, first)))


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def text_in(session: Session, name: str) -> str:
    """Return the text of a file, or of standard input."""
    try:
        text = session.stdin.read() if name == INPUT else Path(name).read_text(encoding="utf-8")
        text.encode()  # in the locales C and POSIX standard input lets other bytes pass, as halves of characters
        return text.removeprefix(BYTE_ORDER_MARK)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}.") from error
    except UnicodeError as error:
        raise UsageError(f"{name}: it is no text in UTF-8.") from error


def asked_in(session: Session, text: str) -> JobRequest:
    words = session.words
    job_file = document_in(words.file, text, read_job)
    lane = words.lane or job_file.lane or "batch"
    if lane not in LANES:
        raise UsageError(f"{words.file}: lane: must be batch or instant, not {lane}.")
    price = {} if words.max_price is None else {"max_price": words.max_price}
    until = _until(words, job_file.spec)
    name = words.name or job_file.name or ("job" if words.file == INPUT else Path(words.file).stem)
    pool = words.pool or job_file.pool or session.pool
    otherwise = None if words.lane else job_file.otherwise
    if otherwise not in (None, "batch"):
        raise UsageError(f"{words.file}: otherwise: must be batch, not {otherwise}.")
    return JobRequest({**job_file.spec, **price, **until}, pool, name, cast(Lane, lane), "batch" if otherwise else None)


def _until(words: Namespace, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return until when the job trains. What is typed goes before what the file says."""
    if words.until_converged is None and words.in_a_row is None:
        return {}
    target = spec.get("until_converged")
    threshold = {} if words.until_converged is None else {"threshold": words.until_converged}
    patience = {} if words.in_a_row is None else {"patience": words.in_a_row}
    if not threshold and target is None:
        raise UsageError("--in-a-row is of a job that ends when it has converged: say --until-converged PERCENT too.")
    return {"until_converged": {**(target if isinstance(target, Mapping) else {}), **threshold, **patience}}


def document_in(name: str, text: str, read: Callable[[str], Document]) -> Document:
    """Return what `read` makes of the text of the file `name`."""
    try:
        return read(text)
    except BadFile as error:
        raise UsageError(f"{name}: {error}") from error

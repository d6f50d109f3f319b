"""Read and check what a launcher wrote about its part. Where jobs run as their tenants the file cannot be trusted, and
one that makes no sense must not keep the engine from its other gangs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from scheduling.engines.base import ENDED, FAILED, FINISHED, LOST, PAUSED, RUNNING, STOPPED, STOPPING, WAITING
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import LAST_MOMENT
from scheduling.programs.progress import facts_in

MOST_BYTES = 2**20
STATES, ENDS = (WAITING, RUNNING, STOPPING, ENDED), (FINISHED, STOPPED, FAILED, LOST, PAUSED)
NO_WORD = "its launcher's last word cannot be read"
MOST_RESTARTS = 1_000  # restarts that are counted: of one part, and of all parts of a gang together


def record_read(path: Path) -> dict[str, Any] | None:
    """Read a launcher's record. Return None where there is none yet, or none that makes sense; raises `OSError` where
    the file cannot be read."""
    try:
        with os.fdopen(files.theirs(path), "rb") as file:
            return record_of(file.read(MOST_BYTES))
    except FileNotFoundError:
        return None


def record_of(data: bytes) -> dict[str, Any] | None:
    """Return a record with all fields that the engine reads, whatever `data` has beside them or leaves out; None where
    it makes no sense."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    state, beat, end = document.get("state"), _moment(document.get("beat")), document.get("end")
    if state not in STATES or beat is None:
        return None
    detail, delivered = document.get("detail"), document.get("delivered")
    record = {
        "state": state,
        "beat": beat,
        "started_at": _moment(document.get("started_at")),
        "end": "",
        "detail": _sentence(detail),
        "exit_code": _whole(document.get("exit_code"), 2**31 - 1),
        "restarts": max(0, _whole(document.get("restarts"), MOST_RESTARTS) or 0),
        "progress": facts_in(document.get("progress")),
        "delivered": [span for each in (delivered if isinstance(delivered, list) else ()) if (span := _span(each))],
    }
    if state == ENDED:
        ended_at = _moment(document.get("ended_at"))
        record |= {"ended_at": beat if ended_at is None else ended_at, "end": end if end in ENDS else LOST}
        record["detail"] = record["detail"] if end in ENDS else NO_WORD
    return record


def _sentence(value: object) -> str:
    """Return a text with a space in place of each sign that cannot be shown: the database cannot store some of them."""
    return "".join(sign if sign.isprintable() else " " for sign in value) if isinstance(value, str) else ""


def _moment(value: object) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if good and 0.0 <= value < LAST_MOMENT else None  # type: ignore[arg-type,operator]


def _whole(value: object, most: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= most else None


def _span(value: object) -> list[Any] | None:
    """Read `[server, began, ended]`, the time in which all members on the server were running; None if it is no such
    list."""
    if not isinstance(value, list) or len(value) != 3 or not isinstance(value[0], str) or not value[0].isprintable():
        return None
    began, ended = _moment(value[1]), _moment(value[2])
    return None if began is None or ended is None else [value[0], began, max(began, ended)]

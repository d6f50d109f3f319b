"""Write what a job reports to the market: one JSON object a line, into a file or an inherited pipe."""

from __future__ import annotations

import json
import math
import os
import time
from typing import Any


class ProgressFile:
    """Writes lines `{"event": ..., "at": seconds since 1970, ...}`, each at once."""

    def __init__(self, where: str) -> None:
        """`fd:3` is an inherited descriptor; `-` is standard output; anything else is a file's path."""
        if where == "-":
            self.descriptor = 1
        elif where.startswith("fd:"):
            self.descriptor = int(where.removeprefix("fd:"))
        else:
            self.descriptor = os.open(where, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def tell(self, event: str, **facts: Any) -> None:
        """Write a line. We continue if nobody reads it any more: the process that started us decides when we stop."""
        line = json.dumps({"event": event, "at": round(time.time(), 6), **plain(facts)}) + "\n"
        data = line.encode()
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
        except OSError:
            pass


def plain(value: Any) -> Any:
    """Return a value that JSON can have: infinite and undefined floats become null, others keep all their digits."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""What a job tells the market: one JSON object a line, on a file or on a pipe that was handed down."""

from __future__ import annotations

import json
import math
import os
import time
from typing import Any


class ProgressFile:
    """Lines `{"event": ..., "at": seconds since 1970, ...}`, each written at once."""

    def __init__(self, where: str) -> None:
        """`fd:3` is a descriptor that was handed down; `-` is standard output; anything else is a file's path."""
        if where == "-":
            self.descriptor = 1
        elif where.startswith("fd:"):
            self.descriptor = int(where.removeprefix("fd:"))
        else:
            self.descriptor = os.open(where, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def tell(self, event: str, **facts: Any) -> None:
        """Write a line. That nobody reads any more is no reason to stop: who started us decides that."""
        line = json.dumps({"event": event, "at": round(time.time(), 6), **plain(facts)}) + "\n"
        data = line.encode()
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
        except OSError:
            pass


def plain(value: Any) -> Any:
    """Floats that JSON knows: infinite and undefined ones become null, the others keep all their digits."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""Make copies that every account of the machine may read, each whole or not at all, and only once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def made_once(target: Path, fill: Callable[[Path], None]) -> Path:
    """Make `target` and return it. `fill` fills it under another name beside it. Where it exists, it stays as it is."""
    if target.exists():
        return target
    for folder in reversed(target.parents):
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)  # whatever the process's umask leaves out
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        copy = Path(scratch) / "copy"
        copy.mkdir()
        fill(copy)
        for place in (copy, *copy.rglob("*")):
            if not place.is_symlink():
                place.chmod(place.stat().st_mode | (0o055 if place.is_dir() or os.access(place, os.X_OK) else 0o044))
        try:
            copy.rename(target)
        except OSError:
            if not target.exists():  # else another process finished the same copy first
                raise
    return target

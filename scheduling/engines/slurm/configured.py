"""Read the clusters that an installation describes in its file of engines, `ENGINES_FILE`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from scheduling.engines.base import WrongEngine
from scheduling.engines.slurm.settings import SlurmSettings


def settings_in(file: str | None, name: str) -> SlurmSettings:
    """Return the settings of the cluster of this name, as the file has them now; raises `WrongEngine`."""
    path = Path(file) if file else None
    if path is None:
        raise WrongEngine(f"There is no engine {name!r}: ENGINES_FILE names no file in which it could stand.")
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise WrongEngine(f"ENGINES_FILE cannot be read: {error}.") from None
    return _read(path, changed, name)


@cache
def _read(path: Path, changed: int, name: str) -> SlurmSettings:
    try:
        described: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongEngine(f"ENGINES_FILE cannot be read: {error}.") from None
    except ValueError as error:
        raise WrongEngine(f"{path} is not JSON: {error}.") from None
    if not isinstance(described, dict) or name not in described:
        raise WrongEngine(f"There is no engine {name!r} in {path}.")
    return SlurmSettings.read(name, described[name])

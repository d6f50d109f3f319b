"""The engines of this installation."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from scheduling.engines.local.engine import LocalEngine
from scheduling.engines.programs import PROGRAMS


def local_engine() -> LocalEngine:
    """Processes of this machine, below the data folder."""
    return LocalEngine(Path(settings.VAR_DIR) / "runs", Path(settings.BASE_DIR), PROGRAMS)

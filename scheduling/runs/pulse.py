"""Write an engine's sign of life, for pages and monitors in other processes."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from scheduling.engines.base import Engine
from scheduling.models import EnginePulse


def engine_pulse(*, engine: Engine, alerts: tuple[str, ...], figures: str, at: datetime) -> None:
    """Note that an engine runs, with the health of its servers, its alerts, and its figures."""
    servers = {name: asdict(state) for name, state in engine.servers().items()}
    values = {"alive_at": at, "servers": servers, "alerts": list(alerts), "figures": figures}
    EnginePulse.objects.update_or_create(name=engine.name, defaults=values)

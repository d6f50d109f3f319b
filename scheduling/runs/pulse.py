"""An engine's sign of life, for pages and monitors of other processes."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from scheduling.engines.base import Engine
from scheduling.models import EnginePulse


def engine_pulse(*, engine: Engine, alerts: tuple[str, ...], figures: str, at: datetime) -> None:
    """It is at work; how its servers are, what is wrong, and what it has counted."""
    servers = {name: asdict(state) for name, state in engine.servers().items()}
    values = {"alive_at": at, "servers": servers, "alerts": list(alerts), "figures": figures}
    EnginePulse.objects.update_or_create(name=engine.name, defaults=values)

"""Time that passes only by waiting, and dice that always show the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bourse_client.transport import Pace


@dataclass
class Hours:
    now: float = 0.0
    waits: list[float] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def pace(self, **fields: float) -> Pace:
        options: dict[str, Any] = {"timeout": 10.0} | fields
        return Pace(clock=lambda: self.now, sleep=self.sleep, dice=lambda: 1.0, notice=self.notices.append, **options)

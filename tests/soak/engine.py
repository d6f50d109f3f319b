"""An engine without processes: gangs are rows in memory, and whoever drives it says what happens to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from scheduling.engines.base import (
    ENDED,
    FAILED,
    FINISHED,
    LOST,
    PAUSED,
    RUNNING,
    STOPPED,
    WAITING,
    ClusterFinding,
    Counts,
    Fault,
    Gang,
    Generation,
    Handle,
    Report,
    ServerHealth,
    Status,
    Timings,
)
from scheduling.engines.local.engine import TIMINGS

EPOCHS = 8


@dataclass
class _Process:
    """A gang as it lives on its own; what the market knows of it, it asks for."""

    gang: Gang
    began: float
    end_at: float
    epoch: int = 0
    end: str = ""  # how it ended; nothing: it has not, but for the end of its time
    ended_at: float = 0.0


@dataclass
class Double:
    """The engine's contract in simulated time. `clock` says what time it is.

    `refuses`: the next gang cannot be started. Gangs outlive the engine's process: `reconcile` is a new one.
    """

    clock: Callable[[], datetime]
    name: str = "local"
    timings: Timings = TIMINGS
    refuses: bool = False
    processes: dict[str, _Process] = field(default_factory=dict)

    def submit(self, gangs: Sequence[Gang]) -> dict[str, Handle | Fault]:
        return {gang.key: self._submit(gang) for gang in gangs}

    def _submit(self, gang: Gang) -> Handle | Fault:
        if self.refuses:
            self.refuses = False
            return Fault("the server's disk is full")
        begins = max(gang.generations[0].at, self._now())
        self.processes.setdefault(gang.key, _Process(gang, begins, gang.end_at))
        return self._handle(gang)

    def observe(self, handles: Sequence[Handle]) -> dict[str, Status]:
        return {handle.key: self._observe(handle) for handle in handles}

    def _observe(self, handle: Handle) -> Status:
        process = self.processes.get(handle.key)
        if process is None:
            return Status(ENDED, end=LOST, detail="the gang is gone")
        now = self._now()
        if not process.end and now >= process.end_at:
            process.end, process.ended_at = STOPPED, process.end_at
        progress = {"epoch": process.epoch, "epochs": EPOCHS} if process.epoch else {}
        if process.end:
            detail = f"it was made to end as {process.end}"
            return Status(ENDED, process.began, process.ended_at, process.end, detail, progress=progress)
        state = WAITING if now < process.began else RUNNING
        return Status(state, None if state == WAITING else process.began, progress=progress)

    def change(self, handle: Handle, end_at: float, generations: Sequence[Generation] = (), *, why: str = "") -> None:
        if (process := self.processes.get(handle.key)) and not process.end and self._now() < process.end_at:
            process.end_at = end_at

    def stop(self, handle: Handle, *, pause: bool = False, why: str = "") -> None:
        self.strike(handle.key, PAUSED if pause else STOPPED)

    def find(self, home: str, key: str) -> Handle | None:
        process = self.processes.get(key)
        return None if process is None or process.end else self._handle(process.gang)

    def reconcile(self, handles: Sequence[Handle]) -> None:
        ours = {handle.key for handle in handles}
        for key in self.processes.keys() - ours:
            self.strike(key, STOPPED)

    def pause_all(self) -> int:
        for key in self.processes:
            self.strike(key, PAUSED)
        return 0

    def touch(self) -> None:
        pass

    def servers(self) -> dict[str, ServerHealth]:
        return {}

    def report(self) -> Report:
        return Report()

    def check(self, sold: Counts) -> list[ClusterFinding]:
        return []

    # What happens to gangs.

    def alive(self) -> list[str]:
        """Keys of gangs that run now, in the order of their starting."""
        now = self._now()
        return [key for key, one in self.processes.items() if not one.end and one.began <= now < one.end_at]

    def strike(self, key: str, end: str) -> None:
        """The gang ends at this moment, as one of the contract's words says."""
        process = self.processes[key]
        now = self._now()
        if not process.end and now < process.end_at:
            process.end, process.ended_at = end, now
            process.epoch = EPOCHS if end == FINISHED else process.epoch

    def train(self, key: str, epochs: int) -> None:
        self.processes[key].epoch = min(self.processes[key].epoch + epochs, EPOCHS)

    def _handle(self, gang: Gang) -> Handle:
        return Handle(gang.key, gang.home, {"number": list(self.processes).index(gang.key)})

    def _now(self) -> float:
        return self.clock().timestamp()


ENDS = (FINISHED, FAILED, LOST)
__all__ = ["ENDS", "EPOCHS", "Double"]

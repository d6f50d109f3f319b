"""The trainer on loopback: steps a second, and how long a job stands still when a parameter server joins or leaves.

The pause of a change without restart is what workers report: from having stopped at the scaling clock to having
parameters again. That of checkpoint and restart is from the suspension to the first step of the new processes.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.engines.gang import Gang

PARAMETERS = {"model": "multilayer", "features": 64, "hidden": 256, "layers": 2, "batch_size": 16, "minibatches": 20}
CHANGES, RESTARTS = 5, 3


def figure(name: str, value: float, unit: str, target: str, detail: str) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "unit": unit, "target": target, "detail": detail}


def measure() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _speed(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield from _hot_changes(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield from _restarts(Path(folder))


def _speed(folder: Path) -> Iterator[dict[str, Any]]:
    for workers, servers in ((1, 1), (2, 1), (2, 2)):
        with contextlib.ExitStack() as stack:
            inner = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
            gang = stack.enter_context(Gang(inner, workers, servers, **{**PARAMETERS, "epochs": 6}))
            gang.end(patience=120)
            epochs = gang.events("epoch")[1:]
            yield figure(
                f"trainer_steps_{workers}_workers_{servers}_servers",
                statistics.median(epoch["steps_per_second"] for epoch in epochs),
                "steps/s",
                "none set",
                f"4 chunks x 16 samples a step, {gang.events('started')[0]['parameters']} parameters, "
                f"{os.cpu_count()} cores for {workers + servers + 1} processes",
            )


def _hot_changes(folder: Path) -> Iterator[dict[str, Any]]:
    pauses: dict[str, list[float]] = {"server_joined": [], "server_left": [], "worker_joined": [], "worker_left": []}
    with Gang(folder, 2, 1, **{**PARAMETERS, "epochs": 10_000}) as gang:
        gang.wait("epoch")
        for turn in range(CHANGES):
            for role, kind in (("ps", "server"), ("worker", "worker")):
                gang.start(role, turn + 2)
                pauses[f"{kind}_joined"].append(_next_pause(gang))
                gang.control.remove(role, turn + 2)
                pauses[f"{kind}_left"].append(_next_pause(gang))
        parameters = gang.events("started")[0]["parameters"]
    for what, values in pauses.items():
        detail = f"median of {len(values)}, longest {max(values):.1f} ms, {parameters} parameters, 1 and 2 servers"
        yield figure(f"trainer_pause_{what}", statistics.median(values), "ms", "tens of ms (DL2, Fig. 11)", detail)


def _next_pause(gang: Gang) -> float:
    """Return the milliseconds of pause of the change that comes next, or has come since the last one was read."""
    gang.changes_read += 1
    return float(gang.wait("scaled", gang.changes_read)["pause_ms"])


def _restarts(folder: Path) -> Iterator[dict[str, Any]]:
    pauses: list[float] = []
    suspended: float | None = None
    for turn in range(RESTARTS + 1):
        with Gang(folder, 2, 1 + turn % 2, **{**PARAMETERS, "epochs": 10_000}) as gang:
            started = gang.wait("started")
            if suspended is not None:
                pauses.append(1000 * (started["at"] - suspended))
            gang.wait("epoch")
            gang.control.stop()
            suspended = gang.wait("stopped")["suspended_at"]
            gang.end_all()
    detail = f"median of {len(pauses)}: save, end, start 4 or 5 processes, load, go on"
    yield figure("trainer_pause_checkpoint_restart", statistics.median(pauses), "ms", "none set", detail)

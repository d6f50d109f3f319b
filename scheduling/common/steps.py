"""One line in the log for each step of a use case: what was done, how long it took, and its counts.

Whoever watches a market follows one interval, one admission or one settlement by its id.
"""

from __future__ import annotations

import time
from typing import Any

import structlog

from scheduling.common.measured import STEP_SECONDS, USE_CASE_SECONDS

STEPS_LOG = "scheduling.steps"  # the logger's name
_log = structlog.stdlib.get_logger(STEPS_LOG)


class Steps:
    """The steps of one run of a use case. No rule reads what it measures.

    `id`: the same for the same work, whoever does it and however often, as `interval main:1204`.
    """

    def __init__(self, use_case: str, about: str) -> None:
        self._use_case = use_case
        self._began = self._last = time.perf_counter()
        self.is_about(about)

    def is_about(self, about: str) -> None:
        """From here on: what is made on the way has its name only then."""
        self._log = _log.bind(id=f"{self._use_case} {about}")

    def done(self, step: str, *, quietly: bool = False, last: bool = False, **counts: Any) -> None:
        """The step that began where the one before it ended. `quietly`: for whoever looks for faults alone. `last`: the
        whole use case is measured with it."""
        now = time.perf_counter()
        STEP_SECONDS.labels(self._use_case, step).observe(now - self._last)
        if last:
            USE_CASE_SECONDS.labels(self._use_case).observe(now - self._began)
        tell = self._log.debug if quietly else self._log.info
        tell(step, ms=round(1e3 * (now - self._last), 1), **counts)
        self._last = now

"""One line in the log for each step of a use case: what was done, how long it took, and its counts.

By the id in these lines one can follow one interval, one admission or one settlement through the log.
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

    The `id` in the log is the same for the same work, no matter which process does it and how often, such as
    `interval main:1204`.
    """

    def __init__(self, use_case: str, about: str) -> None:
        self._use_case = use_case
        self._began = self._last = time.perf_counter()
        self.is_about(about)

    def is_about(self, about: str) -> None:
        """Set what the following lines are about. A use case that creates something knows the name of it only then."""
        self._log = _log.bind(id=f"{self._use_case} {about}")

    def done(self, step: str, *, quietly: bool = False, last: bool = False, **counts: Any) -> None:
        """Log and measure the step that began where the one before it ended. `quietly` logs it at debug level. `last`
        also measures the whole use case up to here."""
        now = time.perf_counter()
        STEP_SECONDS.labels(self._use_case, step).observe(now - self._last)
        if last:
            USE_CASE_SECONDS.labels(self._use_case).observe(now - self._began)
        tell = self._log.debug if quietly else self._log.info
        tell(step, ms=round(1e3 * (now - self._last), 1), **counts)
        self._last = now

"""Measurements that the serving processes take of their own work, for `/metrics`.

Where PROMETHEUS_MULTIPROC_DIR names a folder, each process keeps its numbers in a file there, and the process that
answers adds up the numbers of all. Without it a process knows only its own numbers.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram, Summary

MEASURED = CollectorRegistry()
_TOOK = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # seconds

USE_CASE_SECONDS = Histogram(
    "use_case_seconds", "Seconds of an interval that closed, of a slot's settlement, of an admission.", ["use_case"],
    namespace="bourse", buckets=_TOOK, registry=MEASURED,
)  # fmt: skip
STEP_SECONDS = Summary(
    "step_seconds", "Seconds of each of their steps.", ["use_case", "step"], namespace="bourse", registry=MEASURED
)
REQUEST_SECONDS = Histogram(
    "request_seconds", "Seconds of a request, by its route, its method and the first digit of its answer.",
    ["route", "method", "status"], namespace="bourse", buckets=_TOOK[1:8], registry=MEASURED,
)  # fmt: skip

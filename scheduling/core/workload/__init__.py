"""Scenarios drawn from a seed or from the log of a real cluster, as documents in the format of scenario files.

The same arguments give the same document. What it was made with stands in its field `generator`.
"""

from scheduling.core.workload.alibaba import alibaba
from scheduling.core.workload.helios import helios
from scheduling.core.workload.philly import philly
from scheduling.core.workload.presets import PRESETS
from scheduling.core.workload.synthetic import synthetic

__all__ = ["PRESETS", "alibaba", "helios", "philly", "synthetic"]

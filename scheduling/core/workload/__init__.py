"""Draw scenarios from a seed or from the log of a real cluster, as documents in the format of scenario files.

The same arguments give the same document. Its field `generator` names the generator and these arguments.
"""

from scheduling.core.workload.alibaba import alibaba
from scheduling.core.workload.helios import helios
from scheduling.core.workload.philly import philly
from scheduling.core.workload.presets import PRESETS
from scheduling.core.workload.synthetic import synthetic

__all__ = ["PRESETS", "alibaba", "helios", "philly", "synthetic"]

"""DL2: a learned policy. A network looks at the jobs and says, one unit after the other, who gets the next one.

It is warmed up on another policy's decisions and then learns from rewards; `offline_rl` is the same without the second.
"""

from scheduling.core.policies.dl2.policy import Dl2, OfflineRl, builder

__all__ = ["Dl2", "OfflineRl", "builder"]

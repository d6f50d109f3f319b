"""DL2: a learned policy. A network sees the jobs and decides, one unit after the other, which job gets the next one.

It is warmed up on another policy's decisions and then learns from rewards; `offline_rl` is trained in a simulator only,
and never on what really happened.
"""

from scheduling.core.policies.dl2.policy import Dl2, OfflineRl, builder

__all__ = ["Dl2", "OfflineRl", "builder"]

"""BatchSche: each tenant's jobs in batches on its own machines."""

from scheduling.core.policies.batchsche.policy import BatchSche, build

__all__ = ["BatchSche", "build"]

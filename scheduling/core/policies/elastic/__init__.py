"""Elastic pools: another policy decides what each job has in a slot, and each slot is paid at posted prices."""

from scheduling.core.policies.elastic.policy import Elastic, build
from scheduling.core.policies.elastic.stays import UNBROKEN

__all__ = ["UNBROKEN", "Elastic", "build"]

"""Elastic: another policy gives every job its numbers for one slot, and each slot is paid at posted prices."""

from scheduling.core.policies.elastic.policy import Elastic, build
from scheduling.core.policies.elastic.prices import owners_shares

__all__ = ["Elastic", "build", "owners_shares"]

"""Helpers for all rooms: reads as of one moment, steps in the log, texts that people write, amounts for programs."""

from scheduling.common.boundaries import boundary_marked, mark_file
from scheduling.common.moments import AUDIT_LOCK, alone
from scheduling.common.steps import Steps
from scheduling.common.texts import BadText, as_sentence, plain_document, plain_text
from scheduling.common.written import event_document
from tenants.common.moments import one_moment

__all__ = [
    "AUDIT_LOCK",
    "BadText",
    "Steps",
    "alone",
    "as_sentence",
    "boundary_marked",
    "event_document",
    "mark_file",
    "one_moment",
    "plain_document",
    "plain_text",
]

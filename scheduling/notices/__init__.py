"""Notices: what each person is notified of, how they chose to be notified, and what they have not read yet."""

from scheduling.notices.read_notices import (
    NoticeLine,
    Opening,
    may_be_seen,
    notice_lines,
    page_opening,
    paragraph,
)
from scheduling.notices.read_toasts import NO_TOASTS, toasts_after

__all__ = [
    "NO_TOASTS",
    "NoticeLine",
    "Opening",
    "may_be_seen",
    "notice_lines",
    "page_opening",
    "paragraph",
    "toasts_after",
]

"""Notices: what each person is told of, how they chose to be told, and what they have not read yet."""

from scheduling.notices.read_notices import Opening, page_opening
from scheduling.notices.read_toasts import toasts_after

__all__ = ["Opening", "page_opening", "toasts_after"]

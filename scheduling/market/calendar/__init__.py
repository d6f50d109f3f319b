"""The reservation calendar: who holds which unit in which slot, and the locks under which that changes."""

from scheduling.market.calendar.lanes import clocks_of, closes, lane_lock
from scheduling.market.calendar.units import ROUNDING, CalendarUnit, UnitReader, amounts_in, units_release

__all__ = [
    "ROUNDING",
    "CalendarUnit",
    "UnitReader",
    "amounts_in",
    "clocks_of",
    "closes",
    "lane_lock",
    "units_release",
]

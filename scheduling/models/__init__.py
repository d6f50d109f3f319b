"""The rows: the cluster, the jobs, what was decided about them, and what happened."""

from scheduling.models.calendar import CalendarCell, Part
from scheduling.models.cluster import Cell, Pool, ResourceKind, Server, ServerCapacity, ServerState
from scheduling.models.feed import Event, PriceTick
from scheduling.models.jobs import JobFloor, JobState, Lane, StartEstimate, TrainingJob
from scheduling.models.market import Award, AwardState, FreedUnits, Interval, LaneClock
from scheduling.models.money import Budget, Period

__all__ = [
    "Award",
    "AwardState",
    "Budget",
    "CalendarCell",
    "Cell",
    "Event",
    "FreedUnits",
    "Interval",
    "JobFloor",
    "JobState",
    "Lane",
    "LaneClock",
    "Part",
    "Period",
    "Pool",
    "PriceTick",
    "ResourceKind",
    "Server",
    "ServerCapacity",
    "ServerState",
    "StartEstimate",
    "TrainingJob",
]

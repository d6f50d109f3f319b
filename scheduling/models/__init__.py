"""The rows: the cluster, the jobs, what was decided about them, and what happened."""

from scheduling.models.calendar import CalendarCell, Part
from scheduling.models.cluster import Cell, Pool, ResourceKind, Server, ServerCapacity, ServerState
from scheduling.models.delivery import Outage, Pulse
from scheduling.models.fairness import IntervalFairness, TenantFairness
from scheduling.models.feed import Event, PriceTick
from scheduling.models.jobs import JobFloor, JobState, Lane, StartEstimate, TrainingJob
from scheduling.models.market import Award, AwardState, FreedUnits, Interval, LaneClock
from scheduling.models.money import Budget, Period
from scheduling.models.runs import Run, RunState
from scheduling.models.sharing import Lend, Rent, TenantPolicy
from scheduling.models.webhooks import DeliveryState, Webhook, WebhookDelivery, WebhookTry

__all__ = [
    "Award",
    "AwardState",
    "Budget",
    "CalendarCell",
    "Cell",
    "DeliveryState",
    "Event",
    "FreedUnits",
    "Interval",
    "IntervalFairness",
    "JobFloor",
    "JobState",
    "Lane",
    "LaneClock",
    "Lend",
    "Outage",
    "Part",
    "Period",
    "Pool",
    "PriceTick",
    "Pulse",
    "Rent",
    "ResourceKind",
    "Run",
    "RunState",
    "Server",
    "ServerCapacity",
    "ServerState",
    "StartEstimate",
    "TenantFairness",
    "TenantPolicy",
    "TrainingJob",
    "Webhook",
    "WebhookDelivery",
    "WebhookTry",
]

"""The rows: the cluster, the jobs, what was decided about them, and what happened."""

from scheduling.models.audit import AuditKind, AuditPart, AuditRun, AuditState, FairnessAlert, PoolDay, TenantDay
from scheduling.models.calendar import CalendarCell, Part
from scheduling.models.cluster import Cell, Pool, ResourceKind, Server, ServerCapacity, ServerState
from scheduling.models.delivery import Outage, Pulse
from scheduling.models.fairness import IntervalFairness, TenantFairness
from scheduling.models.feed import Event, PriceTick
from scheduling.models.jobs import JobFloor, JobState, Lane, StartEstimate, TrainingJob
from scheduling.models.market import Award, AwardState, FreedUnits, Interval, LaneClock, UsePrice
from scheduling.models.money import Budget, Period
from scheduling.models.runs import Run, RunState
from scheduling.models.sharing import Lend, Rent, TenantPolicy
from scheduling.models.verification import OPEN_WORK, Phase, VerificationRun, WorkState
from scheduling.models.webhooks import DeliveryState, Webhook, WebhookDelivery, WebhookTry
from scheduling.models.weights import PolicyWeights
from scheduling.models.what_if import WhatIf

__all__ = [
    "OPEN_WORK",
    "AuditKind",
    "AuditPart",
    "AuditRun",
    "AuditState",
    "Award",
    "AwardState",
    "Budget",
    "CalendarCell",
    "Cell",
    "DeliveryState",
    "Event",
    "FairnessAlert",
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
    "Phase",
    "PolicyWeights",
    "Pool",
    "PoolDay",
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
    "TenantDay",
    "TenantFairness",
    "TenantPolicy",
    "TrainingJob",
    "UsePrice",
    "VerificationRun",
    "Webhook",
    "WebhookDelivery",
    "WebhookTry",
    "WhatIf",
    "WorkState",
]

"""The rows: the cluster, the jobs, what was decided about them, and what happened."""

from scheduling.models.audit import (
    AuditKind,
    AuditPart,
    AuditRun,
    AuditState,
    FairnessAlert,
    PoolDay,
    SigningKey,
    TenantDay,
)
from scheduling.models.calendar import CalendarCell, Part
from scheduling.models.cluster import AlonePlan, Cell, Pool, ResourceKind, Server, ServerCapacity, ServerState
from scheduling.models.delivery import Outage, Pulse
from scheduling.models.fairness import IntervalFairness, TenantFairness
from scheduling.models.feed import Event, FeedSeal, PriceTick
from scheduling.models.jobs import (
    HELD,
    Described,
    JobArray,
    JobDescription,
    JobFloor,
    JobState,
    Lane,
    StartEstimate,
    TrainingJob,
)
from scheduling.models.lab import STUDY_AT_WORK, STUDY_OPEN, LabFile, LabStudy, StudyState
from scheduling.models.market import (
    ALIVE,
    AnswerFrame,
    Award,
    AwardState,
    FreedUnits,
    InstantAnswer,
    Interval,
    LaneClock,
    RentState,
    UsePrice,
    unsettled_from,
)
from scheduling.models.money import Budget, Period
from scheduling.models.notices import MailWay, Notice, NoticeChoice, NoticeCursor, NoticeProfile
from scheduling.models.programs import (
    CatalogueProgram,
    OperatorSecret,
    ProgramArchive,
    ProgramArchivePiece,
    ProgramSwitch,
    ProgramVersion,
)
from scheduling.models.runs import EnginePulse, Run, RunState
from scheduling.models.sharing import Lend, Rent, TenantPolicy
from scheduling.models.use import PoolHour, ServerHour, TenantHour
from scheduling.models.verification import OPEN_WORK, Phase, VerificationRun, WorkState
from scheduling.models.webhooks import DeliveryState, Webhook, WebhookDelivery, WebhookForm, WebhookTry
from scheduling.models.weights import PolicyWeights
from scheduling.models.what_if import WhatIf

__all__ = [
    "ALIVE",
    "HELD",
    "OPEN_WORK",
    "STUDY_AT_WORK",
    "STUDY_OPEN",
    "AlonePlan",
    "AnswerFrame",
    "AuditKind",
    "AuditPart",
    "AuditRun",
    "AuditState",
    "Award",
    "AwardState",
    "Budget",
    "CalendarCell",
    "CatalogueProgram",
    "Cell",
    "DeliveryState",
    "Described",
    "EnginePulse",
    "Event",
    "FairnessAlert",
    "FeedSeal",
    "FreedUnits",
    "InstantAnswer",
    "Interval",
    "IntervalFairness",
    "JobArray",
    "JobDescription",
    "JobFloor",
    "JobState",
    "LabFile",
    "LabStudy",
    "Lane",
    "LaneClock",
    "Lend",
    "MailWay",
    "Notice",
    "NoticeChoice",
    "NoticeCursor",
    "NoticeProfile",
    "OperatorSecret",
    "Outage",
    "Part",
    "Period",
    "Phase",
    "PolicyWeights",
    "Pool",
    "PoolDay",
    "PoolHour",
    "PriceTick",
    "ProgramArchive",
    "ProgramArchivePiece",
    "ProgramSwitch",
    "ProgramVersion",
    "Pulse",
    "Rent",
    "RentState",
    "ResourceKind",
    "Run",
    "RunState",
    "Server",
    "ServerCapacity",
    "ServerHour",
    "ServerState",
    "SigningKey",
    "StartEstimate",
    "StudyState",
    "TenantDay",
    "TenantFairness",
    "TenantHour",
    "TenantPolicy",
    "TrainingJob",
    "UsePrice",
    "VerificationRun",
    "Webhook",
    "WebhookDelivery",
    "WebhookForm",
    "WebhookTry",
    "WhatIf",
    "WorkState",
    "unsettled_from",
]

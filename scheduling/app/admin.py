"""The cluster and the market in Django's admin, to be read in an emergency; changes go through services.

The calendar and the posted prices have keys of several columns, which the admin cannot show.
"""

from __future__ import annotations

from django.contrib import admin

from scheduling import models
from tenants.admin import ReadOnlyAdmin


@admin.register(models.Pool)
class PoolAdmin(ReadOnlyAdmin):
    list_display = ["name", "slug", "slot_seconds", "clock_first", "clock_cap", "clock_restart", "epoch_at"]
    search_fields = ["name", "slug"]


@admin.register(models.ResourceKind)
class ResourceKindAdmin(ReadOnlyAdmin):
    list_display = ["pool", "name", "label", "least", "step"]
    list_select_related = ["pool"]
    search_fields = ["name", "label"]


@admin.register(models.Server)
class ServerAdmin(ReadOnlyAdmin):
    list_display = ["name", "pool", "hosts_workers", "hosts_ps", "state"]
    list_select_related = ["pool"]
    list_filter = ["pool", "state"]
    search_fields = ["name"]


@admin.register(models.ServerCapacity)
class ServerCapacityAdmin(ReadOnlyAdmin):
    list_display = ["server", "resource", "units"]
    list_select_related = ["server", "resource"]
    list_filter = ["pool"]
    search_fields = ["server__name"]


@admin.register(models.Cell)
class CellAdmin(ReadOnlyAdmin):
    list_display = ["server", "resource", "tenant", "units"]
    list_select_related = ["server", "resource", "tenant"]
    search_fields = ["server__name", "tenant__slug"]


@admin.register(models.LaneClock)
class LaneClockAdmin(ReadOnlyAdmin):
    list_display = ["pool", "lane", "decided_slot", "settled_slot", "frontier", "held", "draining"]
    list_select_related = ["pool"]
    search_fields = ["pool__slug"]


@admin.register(models.Pulse)
class PulseAdmin(ReadOnlyAdmin):
    list_display = ["pool", "alive_at"]
    list_select_related = ["pool"]
    search_fields = ["pool__slug"]


@admin.register(models.Outage)
class OutageAdmin(ReadOnlyAdmin):
    list_display = ["pool", "start", "end", "alive_at", "noticed_at"]
    list_select_related = ["pool"]
    search_fields = ["pool__slug"]


@admin.register(models.Interval)
class IntervalAdmin(ReadOnlyAdmin):
    list_display = ["pool", "number", "slot", "decided_at", "jobs_waiting", "jobs_awarded", "paid", "digest"]
    list_select_related = ["pool"]
    search_fields = ["=number", "digest"]


@admin.register(models.InstantAnswer)
class InstantAnswerAdmin(ReadOnlyAdmin):
    list_display = ["pool", "number", "at", "job_id", "award_id", "digest"]
    list_select_related = ["pool"]
    search_fields = ["=number", "=job__id", "digest"]


@admin.register(models.AnswerFrame)
class AnswerFrameAdmin(ReadOnlyAdmin):
    list_display = ["digest"]
    search_fields = ["digest"]


@admin.register(models.FeedSeal)
class FeedSealAdmin(ReadOnlyAdmin):
    list_display = ["number", "last_event_id", "sealed_at", "digest"]
    search_fields = ["=number", "digest"]


@admin.register(models.Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ["id", "kind", "subject", "pool", "tenant", "at"]
    list_select_related = ["pool", "tenant"]
    search_fields = ["kind", "subject"]


@admin.register(models.TrainingJob)
class TrainingJobAdmin(ReadOnlyAdmin):
    list_display = ["id", "name", "tenant", "pool", "lane", "state", "reason_code", "submitted_at"]
    list_select_related = ["tenant", "pool"]
    list_filter = ["state", "lane"]
    search_fields = ["=id", "name", "client_key"]


@admin.register(models.JobArray)
class JobArrayAdmin(ReadOnlyAdmin):
    list_display = ["id", "tenant", "pool", "name", "submitted_at"]
    list_select_related = ["tenant", "pool"]
    list_filter = ["pool"]
    search_fields = ["=id", "name"]


@admin.register(models.JobDescription)
class JobDescriptionAdmin(ReadOnlyAdmin):
    list_display = ["job_id", "tenant", "how"]
    list_select_related = ["tenant"]
    list_filter = ["how"]
    search_fields = ["=job__id"]
    exclude = ["said", "lines"]  # they have the text of a script, which is for the operator and members of the tenant


@admin.register(models.JobFloor)
class JobFloorAdmin(ReadOnlyAdmin):
    list_display = ["job_id", "attempt", "tenant", "value", "start", "end"]
    list_select_related = ["tenant"]
    search_fields = ["=job__id"]


@admin.register(models.StartEstimate)
class StartEstimateAdmin(ReadOnlyAdmin):
    list_display = ["job_id", "tenant", "made_at", "earliest", "latest", "started"]
    list_select_related = ["tenant"]
    search_fields = ["=job__id"]


@admin.register(models.Award)
class AwardAdmin(ReadOnlyAdmin):
    list_display = ["id", "job_id", "attempt", "tenant", "lane", "state", "start", "end", "paid", "returned"]
    list_select_related = ["tenant"]
    list_filter = ["state", "lane"]
    search_fields = ["=id", "=job__id"]


@admin.register(models.FreedUnits)
class FreedUnitsAdmin(ReadOnlyAdmin):
    list_display = ["award_id", "server", "resource", "part", "slot", "amount", "sold"]
    list_select_related = ["server", "resource"]
    search_fields = ["=award__id"]


@admin.register(models.TenantPolicy)
class TenantPolicyAdmin(ReadOnlyAdmin):
    list_display = ["tenant", "pool", "rent", "budget", "lend"]
    list_select_related = ["tenant", "pool"]
    search_fields = ["tenant__slug", "pool__slug"]


@admin.register(models.Budget)
class BudgetAdmin(ReadOnlyAdmin):
    list_display = ["tenant", "member", "period", "soft_limit", "hard_limit"]
    list_select_related = ["tenant", "member"]
    search_fields = ["tenant__slug", "member__email"]


@admin.register(models.Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ["id", "job_id", "award_id", "tenant", "engine", "program", "state", "started_at", "ended_at"]
    list_select_related = ["tenant"]
    list_filter = ["state"]
    search_fields = ["=job__id", "program"]
    exclude = ["key"]


@admin.register(models.JobReport)
class JobReportAdmin(ReadOnlyAdmin):
    list_display = ["job_id", "tenant", "heard_at", "source", "epochs_left", "ended_after"]
    list_select_related = ["tenant"]
    list_filter = ["source"]
    search_fields = ["=job__id"]


@admin.register(models.Notice)
class NoticeAdmin(ReadOnlyAdmin):
    """Which notices the market made for whom, and when; without the persons' choices."""

    list_display = ["id", "person_id", "kind", "event_id", "source", "at"]
    list_filter = ["kind"]
    search_fields = ["=person__id", "=event__id", "source"]


@admin.register(models.ChatAddress)
class ChatAddressAdmin(ReadOnlyAdmin):
    """The chat addresses that fail, and why; the address itself is the person's secret."""

    list_display = ["person_id", "form", "active", "failures", "flaw", "said_at", "switched_off_at"]
    search_fields = ["=person__id"]
    exclude = ["secret"]


@admin.register(models.NoticeCursor)
class NoticeCursorAdmin(ReadOnlyAdmin):
    list_display = ["cursor", "month"]
    search_fields = ["=cursor"]


@admin.register(models.Webhook)
class WebhookAdmin(ReadOnlyAdmin):
    list_display = ["id", "tenant", "url", "active", "failures", "switched_off_at", "removed_at"]
    list_select_related = ["tenant"]
    search_fields = ["url", "tenant__slug"]
    exclude = ["salt", "secret"]


@admin.register(models.WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnlyAdmin):
    list_display = ["id", "webhook_id", "event_id", "state", "tries", "next_at", "ended_at"]
    list_filter = ["state"]
    search_fields = ["=webhook__id", "=event__id"]


@admin.register(models.WebhookTry)
class WebhookTryAdmin(ReadOnlyAdmin):
    list_display = ["delivery_id", "number", "started_at", "ended_at", "status", "flaw"]
    search_fields = ["=delivery__id"]


@admin.register(models.IntervalFairness)
class IntervalFairnessAdmin(ReadOnlyAdmin):
    list_display = ["pool", "number", "decided_at", "revenue", "certificates", "broken_count", "jain_index"]
    list_select_related = ["pool"]
    search_fields = ["=number"]


@admin.register(models.TenantFairness)
class TenantFairnessAdmin(ReadOnlyAdmin):
    list_display = ["tenant", "pool", "number", "gain", "alone", "ratio", "earned", "reward"]
    list_select_related = ["tenant", "pool"]
    search_fields = ["=number", "tenant__slug"]


@admin.register(models.PoolDay)
class PoolDayAdmin(ReadOnlyAdmin):
    list_display = ["pool", "day", "intervals", "revenue", "certificates", "broken"]
    list_select_related = ["pool"]
    search_fields = ["=day"]


@admin.register(models.TenantDay)
class TenantDayAdmin(ReadOnlyAdmin):
    list_display = ["tenant", "pool", "day", "gain", "even", "earned", "contributed"]
    list_select_related = ["tenant", "pool"]
    search_fields = ["=day", "tenant__slug"]


@admin.register(models.PoolHour)
class PoolHourAdmin(ReadOnlyAdmin):
    list_display = ["pool", "resource", "hour", "slots", "capacity", "used", "rented", "unsold", "down"]
    list_select_related = ["pool", "resource"]
    search_fields = ["pool__slug"]


@admin.register(models.TenantHour)
class TenantHourAdmin(ReadOnlyAdmin):
    list_display = ["tenant", "pool", "resource", "hour", "capacity", "used", "lent", "unsold", "down", "rented"]
    list_select_related = ["tenant", "pool", "resource"]
    search_fields = ["tenant__slug"]


@admin.register(models.ServerHour)
class ServerHourAdmin(ReadOnlyAdmin):
    list_display = ["server", "resource", "hour", "capacity", "taken", "down"]
    list_select_related = ["server", "resource"]
    search_fields = ["server__name"]


@admin.register(models.FairnessAlert)
class FairnessAlertAdmin(ReadOnlyAdmin):
    list_display = ["pool", "measure", "threshold", "value", "passed_at"]
    list_select_related = ["pool"]
    search_fields = ["measure"]


@admin.register(models.UsePrice)
class UsePriceAdmin(ReadOnlyAdmin):
    list_display = ["pool", "resource", "from_slot", "amount", "set_at"]
    list_select_related = ["pool", "resource"]
    search_fields = ["=from_slot"]


@admin.register(models.PolicyWeights)
class PolicyWeightsAdmin(ReadOnlyAdmin):
    list_display = ["name", "digest", "added_at"]
    search_fields = ["name", "digest"]
    exclude = ["content"]  # half a megabyte of numbers


@admin.register(models.WeightsPromotion)
class WeightsPromotionAdmin(ReadOnlyAdmin):
    list_display = ["pool", "weights", "from_slot", "by_rule", "made_at"]
    list_select_related = ["pool", "weights"]
    search_fields = ["=from_slot", "weights__name"]


@admin.register(models.PoolLearner)
class PoolLearnerAdmin(ReadOnlyAdmin):
    list_display = ["pool", "is_on", "promotes", "step", "worked_at"]
    list_select_related = ["pool"]
    search_fields = ["pool__slug"]
    exclude = ["state"]  # megabytes of numbers


@admin.register(models.WeightsCandidate)
class WeightsCandidateAdmin(ReadOnlyAdmin):
    list_display = ["pool", "weights", "from_slot", "state", "made_at", "judged_at"]
    list_select_related = ["pool", "weights"]
    search_fields = ["weights__name"]


@admin.register(models.ShadowSlot)
class ShadowSlotAdmin(ReadOnlyAdmin):
    list_display = ["candidate", "slot", "reward_in_use", "reward"]
    search_fields = ["=slot"]


@admin.register(models.CatalogueProgram)
class CatalogueProgramAdmin(ReadOnlyAdmin):
    list_display = ["name", "tenant", "tenants", "created_at", "retired_at"]
    list_select_related = ["tenant"]
    search_fields = ["name", "tenant__slug"]


@admin.register(models.ProgramVersion)
class ProgramVersionAdmin(ReadOnlyAdmin):
    list_display = ["program", "version", "digest", "registered_at", "registered_by_name"]
    list_select_related = ["program"]
    search_fields = ["program__name", "digest"]
    exclude = ["document"]  # it is for the operator and members of the owner, not for all of the staff


@admin.register(models.ProgramArchive)
class ProgramArchiveAdmin(ReadOnlyAdmin):
    list_display = ["digest", "size", "added_at"]
    search_fields = ["digest"]


@admin.register(models.ArchiveKeeping)
class ArchiveKeepingAdmin(ReadOnlyAdmin):
    list_display = ["archive", "used_at", "closed_at", "removed_at"]
    search_fields = ["archive__digest"]


@admin.register(models.ProgramArchivePiece)
class ProgramArchivePieceAdmin(ReadOnlyAdmin):
    list_display = ["archive", "number"]
    search_fields = ["archive__digest"]
    exclude = ["content"]


@admin.register(models.OperatorSecret)
class OperatorSecretAdmin(ReadOnlyAdmin):
    list_display = ["name", "tenants", "set_at", "removed_at"]
    search_fields = ["name"]
    exclude = ["secret"]


@admin.register(models.ProgramSwitch)
class ProgramSwitchAdmin(ReadOnlyAdmin):
    list_display = ["tenant", "may_bring"]
    list_select_related = ["tenant"]
    search_fields = ["tenant__slug"]


@admin.register(models.VerificationRun)
class VerificationRunAdmin(ReadOnlyAdmin):
    list_display = ["id", "audit", "pool", "state", "phase", "done", "total", "differences", "seen_at"]
    list_select_related = ["audit", "pool"]
    search_fields = ["=id", "=audit__id"]


@admin.register(models.WhatIf)
class WhatIfAdmin(ReadOnlyAdmin):
    list_display = ["id", "tenant", "interval", "job", "field", "state", "asked_at", "asked_by"]
    list_select_related = ["tenant", "interval", "job", "asked_by"]
    search_fields = ["=id", "=job__id"]


@admin.register(models.AuditRun)
class AuditRunAdmin(ReadOnlyAdmin):
    list_display = ["id", "kind", "state", "pool", "asked_at", "asked_by", "is_clean"]
    list_select_related = ["pool", "asked_by"]
    search_fields = ["=id"]


@admin.register(models.AuditPart)
class AuditPartAdmin(ReadOnlyAdmin):
    list_display = ["run", "place"]
    list_select_related = ["run"]
    search_fields = ["=run__id"]


@admin.register(models.EnginePulse)
class EnginePulseAdmin(ReadOnlyAdmin):
    list_display = ["name", "alive_at"]
    search_fields = ["name"]


@admin.register(models.IntervalArchive)
class IntervalArchiveAdmin(ReadOnlyAdmin):
    list_display = ["file", "pool", "day", "first", "last", "size", "archived_at"]
    list_select_related = ["pool"]
    list_filter = ["pool"]
    search_fields = ["file", "digest"]


@admin.register(models.SigningKey)
class SigningKeyAdmin(ReadOnlyAdmin):
    exclude = ["secret"]
    list_display = ["public_key", "made_at", "retired_at"]
    search_fields = ["public_key"]


@admin.register(models.LabStudy)
class LabStudyAdmin(ReadOnlyAdmin):
    list_display = ["id", "title", "pool", "state", "done", "total", "asked_at", "asked_by"]
    list_select_related = ["pool", "asked_by"]
    search_fields = ["=id", "title"]


@admin.register(models.LabFile)
class LabFileAdmin(ReadOnlyAdmin):
    list_display = ["study", "name", "place"]
    list_select_related = ["study"]
    search_fields = ["=study__id", "name"]

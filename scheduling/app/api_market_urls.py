"""Addresses of the interface about pools, the market and the cluster. Each ends in a slash."""

from django.urls import path

from scheduling.audit.api import audits, charges, intervals
from scheduling.fairness.api import fairness
from scheduling.lab.api import studies
from scheduling.learner.api import learning
from scheduling.market.api import awards, calendar, prices, use
from scheduling.money.api import credits
from scheduling.operator.api import cells, pools, quota, servers
from scheduling.quotes.api import estimates
from scheduling.quotes.api.plans import PlansOfTenant
from scheduling.sharing.api.sharing import SharingOfTenant

POOL = "pools/<slug:pool_slug>/"
FAIRNESS = POOL + "fairness/"
SERVER = POOL + "servers/<str:server_name>/"
TENANT = "tenants/<slug:tenant_slug>/"
OWN = TENANT + POOL
STUDY = "lab/studies/<int:study_id>/"

urlpatterns = [
    path("pools/", pools.Pools.as_view(), name="api_pools"),
    path(POOL, pools.PoolRead.as_view(), name="api_pool"),
    path(POOL + "hold/", pools.PoolHold.as_view(), name="api_pool_hold"),
    path(POOL + "drain/", pools.PoolDrain.as_view(), name="api_pool_drain"),
    path(POOL + "steps/", pools.PoolSteps.as_view(), name="api_pool_steps"),
    path(POOL + "servers-return/", pools.PoolServersReturn.as_view(), name="api_pool_servers_return"),
    path(POOL + "learner/", learning.LearnerOfPool.as_view(), name="api_learner"),
    path(POOL + "learner/weights/", learning.WeightsOfPool.as_view(), name="api_learner_weights"),
    path(POOL + "resume/", pools.PoolResume.as_view(), name="api_pool_resume"),
    path(POOL + "prices/", prices.PricesNow.as_view(), name="api_prices"),
    path(POOL + "prices/ahead/", prices.PricesAhead.as_view(), name="api_prices_ahead"),
    path(POOL + "prices/history/", prices.PricesHistory.as_view(), name="api_prices_history"),
    path(POOL + "intervals/", intervals.Intervals.as_view(), name="api_intervals"),
    path(POOL + "intervals/<int:number>/", intervals.IntervalRead.as_view(), name="api_interval"),
    path(POOL + "intervals/<int:number>/verify/", intervals.IntervalVerify.as_view(), name="api_interval_verify"),
    path(POOL + "awards/", awards.PoolAwards.as_view(), name="api_pool_awards"),
    path(FAIRNESS, fairness.FairnessRead.as_view(), name="api_fairness"),
    path(FAIRNESS + "tenants/", fairness.FairnessTenants.as_view(), name="api_fairness_tenants"),
    path(FAIRNESS + "health/", fairness.FairnessHealth.as_view(), name="api_fairness_health"),
    path(FAIRNESS + "intervals/", fairness.FairnessIntervals.as_view(), name="api_fairness_intervals"),
    path(FAIRNESS + "intervals/<int:number>/", fairness.FairnessInterval.as_view(), name="api_fairness_interval"),
    path(FAIRNESS + "certificates/", fairness.FairnessCertificates.as_view(), name="api_fairness_certificates"),
    path(FAIRNESS + "blocked/", fairness.FairnessBlocked.as_view(), name="api_fairness_blocked"),
    path(FAIRNESS + "alerts/", audits.Alerts.as_view(), name="api_fairness_alerts"),
    path(FAIRNESS + "verify/", audits.VerifyStart.as_view(), name="api_fairness_verify"),
    path(FAIRNESS + "bundles/", audits.BundleStart.as_view(), name="api_fairness_bundles"),
    path("lab/studies/", studies.Studies.as_view(), name="api_studies"),
    path(STUDY, studies.Study.as_view(), name="api_study"),
    path(STUDY + "start/", studies.StudyStart.as_view(), name="api_study_start"),
    path(STUDY + "cancel/", studies.StudyCancel.as_view(), name="api_study_cancel"),
    path(STUDY + "resume/", studies.StudyResume.as_view(), name="api_study_resume"),
    path(STUDY + "show/", studies.StudyShow.as_view(), name="api_study_show"),
    path(STUDY + "remove/", studies.StudyRemove.as_view(), name="api_study_remove"),
    path(STUDY + "report/", studies.StudyReport.as_view(), name="api_study_report"),
    path(STUDY + "figures/", studies.StudyFigures.as_view(), name="api_study_figures"),
    path("audits/", audits.Audits.as_view(), name="api_audits"),
    path("audits/<int:audit_id>/", audits.AuditRead.as_view(), name="api_audit"),
    path("audits/<int:audit_id>/cancel/", audits.AuditCancel.as_view(), name="api_audit_cancel"),
    path("audits/<int:audit_id>/file/", audits.AuditFile.as_view(), name="api_audit_file"),
    path(POOL + "calendar/", calendar.Calendar.as_view(), name="api_calendar"),
    path(POOL + "use/", use.PoolUse.as_view(), name="api_pool_use"),
    path(POOL + "cells/", cells.Cells.as_view(), name="api_cells"),
    path(POOL + "cells/<slug:owner_slug>/", cells.CellsOfOneTenant.as_view(), name="api_cells_of_tenant"),
    path(POOL + "servers/", servers.Servers.as_view(), name="api_servers"),
    path(SERVER, servers.ServerRead.as_view(), name="api_server"),
    path(SERVER + "capacity/", servers.ServerCapacityView.as_view(), name="api_server_capacity"),
    path(SERVER + "cells/", cells.CellsOnServer.as_view(), name="api_server_cells"),
    path(SERVER + "drain/", servers.ServerDrain.as_view(), name="api_server_drain"),
    path(SERVER + "return/", servers.ServerReturn.as_view(), name="api_server_return"),
    path(SERVER + "lose/", servers.ServerLose.as_view(), name="api_server_lose"),
    path(TENANT + "awards/", awards.Awards.as_view(), name="api_awards"),
    path(TENANT + "awards/<int:award_id>/", awards.AwardOfTenant.as_view(), name="api_award"),
    path(TENANT + "jobs/<int:job_id>/verify/", charges.JobVerify.as_view(), name="api_job_verify"),
    path(TENANT + "credits/grant/", credits.CreditsGrant.as_view(), name="api_credits_grant"),
    path(TENANT + "credits/withdraw/", credits.CreditsWithdraw.as_view(), name="api_credits_withdraw"),
    path(OWN + "bookings/", calendar.Bookings.as_view(), name="api_bookings"),
    path(OWN + "use/", use.OwnUse.as_view(), name="api_own_use"),
    path(OWN + "quota/", quota.Quota.as_view(), name="api_quota"),
    path(OWN + "fairness/", fairness.OwnFairness.as_view(), name="api_own_fairness"),
    path(OWN + "sharing/", SharingOfTenant.as_view(), name="api_sharing"),
    path(OWN + "sharing/plans/", PlansOfTenant.as_view(), name="api_sharing_plans"),
    path(OWN + "estimates/", estimates.Estimates.as_view(), name="api_estimates"),
    path(OWN + "intervals/<int:number>/", intervals.OwnInterval.as_view(), name="api_own_interval"),
]

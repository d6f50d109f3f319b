"""Addresses of pages about the cluster and the market. Under t/<slug>/ the tenant's scope is open
(tenants.requests.middleware)."""

from django.urls import include, path

from scheduling.audit.pages import audits as fairness_audits
from scheduling.audit.pages import charge as fairness_charge
from scheduling.audit.pages import intervals
from scheduling.books.pages import ledger, statements
from scheduling.catalogue.pages import programs, secrets
from scheduling.fairness.pages import alerts as fairness_alerts
from scheduling.fairness.pages import fairness as fairness_pages
from scheduling.feed.socket import MarketConsumer, OverviewConsumer
from scheduling.jobs.pages import job, jobs
from scheduling.lab.pages import studies
from scheduling.learner.pages import learning
from scheduling.market.pages import frame, how, market, servers, share, use
from scheduling.notices.pages import notices
from scheduling.operator.pages import cells as operator_cells
from scheduling.operator.pages import cluster_import as operator_import
from scheduling.operator.pages import credits as operator_credits
from scheduling.operator.pages import pools as operator_pools
from scheduling.operator.pages import ran as operator_ran
from scheduling.operator.pages import servers as operator_servers
from scheduling.overview.pages import all_jobs, overview
from scheduling.quotes.pages import plans, submit
from scheduling.webhooks.pages import chats, webhooks
from scheduling.what_if.pages import what_if

operator_patterns = [
    path("servers/", operator_servers.operator_servers, name="operator_servers"),
    path("servers/<int:pk>/", operator_servers.operator_server, name="operator_server"),
    path("servers/<int:pk>/capacity/", operator_servers.server_capacity, name="operator_server_capacity"),
    path("servers/<int:pk>/state/", operator_servers.server_state, name="operator_server_state"),
    path("servers/<int:pk>/lose/", operator_servers.server_lose, name="operator_server_lose"),
    path("cells/", operator_cells.operator_cells, name="operator_cells"),
    path("cells/<int:pk>/", operator_cells.operator_server_cells, name="operator_server_cells"),
    path("pools/", operator_pools.operator_pools, name="operator_pools"),
    path("pools/new/", operator_pools.operator_pool_create, name="operator_pool_create"),
    path("pools/<slug:slug>/", operator_pools.operator_pool, name="operator_pool"),
    path("pools/<slug:slug>/steps/", operator_pools.operator_pool_steps, name="operator_pool_steps"),
    path("pools/<slug:slug>/ran/", operator_ran.operator_ran, name="operator_ran"),
    path("pools/<slug:slug>/learning/", learning.operator_learning, name="operator_learning"),
    path("pools/<slug:slug>/learning/learner/", learning.operator_learner, name="operator_learner"),
    path("pools/<slug:slug>/learning/weights/", learning.operator_weights, name="operator_weights"),
    path("pools/<slug:slug>/import/", operator_import.operator_cluster_import, name="operator_cluster_import"),
    path("pools/<slug:slug>/servers-return/", operator_pools.operator_servers_return, name="operator_servers_return"),
    path("pools/<slug:slug>/use-prices/", operator_pools.operator_use_prices, name="operator_use_prices"),
    path("pools/<slug:pool_slug>/servers/new/", operator_servers.server_add, name="operator_server_add"),
    path("credits/", operator_credits.operator_credits, name="operator_credits"),
    path("programs/", programs.operator_programs, name="operator_programs"),
    path("programs/new/", programs.program_new, name="operator_program_new"),
    path("secrets/", secrets.operator_secrets, name="operator_secrets"),
    path("secrets/<slug:name>/remove/", secrets.operator_secret_remove, name="operator_secret_remove"),
    path("programs/allow/", programs.operator_programs_allow, name="operator_programs_allow"),
    path("programs/<slug:name>/retire/", programs.program_retired, name="operator_program_retire"),
    path("programs/of/<slug:owner>/<slug:name>/", programs.program, name="operator_program"),
    path(
        "programs/of/<slug:owner>/<slug:name>/<int:version>/archive/",
        programs.program_archive,
        name="operator_program_archive",
    ),
]

fairness_patterns = [
    path("", fairness_pages.fairness, name="fairness"),
    path("audits/", fairness_audits.audits, name="audits"),
    path("audits/start/", fairness_audits.audit_start, name="audit_start"),
    path("audits/<int:pk>/", fairness_audits.audit, name="audit"),
    path("audits/<int:pk>/cancel/", fairness_audits.audit_call_off, name="audit_cancel"),
    path("audits/<int:pk>/file/", fairness_audits.audit_file, name="audit_file"),
    path("what-if/", what_if.what_ifs, name="what_ifs"),
    path("what-if/<int:pk>/", what_if.what_if, name="what_if"),
    path("what-if/<int:pk>/cancel/", what_if.what_if_cancelled, name="what_if_cancel"),
    path("pools/<slug:pool_slug>/intervals/<int:number>/what-if/", what_if.what_if_ask, name="what_if_ask"),
    path("pools/<slug:pool_slug>/alerts/", fairness_alerts.alerts, name="fairness_alerts"),
    path("pools/<slug:pool_slug>/intervals/", fairness_pages.intervals, name="fairness_intervals"),
    path("pools/<slug:pool_slug>/intervals/<int:number>/", fairness_pages.interval, name="fairness_interval"),
]

lab_patterns = [
    path("", studies.lab, name="lab"),
    path("new/", studies.lab_new, name="lab_new"),
    path("choices/<slug:slug>/", studies.lab_choices, name="lab_choices"),
    path("<int:pk>/", studies.lab_study, name="lab_study"),
    path("<int:pk>/start/", studies.lab_started, name="lab_start"),
    path("<int:pk>/cancel/", studies.lab_called_off, name="lab_cancel"),
    path("<int:pk>/resume/", studies.lab_resumed, name="lab_resume"),
    path("<int:pk>/show/", studies.lab_shown, name="lab_show"),
    path("<int:pk>/remove/", studies.lab_remove, name="lab_remove"),
    path("<int:pk>/report/", studies.lab_file, {"what": "report"}, name="lab_report"),
    path("<int:pk>/figures/", studies.lab_file, {"what": "figures"}, name="lab_figures"),
]

urlpatterns = [
    path("overview/", overview.overview, name="overview"),
    path("overview/jobs/", all_jobs.all_jobs, name="all_jobs"),
    path("notices/", notices.notices, name="notices"),
    path("notices/choices/", notices.notice_choices, name="notice_choices"),
    path("notices/guide/", notices.notices_guide, name="notices_guide"),
    path("notices/chat/", chats.notice_chat, name="notice_chat"),
    path("notices/stop/<str:token>/", notices.notices_stop, name="notices_stop"),
    path("notices/read/", notices.notices_mark, name="notices_read"),
    path("operator/", include(operator_patterns)),
    path("fairness/", include(fairness_patterns)),
    path("lab/", include(lab_patterns)),
    path("t/<slug:tenant_slug>/lab/", studies.tenant_lab, name="tenant_lab"),
    path("t/<slug:tenant_slug>/lab/<int:pk>/", studies.tenant_lab_study, name="tenant_lab_study"),
    path("t/<slug:tenant_slug>/fairness/", fairness_pages.tenant_fairness, name="tenant_fairness"),
    path(
        "t/<slug:tenant_slug>/fairness/<slug:pool_slug>/intervals/<int:number>/",
        fairness_pages.tenant_interval,
        name="tenant_fairness_interval",
    ),
    path("t/<slug:tenant_slug>/what-if/", what_if.tenant_what_ifs, name="tenant_what_ifs"),
    path("t/<slug:tenant_slug>/what-if/<int:pk>/", what_if.tenant_what_if, name="tenant_what_if"),
    path("t/<slug:tenant_slug>/what-if/<int:pk>/cancel/", what_if.tenant_what_if_cancel, name="tenant_what_if_cancel"),
    path(
        "t/<slug:tenant_slug>/intervals/<slug:pool_slug>/<int:number>/what-if/",
        what_if.tenant_what_if_ask,
        name="tenant_what_if_ask",
    ),
    path("t/<slug:tenant_slug>/jobs/<int:pk>/charge/", fairness_charge.job_charge, name="job_charge"),
    path("t/<slug:tenant_slug>/frame/", frame.tenant_frame, name="tenant_frame"),
    path("t/<slug:tenant_slug>/market/", market.tenant_market, name="tenant_market"),
    path("t/<slug:tenant_slug>/servers/", servers.tenant_servers, name="tenant_servers"),
    path("t/<slug:tenant_slug>/ledger/", ledger.tenant_ledger, name="tenant_ledger"),
    path("t/<slug:tenant_slug>/statements/", statements.tenant_statements, name="tenant_statements"),
    path("t/<slug:tenant_slug>/statements/period/", statements.tenant_statement, name="tenant_statement"),
    path("how-it-works/", how.how, name="how"),
    path("glossary/", how.glossary, name="glossary"),
    path("t/<slug:tenant_slug>/how-it-works/", how.tenant_how, name="tenant_how"),
    path("t/<slug:tenant_slug>/glossary/", how.tenant_glossary, name="tenant_glossary"),
    path("t/<slug:tenant_slug>/use/", use.tenant_use, name="tenant_use"),
    path("t/<slug:tenant_slug>/share/", share.tenant_share, name="tenant_share"),
    path("t/<slug:tenant_slug>/share/plans/", plans.tenant_plans, name="tenant_plans"),
    path("t/<slug:tenant_slug>/share/budgets/", share.budget_change, name="budget_change"),
    path("t/<slug:tenant_slug>/intervals/", intervals.intervals, name="intervals"),
    path("t/<slug:tenant_slug>/intervals/<slug:pool_slug>/<int:number>/", intervals.interval, name="interval"),
    path("t/<slug:tenant_slug>/submit/", submit.job_submit, name="job_submit"),
    path("t/<slug:tenant_slug>/submit/quote/", submit.job_quote, name="job_quote"),
    path("t/<slug:tenant_slug>/jobs/", jobs.tenant_jobs, name="tenant_jobs"),
    path("t/<slug:tenant_slug>/jobs/cancel/", jobs.jobs_cancel, name="jobs_cancel"),
    path("t/<slug:tenant_slug>/jobs/arrays/<int:pk>/cancel/", jobs.array_cancel, name="array_cancel"),
    path("t/<slug:tenant_slug>/jobs/views/", jobs.view_save, name="jobs_view_save"),
    path("t/<slug:tenant_slug>/jobs/views/<int:pk>/remove/", jobs.view_remove, name="jobs_view_remove"),
    path("t/<slug:tenant_slug>/jobs/<int:pk>/", job.job, name="job"),
    path("t/<slug:tenant_slug>/jobs/<int:pk>/cancel/", job.job_cancel, name="job_cancel"),
    path("t/<slug:tenant_slug>/jobs/<int:pk>/log/", job.job_log, name="job_log"),
    path("t/<slug:tenant_slug>/jobs/<int:pk>/files/content/", job.job_file, name="job_file"),
    path("t/<slug:tenant_slug>/jobs/<int:pk>/queue/", job.job_queue, name="job_queue"),
    path("t/<slug:tenant_slug>/programs/", programs.tenant_programs, name="tenant_programs"),
    path("t/<slug:tenant_slug>/programs/new/", programs.program_new, name="tenant_program_new"),
    path("t/<slug:tenant_slug>/programs/<slug:name>/retire/", programs.program_retired, name="tenant_program_retire"),
    path("t/<slug:tenant_slug>/programs/of/<slug:owner>/<slug:name>/", programs.program, name="tenant_program"),
    path(
        "t/<slug:tenant_slug>/programs/of/<slug:owner>/<slug:name>/<int:version>/archive/",
        programs.program_archive,
        name="tenant_program_archive",
    ),
    path("t/<slug:tenant_slug>/webhooks/", webhooks.tenant_webhooks, name="tenant_webhooks"),
    path("t/<slug:tenant_slug>/webhooks/make/", webhooks.webhook_create, name="webhook_create"),
    path("t/<slug:tenant_slug>/webhooks/<int:pk>/", webhooks.tenant_webhook, name="tenant_webhook"),
    path("t/<slug:tenant_slug>/webhooks/<int:pk>/change/", webhooks.webhook_change, name="webhook_change"),
    path("t/<slug:tenant_slug>/webhooks/<int:pk>/secret/", webhooks.webhook_secret, name="webhook_secret"),
    path("t/<slug:tenant_slug>/webhooks/<int:pk>/remove/", webhooks.webhook_remove, name="webhook_remove"),
    path(
        "t/<slug:tenant_slug>/webhooks/<int:pk>/deliveries/<int:delivery>/replay/",
        webhooks.webhook_replay,
        name="webhook_replay",
    ),
]

websocket_urlpatterns = [
    path("ws/t/<slug:tenant_slug>/", MarketConsumer.as_asgi()),
    path("ws/overview/", OverviewConsumer.as_asgi()),
]

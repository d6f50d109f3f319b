"""Addresses of the interface about jobs, money, events and programs, and those of `api_market_urls`. Each ends in a
slash."""

from django.urls import include, path

from scheduling.books.api import ledger, statements
from scheduling.catalogue.api import programs
from scheduling.feed.api import events
from scheduling.jobs.api import arrays, bulk, describing, files, jobs, pieces
from scheduling.money.api import budgets
from scheduling.operator.api import use_prices
from scheduling.quotes.api import quotes
from scheduling.runs.api import runs
from scheduling.webhooks.api import webhooks
from scheduling.what_if.api import what_ifs

urlpatterns = [
    path("tenants/<slug:tenant_slug>/jobs/", jobs.Jobs.as_view(), name="api_jobs"),
    path("tenants/<slug:tenant_slug>/jobs/cancel/", jobs.JobsCancel.as_view(), name="api_jobs_cancel"),
    path("tenants/<slug:tenant_slug>/jobs/bulk/", bulk.JobsBulk.as_view(), name="api_jobs_bulk"),
    path("tenants/<slug:tenant_slug>/jobs/arrays/", arrays.Arrays.as_view(), name="api_arrays"),
    path("tenants/<slug:tenant_slug>/jobs/arrays/<int:array_id>/", arrays.Array.as_view(), name="api_array"),
    path(
        "tenants/<slug:tenant_slug>/jobs/arrays/<int:array_id>/cancel/",
        arrays.ArrayCancel.as_view(),
        name="api_array_cancel",
    ),
    path("tenants/<slug:tenant_slug>/jobs/parse/", describing.JobsParse.as_view(), name="api_jobs_parse"),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/", jobs.Job.as_view(), name="api_job"),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/cancel/", jobs.JobCancel.as_view(), name="api_job_cancel"),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/queue/", jobs.JobQueue.as_view(), name="api_job_queue"),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/explain/", jobs.JobExplain.as_view(), name="api_job_explain"),
    path(
        "tenants/<slug:tenant_slug>/jobs/<int:job_id>/description/",
        describing.JobDescribed.as_view(),
        name="api_job_description",
    ),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/logs/", runs.JobLogs.as_view(), name="api_job_logs"),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/logs/file/", runs.JobLogFile.as_view(), name="api_job_log_file"),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/files/", files.JobFiles.as_view(), name="api_job_files"),
    path(
        "tenants/<slug:tenant_slug>/jobs/<int:job_id>/files/content/",
        files.JobFileContent.as_view(),
        name="api_job_file_content",
    ),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/progress/", runs.JobProgress.as_view(), name="api_job_progress"),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/pieces/", pieces.JobPieces.as_view(), name="api_job_pieces"),
    path("tenants/<slug:tenant_slug>/quotes/", quotes.Quotes.as_view(), name="api_quotes"),
    path("tenants/<slug:tenant_slug>/budgets/", budgets.Budgets.as_view(), name="api_budgets"),
    path("tenants/<slug:tenant_slug>/budgets/remove/", budgets.BudgetRemove.as_view(), name="api_budget_remove"),
    path("tenants/<slug:tenant_slug>/events/", events.Events.as_view(), name="api_events"),
    path("tenants/<slug:tenant_slug>/events/stream/", events.EventStream.as_view(), name="api_event_stream"),
    path("tenants/<slug:tenant_slug>/ledger/balances/", ledger.LedgerBalances.as_view(), name="api_ledger_balances"),
    path("tenants/<slug:tenant_slug>/ledger/entries/", ledger.LedgerEntries.as_view(), name="api_ledger_entries"),
    path("tenants/<slug:tenant_slug>/statements/", statements.Statements.as_view(), name="api_statements"),
    path("tenants/<slug:tenant_slug>/statements/period/", statements.StatementOf.as_view(), name="api_statement"),
    path(
        "tenants/<slug:tenant_slug>/statements/period/lines/",
        statements.StatementLines.as_view(),
        name="api_statement_lines",
    ),
    path("tenants/<slug:tenant_slug>/what-ifs/", what_ifs.WhatIfs.as_view(), name="api_what_ifs"),
    path("tenants/<slug:tenant_slug>/what-ifs/fields/", what_ifs.WhatIfFields.as_view(), name="api_what_if_fields"),
    path("tenants/<slug:tenant_slug>/what-ifs/<int:what_if_id>/", what_ifs.WhatIf.as_view(), name="api_what_if"),
    path(
        "tenants/<slug:tenant_slug>/what-ifs/<int:what_if_id>/cancel/",
        what_ifs.WhatIfCancel.as_view(),
        name="api_what_if_cancel",
    ),
    path("tenants/<slug:tenant_slug>/programs/", programs.Programs.as_view(), name="api_programs"),
    path("tenants/<slug:tenant_slug>/programs/uploads/", programs.ProgramUploads.as_view(), name="api_program_uploads"),
    path(
        "tenants/<slug:tenant_slug>/programs/uploads/archive/",
        programs.ProgramUpload.as_view(),
        name="api_program_upload",
    ),
    path(
        "tenants/<slug:tenant_slug>/programs/<slug:name>/versions/",
        programs.ProgramVersions.as_view(),
        name="api_program_versions",
    ),
    path(
        "tenants/<slug:tenant_slug>/programs/<slug:name>/retire/",
        programs.ProgramRetire.as_view(),
        name="api_program_retire",
    ),
    path(
        "tenants/<slug:tenant_slug>/programs/of/<slug:owner_slug>/<slug:name>/",
        programs.OneProgram.as_view(),
        name="api_program",
    ),
    path(
        "tenants/<slug:tenant_slug>/programs/of/<slug:owner_slug>/<slug:name>/versions/<int:version>/archive/",
        programs.ProgramArchiveFile.as_view(),
        name="api_program_archive",
    ),
    path("tenants/<slug:tenant_slug>/webhooks/", webhooks.Webhooks.as_view(), name="api_webhooks"),
    path("tenants/<slug:tenant_slug>/webhooks/<int:webhook_id>/", webhooks.OneWebhook.as_view(), name="api_webhook"),
    path(
        "tenants/<slug:tenant_slug>/webhooks/<int:webhook_id>/change/",
        webhooks.WebhookChanged.as_view(),
        name="api_webhook_change",
    ),
    path(
        "tenants/<slug:tenant_slug>/webhooks/<int:webhook_id>/secret/",
        webhooks.WebhookSecret.as_view(),
        name="api_webhook_secret",
    ),
    path(
        "tenants/<slug:tenant_slug>/webhooks/<int:webhook_id>/remove/",
        webhooks.WebhookRemove.as_view(),
        name="api_webhook_remove",
    ),
    path(
        "tenants/<slug:tenant_slug>/webhooks/<int:webhook_id>/deliveries/",
        webhooks.Deliveries.as_view(),
        name="api_webhook_deliveries",
    ),
    path(
        "tenants/<slug:tenant_slug>/webhooks/<int:webhook_id>/deliveries/<int:delivery_id>/replay/",
        webhooks.DeliveryReplay.as_view(),
        name="api_webhook_replay",
    ),
    path("pools/<slug:pool_slug>/use-prices/", use_prices.PoolUsePrices.as_view(), name="api_use_prices"),
    path("", include("scheduling.app.api_market_urls")),
]

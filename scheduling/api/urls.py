"""Addresses of the interface that are about jobs, the market and the cluster. Every one ends in a slash."""

from django.urls import path

from scheduling.api import jobs, quotes

urlpatterns = [
    path("tenants/<slug:tenant_slug>/jobs/", jobs.Jobs.as_view(), name="api_jobs"),
    path("tenants/<slug:tenant_slug>/jobs/cancel/", jobs.JobsCancel.as_view(), name="api_jobs_cancel"),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/", jobs.Job.as_view(), name="api_job"),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/cancel/", jobs.JobCancel.as_view(), name="api_job_cancel"),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/queue/", jobs.JobQueue.as_view(), name="api_job_queue"),
    path("tenants/<slug:tenant_slug>/jobs/<int:job_id>/explain/", jobs.JobExplain.as_view(), name="api_job_explain"),
    path("tenants/<slug:tenant_slug>/quotes/", quotes.Quotes.as_view(), name="api_quotes"),
]

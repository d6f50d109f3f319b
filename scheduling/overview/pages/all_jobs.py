"""The page of all tenants' jobs, for operators and auditors: newest first, by state, lane, name, days,
tenant and pool."""

from __future__ import annotations

from dataclasses import replace

from django import forms
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_safe

from scheduling.cluster import pool_list
from scheduling.jobs import jobs_rows, row_view, with_awards
from scheduling.jobs.pages.jobs_form import JobsForm
from tenants.access import AccessRequest
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.scoping import scope_disabled
from tenants.views.gate import requires
from tenants.views.tables import Column, Table, table_of

# With any filter the order is that of the jobs' numbers, so that a page is read from the end of their index.
ALL_JOBS = Table(
    (
        Column("state", "State"),
        Column("name", "Job, and why it runs, waits or ended"),
        Column("tenant", "Tenant"),
        Column("pool", "Pool"),
        Column("lane", "Lane"),
        Column("submitted", "Submitted"),
        Column("price", "Pays", numeric=True),
    ),
    sort="-id",
    rows=40,
)


class AllJobsForm(JobsForm):
    tenant = forms.ChoiceField(required=False, widget=forms.Select(attrs={"class": "input"}))

    def __init__(self, data: QueryDict) -> None:
        super().__init__(data, pool_list())
        field = self.fields["tenant"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101  the class defines it
        field.choices = [("", "All"), *Tenant.objects.values_list("slug", "name")]


@require_safe
@requires(Permission.TENANTS_VIEW)
def all_jobs(request: AccessRequest) -> HttpResponse:
    form = AllJobsForm(request.GET)
    question = form.question()
    with scope_disabled("the staff sees the jobs of every tenant"):
        rows = with_awards(jobs_rows(question, None))
        if tenant := form.cleaned_data.get("tenant"):
            rows = rows.filter(tenant__slug=tenant)
        table = replace(table_of(request, rows, ALL_JOBS), export="")
        row_views = [(row, row_view(row)) for row in table.rows]
    is_open = question.is_open and not tenant
    return render(request, "overview/jobs.html", {"form": form, "table": table, "rows": row_views, "is_open": is_open})

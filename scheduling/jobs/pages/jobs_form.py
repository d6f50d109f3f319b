"""The form that filters the list of jobs, and the columns of its table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.http import QueryDict

from scheduling.jobs.read_list import ALIVE, OVER, JobsQuestion, row_view
from scheduling.models import JobState, Lane, Pool, TrainingJob
from tenants.form_fields import WholeField
from tenants.ledger.amounts import exported
from tenants.views.tables import Column, Table

STATES = [("", "Any"), (ALIVE, "Alive"), (OVER, "Over"), *((state.value, state.label) for state in JobState)]


def _day(label: str) -> forms.DateField:
    widget = forms.DateInput(attrs={"type": "date", "class": "input"})
    between = [MinValueValidator(date(1970, 1, 1)), MaxValueValidator(date(2200, 1, 1))]
    return forms.DateField(label=label, required=False, widget=widget, validators=between)


class JobsForm(forms.Form):
    state = forms.ChoiceField(choices=STATES, required=False, widget=forms.Select(attrs={"class": "input"}))
    lane = forms.ChoiceField(
        choices=[("", "Both"), *Lane.choices], required=False, widget=forms.Select(attrs={"class": "input"})
    )
    pool = forms.ChoiceField(required=False, widget=forms.Select(attrs={"class": "input"}))
    name = forms.CharField(
        label="Name begins with",
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs={"class": "input", "type": "search", "autocomplete": "off"}),
    )
    since = _day("Submitted from")
    until = _day("until")
    array = WholeField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
    mine = forms.BooleanField(label="Only my own", required=False)

    def __init__(self, data: QueryDict, pools: Iterable[Pool]) -> None:
        super().__init__(data)
        self.fields["pool"].choices = [("", "All"), *((pool.slug, pool.name) for pool in pools)]  # type: ignore[attr-defined]

    def question(self) -> JobsQuestion:
        """Return the filter. A value that is not understood does not filter; its field says so."""
        self.is_valid()
        answers = self.cleaned_data
        return JobsQuestion(
            state=answers.get("state", ""),
            lane=answers.get("lane", ""),
            pool=answers.get("pool", ""),
            name=answers.get("name", ""),
            array=answers.get("array"),
            mine=bool(answers.get("mine")),
            since=answers.get("since"),
            until=answers.get("until"),
        )


def _credits(row: TrainingJob) -> Any:
    price = row_view(row).price
    return "" if price is None else exported(price)


# On the page a column is a cell of its own kind, in templates/jobs/jobs_list.html for a job and in array_row.html for
# an array; the export has one value for each. What a column says of a job is a field of `JobView`, or of its row.
COLUMNS = (
    Column("state", "State"),
    Column("name", "Job, and why it runs, waits or ended", order="name"),
    Column("pool", "Pool"),
    Column("lane", "Lane"),
    Column("submitted", "Submitted", order="submitted_at", value=lambda row: row.submitted_at),
    Column("price", "Pays", numeric=True),
)
EXPORTED = (
    Column("id", "Job"),
    Column("name", "Name", order="name"),
    Column("lane", "Lane"),
    Column("state", "State"),
    Column("submitted", "Submitted", order="submitted_at", value=lambda row: row.submitted_at),
    Column("starts", "Starts", value=lambda row: row_view(row).starts_at),
    Column("ends", "Ends", value=lambda row: row_view(row).ends_at),
    Column("workers", "Workers", value=lambda row: row_view(row).workers),
    Column("price", "Price in credits", value=_credits),
    Column("payer", "Payer", value=lambda row: row.tenant.name),
    Column("code", "Reason code", value=lambda row: row_view(row).reason.code),
    Column("reason", "Reason", value=lambda row: row_view(row).reason.sentence),
    Column("pool", "Pool", value=lambda row: row.pool.name),
)
JOBS = Table(COLUMNS, sort="-submitted", rows=50, file="jobs")
JOBS_OF_ONE_POOL = replace(JOBS, columns=tuple(column for column in COLUMNS if column.name != "pool"))
JOBS_EXPORT = Table(EXPORTED, sort="-submitted", file="jobs")


def costs_shown(text: str | None) -> int | None:
    """Return what a page said that a cancellation costs, in micro-credits, as its form gives it back; None for a page
    that is older than this field. What cannot be read counts as nothing."""
    if text is None:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0

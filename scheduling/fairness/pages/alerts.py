"""The page of the limits of fairness: where each figure is, and an operator's form to set the limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from django import forms
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from scheduling.fairness.alerts import DAYS, MEASURES, AlertMeasure, alerts_set
from scheduling.fairness.read_alerts import alerts_of
from scheduling.fairness.read_days import fairness_overview, period_of_days
from scheduling.models import FairnessAlert, Pool
from scheduling.operator import entries_of
from scheduling.operator.pages.changes import ChangeForm, PageChange, WholeChangeForm, answer
from tenants.access import AccessRequest
from tenants.common.zones import day_of
from tenants.form_fields import NumberField
from tenants.roles import Permission
from tenants.views.gate import requires


@dataclass(frozen=True)
class LimitStanding:
    """A figure as it is now, against its limit."""

    name: str
    measure: AlertMeasure
    value: float | None
    row: FairnessAlert | None

    @property
    def is_passed(self) -> bool:
        return self.row is not None and self.measure.is_beyond(self.value, self.row.threshold)


class AlertsForm(WholeChangeForm):
    """A form with a field for each figure. An empty field means no alert."""

    changed_meanwhile = "The limits were changed while you looked at them. Look again, and send it again."

    def __init__(self, standings: list[LimitStanding], *args: Any, **kwargs: Any) -> None:
        self.standings = standings
        version = " ".join(f"{each.name}={each.row.threshold:g}" for each in standings if each.row)
        super().__init__(version, *args, **kwargs)
        for each in standings:
            word = "More than" if each.measure.is_most else "Less than"
            self.fields[each.name] = NumberField(
                required=False,
                min_value=0,
                label=each.measure.title,
                initial=each.row.threshold if each.row else None,
                help_text=f"{word} there is one notice. Empty: never. A usual limit: {each.measure.usual:g}.",
            )
        self.order_fields([*self.names, "reason"])

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.standings]

    def limits(self) -> Iterator[forms.BoundField]:
        return (self[name] for name in self.names)

    def thresholds(self) -> dict[str, float | None]:
        return {name: self.cleaned_data.get(name) for name in self.names}

    def moves(self) -> list[PageChange]:
        if not self.is_bound:
            return []
        before = {each.name: each.row.threshold if each.row else None for each in self.standings}
        after = self.thresholds()
        return [
            PageChange(MEASURES[name].title, _limit(before[name]), _limit(after[name]))
            for name in self.names
            if before[name] != after[name] and name not in self.errors
        ]


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.FAIRNESS_VIEW)
def alerts(request: AccessRequest, pool_slug: str) -> HttpResponseBase:
    pool = get_object_or_404(Pool, slug=pool_slug)
    if request.method == "POST":
        return _set(request, pool)
    return _page(request, pool, AlertsForm(_standings(pool)))


@requires(Permission.POLICIES_CHANGE)
def _set(request: AccessRequest, pool: Pool) -> HttpResponse:
    form = AlertsForm(_standings(pool), request.POST)
    return answer(
        request,
        form,
        name="alerts",
        apply=lambda change_form: alerts_set(
            pool=pool,
            thresholds=form.thresholds(),
            by=request.access,
            reason=change_form.cleaned_data["reason"],
            at=timezone.now(),
        ),
        done="The limits are set. Each is told about once when it is passed.",
        back=reverse("fairness_alerts", args=[pool.slug]),
        page=lambda change_form: _page(request, pool, change_form),
    )


def _page(request: AccessRequest, pool: Pool, form: ChangeForm) -> HttpResponse:
    context = {"pool": pool, "form": form, "days": DAYS, "entries": entries_of(["fairness_alerts_set"])}
    return render(request, "fairness/alerts.html", context)


def _standings(pool: Pool) -> list[LimitStanding]:
    """Return the figures that the pool has, and those with a limit from before, which can be taken away."""
    first, last = period_of_days(DAYS, today=day_of(timezone.now(), UTC))
    overview = fairness_overview(pool, first=first, last=last)
    rows = {row.measure: row for row in alerts_of(pool)}
    return [
        LimitStanding(name, measure, measure.value(overview), rows.get(name))
        for name, measure in MEASURES.items()
        if measure.by_use or name in rows or not pool.is_elastic
    ]


def _limit(value: float | None) -> str:
    return "no limit" if value is None else f"{value:g}"

"""The page "charged against ran": what each job was charged for on each server, and for how long it ran there."""

from __future__ import annotations

from dataclasses import astuple

from django import forms
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.models import Pool
from scheduling.operator.read_engines import ran_of_all
from scheduling.operator.read_operator import pool_states
from scheduling.runs import CLOSE_SECONDS, HEADS, accounted_of
from tenants.access import AccessRequest
from tenants.common.csv_files import csv_pieces
from tenants.common.downloads import csv_download
from tenants.form_fields import WholeField
from tenants.roles import Permission
from tenants.views.gate import requires
from tenants.views.tables import asks_csv

SLOTS, SLOTS_OF_CSV = 20, 1_000  # slots that are shown at once


class FirstSlotForm(forms.Form):
    from_slot = WholeField(required=False, min_value=0, max_value=2**53, label="From slot")


@require_safe
@requires(Permission.HISTORY_VIEW)
def operator_ran(request: AccessRequest, slug: str) -> HttpResponseBase:
    """Show the last settled slots, or those from `?from_slot=` on; with `?only=differences` only rows that differ."""
    pool = get_object_or_404(Pool, slug=slug)
    (state,) = pool_states(timezone.now(), [pool])
    form = FirstSlotForm(request.GET)
    wish = form.cleaned_data["from_slot"] if form.is_valid() else None
    many = SLOTS_OF_CSV if asks_csv(request) else SLOTS
    first = max(0, state.settled - many + 1) if wish is None else wish
    last = min(state.settled, first + many - 1)
    parts = accounted_of(pool, first, last) if last >= first else "No slot is settled yet."
    rows = ran_of_all(pool, first, last, parts)
    if request.GET.get("only") == "differences":
        rows = [row for row in rows if row.difference]
    if asks_csv(request):
        return csv_download(request, f"ran-{pool.slug}", csv_pieces(HEADS, (astuple(row) for row in rows)))
    context = {
        "pool": pool, "form": form, "first": first, "last": last, "rows": rows, "only": request.GET.get("only", ""),
        "unknown": parts if isinstance(parts, str) else "", "close_seconds": CLOSE_SECONDS,
    }  # fmt: skip
    return render(request, "operator/ran.html", context)

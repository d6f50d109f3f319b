"""The parts of the frame that change while a page is open: the tape, the purse, the count of jobs, and toasts."""

from __future__ import annotations

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from scheduling.notices import NO_TOASTS, toasts_after
from tenants.access import AccessRequest
from tenants.roles import Permission
from tenants.views.gate import requires
from tenants.views.parts import part_or_page

PARTS = {
    "tape": "shell/tape.html",
    "purse": "shell/purse.html",
    "jobs": "shell/own_jobs.html",
    "toasts": "shell/toasts.html",
}


@require_safe
@requires(Permission.TENANT_VIEW)
def tenant_frame(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Return one part of the frame. `?part=toasts&after=CURSOR` returns the toasts since that cursor, and the next
    cursor; the other parts are as they are now."""
    toasts = NO_TOASTS
    if request.GET.get("part") == "toasts":
        toasts = toasts_after(by=request.access, after=_number(request.GET.get("after")))
    return part_or_page(request, "shell/tape.html", PARTS, {"news": toasts})


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None

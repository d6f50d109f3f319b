"""Pages with parts that are refreshed: one address answers with the page, or with one of its parts alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render


def part_or_page(request: HttpRequest, page: str, parts: Mapping[str, str], context: Mapping[str, Any]) -> HttpResponse:
    """Answer `?part=NAME` with that part's template, and anything else with the whole page's."""
    name = request.GET.get("part")
    if name is None:
        return render(request, page, dict(context))
    if name not in parts:
        raise Http404(f"this page has no part {name!r}")
    answer = render(request, parts[name], dict(context))
    answer["Cache-Control"] = "no-store"  # the answer is different a moment later
    return answer

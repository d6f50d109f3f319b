"""Refuse forms that cannot be read, before other code tries to read them."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.template import loader

from marketplace.web.unavailable import FOR_PROGRAMS

FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")


def readable_forms(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Answer 400 to an unreadable form, and to one with a NUL, which no browser sends and the database cannot store. An
    error page would look for the form's CSRF token, and would fail too."""

    def handle(request: HttpRequest) -> HttpResponseBase:
        # The interface reads its bodies itself.
        is_form = request.content_type in FORMS and not request.path_info.startswith(FOR_PROGRAMS)
        try:
            can_be_read = not is_form or not _has_nul(request.POST)
        except (BadRequest, SuspiciousOperation, MultiPartParserError):
            can_be_read = False
        if can_be_read:
            return get_response(request)
        return HttpResponse(loader.render_to_string("400.html"), status=400)

    return handle


def _has_nul(form: QueryDict) -> bool:
    return any("\0" in text for name, values in form.lists() for text in (name, *values))

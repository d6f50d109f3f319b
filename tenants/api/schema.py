"""The published schema (OpenAPI 3.1), and the answer to addresses that are none."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import View
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerFieldExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer

from tenants.api.answers import fresh_or_unchanged
from tenants.api.fields import READ_CREDITS, SHOWN_CREDITS
from tenants.api.problems import NOT_FOUND, Problem, problem_response
from tenants.ledger.amounts import exported, micro

PREFIX = "/api/v1/"


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "tenants.api.authentication.BearerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        help_text = (
            "A token made on the Tokens page or by `tokens_create`. Each operation names the scope that it needs."
        )
        return {"type": "http", "scheme": "bearer", "bearerFormat": "bourse_...", "description": help_text}


class PersonScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "tenants.api.authentication.PersonAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        help_text = (
            "The session of a person who has logged in on the pages. Changes need the header X-CSRFToken as well."
        )
        return {"type": "apiKey", "in": "cookie", "name": "bourse_session", "description": help_text}


class CreditsSchema(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """An amount is shown with all digits that the book counts; in a body it may have fewer."""

    target_class = "tenants.api.fields.Credits"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        pattern = READ_CREDITS if direction == "request" else SHOWN_CREDITS
        return {"type": "string", "pattern": pattern, "examples": [exported(micro(12.5))], "description": "Credits."}


class CoreCreditsSchema(CreditsSchema):  # type: ignore[no-untyped-call]
    target_class = "tenants.api.fields.CoreCredits"


def only_the_interface(endpoints: list[tuple[str, str, str, Any]]) -> list[tuple[str, str, str, Any]]:
    """Return the interface's endpoints. Pages have no place in the schema, nor have the schema itself and its pages."""
    return [
        endpoint
        for endpoint in endpoints
        if endpoint[0].startswith(PREFIX) and hasattr(getattr(endpoint[3].cls, endpoint[2].lower(), None), "operation")
    ]


@cache
def document() -> dict[str, Any]:
    """Return the schema as plain values. It depends on the code alone, so one process makes it once."""
    return SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]


def as_yaml() -> bytes:
    return OpenApiYamlRenderer().render(document())  # type: ignore[no-untyped-call]


@cache
def _as_json() -> bytes:
    return OpenApiJsonRenderer().render(document())


OPEN = method_decorator([login_not_required, csrf_exempt], name="dispatch")


@OPEN
class SchemaView(View):
    """YAML, or JSON to who prefers it. Open to everybody: it says what there is, and shows nobody's data."""

    http_method_names = ["get", "head"]

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        allowed = {"Allow": "GET, HEAD"}
        return problem_response(Problem(405, "method_not_allowed", "This address takes GET, HEAD.", headers=allowed))

    def get(self, request: HttpRequest) -> HttpResponseBase:
        media = request.get_preferred_type(["application/vnd.oai.openapi", "application/json", "application/yaml"])
        as_json = request.GET.get("format", "json" if media == "application/json" else "yaml") == "json"
        content, kind = (_as_json(), "application/json") if as_json else (as_yaml(), "application/vnd.oai.openapi")
        response = HttpResponse(content, content_type=kind)
        response.headers["Cache-Control"] = "no-cache"
        response.headers["Vary"] = "Accept"
        return fresh_or_unchanged(request, response)


@OPEN
class NoSuchAddress(View):
    """Every other address below /api/: a program gets a problem, not a page."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.path.endswith("/"):
            try:
                match = resolve(f"{request.path}/")
            except Resolver404:
                return problem_response(NOT_FOUND)
            if match.url_name != "api_no_such_address":
                return problem_response(Problem(404, "not_found", f"Addresses end in a slash: {request.path}/"))
        return problem_response(NOT_FOUND)

"""What every view of the interface is built on. Choose by whose the address is:

`TenantView`     /api/v1/tenants/<slug>/...  the tenant's scope is open for the whole call, a stream included
`CoalitionView`  what every member of any tenant may see, such as pools
`StaffView`      the staff's own lists
`PersonView`     anybody who is logged in

Each call passes, in this order: who calls, how often, whether the place is open to the caller, the permission of the
operation. Then a POST with an `Idempotency-Key` looks for its kept answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.http.request import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.exceptions import NotAcceptable
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from tenants.access import NOBODY, Access, Refused
from tenants.api.answers import csv_response, fresh_or_unchanged, json_response
from tenants.api.authentication import CHALLENGE, limits_of
from tenants.api.csv_text import csv_lines, csv_of_values
from tenants.api.limits import Allowance, allowance
from tenants.api.listing import Listing, page_document, parameters_read, values_document
from tenants.api.once import once
from tenants.api.operations import EVENT_STREAM, Operation
from tenants.api.problems import Problem, ProblemRaised, problem_of, problem_of_exception, problem_response
from tenants.common.costly import UNDER_WAY, WAIT_SECONDS, costly_place
from tenants.common.downloads import file_download
from tenants.models import ApiToken, Tenant, User
from tenants.roles import STAFF_ROLES, Permission, allows, scope_of
from tenants.scoping import pieces_in_scope, scope
from tenants.selectors import access_anywhere, access_of, access_of_token, tenant_by_slug
from tenants.sessions import login_of

METHODS = ("get", "head", "post", "put", "patch", "delete")
BODIES = ("POST", "PUT", "PATCH")
TOO_MANY_AT_ONCE = Problem(429, "too_many_at_once", UNDER_WAY, headers={"Retry-After": str(WAIT_SECONDS)})
LOG_IN = Problem(
    401,
    "not_authenticated",
    "Log in, or send a token: Authorization: Bearer bourse_...",
    headers={"WWW-Authenticate": CHALLENGE},
)


class ApiView(APIView):
    """Gather, gate, answer. Below it only `_admit` differs."""

    metadata_class = None  # the schema says it better than OPTIONS
    access: Access = NOBODY
    operation: Operation | None = None
    parameters: Mapping[str, Any]
    form = "json"

    # --- the course of one call ---

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self.args, self.kwargs = args, kwargs
        self.allowance: Allowance | None = None
        self.opened = ExitStack()
        with self.opened:
            try:
                self.request = self.initialize_request(_with_length(request), *args, **kwargs)
                self._gate()
                response = self._answer()
            except Exception as error:
                response = problem_response(problem_of_exception(error, request))
            return self._finished(response)

    def _gate(self) -> None:
        request = self.request
        user, auth = request.user, request.auth
        if not isinstance(user, User):
            raise ProblemRaised(LOG_IN)
        now = timezone.now()
        self.allowance = allowance(limits_of(auth, user), at=now.timestamp())
        if self.allowance is not None and self.allowance.remaining < 0:
            headers = {"Retry-After": str(self.allowance.reset_seconds)}
            raise ProblemRaised(
                Problem(429, "too_many_calls", "Too many calls in this minute. Wait a little.", headers=headers)
            )
        token = auth if isinstance(auth, ApiToken) else None
        self.access = self._admit(user, token)
        if token is None:
            self.access = replace(self.access, login=login_of(request.session))
        handler = self._handler()
        self.operation = handler.operation  # type: ignore[attr-defined]
        for permission in self.operation.permissions:
            self._require(permission)
        self.parameters = parameters_read(request, self.operation.filters, self.operation.parameters)
        self.form = self._form()

    def _admit(self, user: User, token: ApiToken | None) -> Access:
        """Return the caller's access to this place. Raise 404 for a caller to whom the place is closed."""
        raise NotImplementedError

    def _handler(self) -> Callable[..., HttpResponseBase]:
        name = (self.request.method or "").lower()
        handler = getattr(self, name, None) if name in self.http_method_names and name != "options" else None
        if handler is None:
            allowed = ", ".join(method.upper() for method in METHODS if hasattr(self, method))
            sentence = f"This address takes {allowed}."
            raise ProblemRaised(Problem(405, "method_not_allowed", sentence, headers={"Allow": allowed}))
        return handler

    def _require(self, permission: Permission) -> None:
        if not allows(self.access.roles, permission):
            raise ProblemRaised(Problem(403, "not_allowed", "Your role does not allow this."))
        if not self.access.has_scope(permission):
            needed = scope_of(permission)
            sentence = f"The token lacks the scope {needed}."
            raise ProblemRaised(Problem(403, "scope_missing", sentence, numbers={"scope": needed}))

    def _form(self) -> str:
        """Return json, csv, stream or file, as `?format=` says or else `Accept` prefers. Errors are problem+json."""
        assert self.operation is not None  # noqa: S101  the gate has set it
        forms = {"application/json": "json"} | ({"text/csv": "csv"} if self.operation.listing else {})
        if self.operation.stream:
            forms = {EVENT_STREAM: "stream"}
        if self.operation.file:
            forms = {self.operation.file: "file"}
        if (wanted_format := self.parameters.get("format")) is not None:
            if wanted_format not in forms.values():
                raise NotAcceptable
            return str(wanted_format)
        preferred = self.request._request.get_preferred_type(list(forms))
        if preferred is None:
            raise NotAcceptable
        return forms[preferred]

    def _answer(self) -> HttpResponseBase:
        assert self.operation is not None  # noqa: S101  the gate has set it
        if not self.operation.costly:
            return self._handled()
        with costly_place(self.access.party, at=timezone.now().timestamp()) as is_free:
            if not is_free:
                raise ProblemRaised(TOO_MANY_AT_ONCE)
            return self._handled()

    def _handled(self) -> HttpResponseBase:
        handler = self._handler()
        if self.request.method in BODIES:
            _ = self.request.data  # also where no body is taken, so that a wrong one is refused and not overlooked
        if self.request.method == "POST" and (key := self.request.headers.get("Idempotency-Key")) is not None:
            assert self.operation is not None  # noqa: S101  the gate has set it
            answer = partial(handler, self.request, **self.kwargs)
            return once(self.request, key, self.operation, answer, whole=self.is_whole())
        return handler(self.request, **self.kwargs)

    def is_whole(self) -> bool:
        """Whether this POST is one transaction. A view may say so by what is asked for."""
        return self.operation is None or self.operation.whole

    def _finished(self, response: HttpResponseBase) -> HttpResponseBase:
        response.headers.setdefault("Cache-Control", "private, no-cache")
        response.headers["Vary"] = "Accept, Authorization, Cookie"
        for name, value in (self.allowance.headers if self.allowance else {}).items():
            response.headers[name] = value
        return fresh_or_unchanged(self.request, response)

    # --- what the views below use ---

    def read(self, form: type[BaseSerializer[Any]]) -> dict[str, Any]:
        """The body in this form; 400 with every flaw that it has."""
        serializer = form(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def shown(
        self, answer: type[BaseSerializer[Any]], value: Any, status: int = 200, context: Mapping[str, Any] | None = None
    ) -> HttpResponse:
        return json_response(answer(value, context=dict(context or {})).data, status)

    def refused(self, refused: Refused, numbers: Mapping[str, Any] | None = None) -> HttpResponse:
        return problem_response(problem_of(refused, numbers))

    def file(self, name: str, kind: str, pieces: Iterator[bytes]) -> HttpResponseBase:
        """A file that is sent while it is made or read, each piece in the tenant's scope. `kind` is its media type."""
        tenant = self.access.tenant
        content = pieces if tenant is None else pieces_in_scope(pieces, tenant)
        return file_download(self.request._request, name, kind, content)

    def listed(
        self,
        rows: QuerySet[Any],
        show: Callable[[Sequence[Any]], Sequence[Any]] = lambda rows: rows,
        defaults: Mapping[str, str] | None = None,
    ) -> HttpResponseBase:
        """A page, or the whole of it as CSV. `show` turns rows into what the listing's line reads.

        `defaults`: parameters that were left out, as they were understood: the other pages are of the same list.
        """
        assert self.operation is not None and self.operation.listing is not None  # noqa: S101, PT018
        listing: Listing = self.operation.listing
        if self.form == "csv":
            lines = csv_lines(rows, listing, self.parameters, show)
            return csv_response(self.request, lines, name=self.operation.name, tenant=self.access.tenant)
        return json_response(page_document(self.request, rows, listing, self.parameters, show, defaults or {}))

    def listed_values(self, values: Sequence[Any], defaults: Mapping[str, str] | None = None) -> HttpResponseBase:
        """A list that is computed whole and in its order, such as prices of some slots: pages by place in it. For
        `defaults` see `listed`."""
        assert self.operation is not None and self.operation.listing is not None  # noqa: S101, PT018
        listing: Listing = self.operation.listing
        if self.form == "csv":
            lines = csv_of_values(values, listing)
            return csv_response(self.request, lines, name=self.operation.name, tenant=self.access.tenant)
        return json_response(values_document(self.request, values, listing, self.parameters, defaults or {}))


class PersonView(ApiView):
    def _admit(self, user: User, token: ApiToken | None) -> Access:
        return access_of_token(token, None) if token else access_of(user, None)


class TenantView(ApiView):
    """Under tenants/<slug>/. A stranger gets the 404 of a tenant that does not exist."""

    def _admit(self, user: User, token: ApiToken | None) -> Access:
        slug = self.kwargs["tenant_slug"]
        own = token.tenant if token and token.tenant and token.tenant.slug == slug else None
        tenant = own or tenant_by_slug(slug)
        if tenant is None:
            raise Http404
        access = access_of_token(token, tenant) if token else access_of(user, tenant)
        if not allows(access.roles, Permission.TENANT_VIEW):
            raise Http404
        self.opened.enter_context(scope(tenant))
        return access

    @property
    def tenant(self) -> Tenant:
        if self.access.tenant is None:
            raise RuntimeError("this view belongs under tenants/<slug>/")
        return self.access.tenant


class CoalitionView(ApiView):
    """For members of any tenant, and the staff. Others get 404."""

    def _admit(self, user: User, token: ApiToken | None) -> Access:
        access = access_of_token(token, None) if token else access_anywhere(user)
        if not access.roles:
            raise Http404
        return access


class StaffView(ApiView):
    """The roles over all, and no others, count here."""

    def _admit(self, user: User, token: ApiToken | None) -> Access:
        access = access_of_token(token, None) if token else access_of(user, None)
        if access.roles.isdisjoint(STAFF_ROLES):
            raise ProblemRaised(Problem(403, "not_allowed", "Your role does not allow this."))
        return access


def _with_length(request: HttpRequest) -> HttpRequest:
    """Set the length of a body in chunks. It has none, and the framework would take it for no body."""
    if "CONTENT_LENGTH" not in request.META and request.headers.get("Transfer-Encoding"):
        request.META["CONTENT_LENGTH"] = str(len(request.body))
    return request

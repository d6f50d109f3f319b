"""What an operation is: its name, the permission it needs, what it takes, answers and refuses. One decorator says it;
the gate and the published schema read it there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from tenants.api.bodies import MOST_VALUES
from tenants.api.fields import Answer, Numbers
from tenants.api.listing import LIMIT, OF_EVERY_LIST, Filter, Listing
from tenants.api.problems import MEDIA_TYPE, status_of
from tenants.common.failures import BROKER, BY_STATE
from tenants.ledger.amounts import amount_read, exported
from tenants.roles import Permission, scope_of

Handler = TypeVar("Handler", bound=Callable[..., Any])
Serializer = type[serializers.BaseSerializer[Any]]

EVENT_STREAM = "text/event-stream"
AMOUNT_WRITTEN = re.compile(r"-?[0-9]+\.[0-9]{6}")  # an amount in an example
KEY_PATTERN = r"^[\x20-\x7e]{1,200}$"


class FieldProblem(Answer):
    field = serializers.CharField(help_text='Where: "spec.chunks"; empty for the body as a whole.')
    code = serializers.CharField()
    detail = serializers.CharField()


class ProblemDocument(Answer):
    """An error, as RFC 9457 has it."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="For programs; it never changes its meaning.")
    detail = serializers.CharField(help_text="One plain sentence for people.")
    numbers = Numbers(help_text="The figures behind the refusal, where there are any.")
    errors = FieldProblem(many=True)  # type: ignore[assignment]  # the framework takes declared fields off the class


@dataclass(frozen=True)
class Operation:
    name: str
    permission: Permission | None  # None for everybody who is logged in
    listing: Listing | None
    filters: Sequence[Filter]
    secret_fields: Sequence[str]  # fields of the answer that are shown once, and never kept for a retry
    whole: bool  # a POST does one thing, in one transaction with its kept answer
    stream: bool = False  # answers with server-sent events, without end
    file: str = ""  # the media type, where it answers with a file
    costly: bool = False  # computes for long; a tenant has a few of these under way at once
    most_values: int = MOST_VALUES  # the most values in its body
    also: Sequence[Permission] = ()  # permissions that it needs besides

    @property
    def permissions(self) -> tuple[Permission, ...]:
        return () if self.permission is None else (self.permission, *self.also)

    @property
    def scopes(self) -> tuple[str, ...]:
        """Those that a token needs."""
        return tuple(scope_of(permission) for permission in self.permissions)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Those that the address may have beside the filters."""
        if self.listing is None:
            return ("format",)
        return (*OF_EVERY_LIST, "ordering") if self.listing.orderings else OF_EVERY_LIST


def operation(
    name: str,
    *,
    summary: str,
    description: str,
    permission: Permission | None,
    also: Sequence[Permission] = (),
    answer: Serializer | None = None,
    status: int = 200,
    body: Serializer | None = None,
    listing: Listing | None = None,
    filters: Sequence[Filter] = (),
    request_example: Mapping[str, Any] | None = None,
    answer_example: Any = None,
    refusals: Sequence[str] = (),
    secret_fields: Sequence[str] = (),
    whole: bool = True,
    stream: bool = False,
    file: str = "",
    costly: bool = False,
    most_values: int = MOST_VALUES,
    tag: str,
) -> Callable[[Handler], Handler]:
    """Return a decorator for the `get`, `post` or `delete` of a view. `refusals` are the codes of services with which
    it may answer.

    A list names its `listing`, whose `row` is the answer's line; `answer_example` is then one line. `whole=False` is
    for a POST with several transactions of its own; it must do no harm when it is done twice.
    """
    parameters = (*listing.filters, LIMIT) if listing else filters
    described = Operation(
        name, permission, listing, parameters, secret_fields, whole, stream, file, costly, most_values, also
    )
    scopes = " and ".join(f"`{scope}`" for scope in described.scopes)
    needs = f"\n\nA token needs the scope{'s' * (len(described.scopes) > 1)} {scopes}." if scopes else ""

    def decorate(handler: Handler) -> Handler:
        is_post, changes = handler.__name__ == "post", handler.__name__ in ("post", "put", "patch", "delete")
        handler.operation = described  # type: ignore[attr-defined]
        return extend_schema(
            operation_id=name,
            summary=summary,
            description=description + needs,
            tags=[tag],
            parameters=_parameters(described, is_post),
            request=body,
            responses=_responses(described, status, answer, refusals, changes),
            examples=_examples(described, status, request_example, answer_example),
        )(handler)

    return decorate


def _parameters(entry: Operation, is_post: bool) -> list[OpenApiParameter]:
    parameters = [_parameter(each) for each in entry.filters]
    if entry.listing:
        parameters += [
            OpenApiParameter("cursor", str, description="Where the page begins: taken from `next` or `previous`."),
            OpenApiParameter("format", {"type": "string", "enum": ["json", "csv"]}, description="As `Accept` says."),
        ]
    if entry.listing and (orderings := list(entry.listing.orderings)):
        orders = {"type": "string", "enum": orderings, "default": orderings[0]}
        parameters.append(OpenApiParameter("ordering", orders, description="The order; with a minus, falling."))
    if is_post:
        help_text = (
            "Any text of your own: the same key, address and body give the same answer, and the thing is done once."
        )
        header = {"type": "string", "pattern": KEY_PATTERN}
        parameters.append(OpenApiParameter("Idempotency-Key", header, OpenApiParameter.HEADER, description=help_text))
    return parameters


def _parameter(filter_: Filter) -> OpenApiParameter:
    schema = {"type": "array", "items": dict(filter_.schema)} if filter_.several else dict(filter_.schema)
    explode = True if filter_.several else None
    return OpenApiParameter(filter_.name, schema, explode=explode, description=filter_.description)


def _responses(
    entry: Operation, status: int, answer: Serializer | None, refusals: Sequence[str], changes: bool
) -> dict[Any, Any]:
    responses: dict[Any, Any] = {status: answer}
    if entry.listing:
        responses = {
            (200, "application/json"): _page_of(entry.listing.row),
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, "The whole filtered list."),
        }
    if entry.stream:
        responses = {(200, EVENT_STREAM): OpenApiResponse(OpenApiTypes.STR, "Server-sent events.")}
    if entry.file:
        responses = {(200, entry.file): OpenApiResponse(OpenApiTypes.BINARY, "The file.")}
    statuses = {status_of(code) for code in refusals}
    statuses |= {400, 401, 403, 404, 406, 429, 503} | ({409, 413, 415} if changes else set())
    if entry.costly:
        refusals = (*refusals, "too_many_at_once")
    codes_by_status = {number: sorted({code for code in refusals if status_of(code) == number}) for number in statuses}
    for number in sorted(statuses):
        codes = [*codes_by_status[number], *_COMMON.get(number, ())]
        title = _TITLES[number].format(most_values=entry.most_values)
        description = f"{title} Codes: {', '.join(f'`{code}`' for code in codes)}."
        responses[number, MEDIA_TYPE] = OpenApiResponse(ProblemDocument, description)
    return responses


def _page_of(row: Serializer) -> Serializer:
    """Return the class of a page of rows. Each row has one such class, so that its part of the schema has one name."""
    if row not in _pages:
        fields = {
            "next": serializers.URLField(allow_null=True, help_text="The next page; null on the last."),
            "previous": serializers.URLField(allow_null=True, help_text="The page before; null on the first."),
            "results": row(many=True),
        }
        _pages[row] = type(f"{row.__name__}Page", (Answer,), fields)
    return _pages[row]


_pages: dict[Serializer, Serializer] = {}


def with_all_digits(example: Any) -> Any:
    """Return an example with as many digits in its amounts as the book counts. They are written with six digits."""
    if isinstance(example, Mapping):
        return {name: with_all_digits(inner) for name, inner in example.items()}
    if isinstance(example, list):
        return [with_all_digits(inner) for inner in example]
    if not isinstance(example, str) or not AMOUNT_WRITTEN.fullmatch(example):
        return example
    amount = amount_read(example.rstrip("0").rstrip("."))
    return example if amount is None else exported(amount)


def _examples(entry: Operation, status: int, request_example: Any, answer_example: Any) -> list[OpenApiExample]:
    examples = []
    if request_example is not None:
        examples.append(OpenApiExample("Request", value=with_all_digits(request_example), request_only=True))
    if answer_example is not None:
        document = one = with_all_digits(answer_example)
        if entry.listing:
            document = {"next": None, "previous": None, "results": [one]}
        code, media = str(status), EVENT_STREAM if entry.stream else "application/json"
        examples.append(
            OpenApiExample("Answer", value=document, response_only=True, status_codes=[code], media_type=media)
        )
    return examples


_TITLES: Mapping[int, str] = {
    400: "The request is malformed.",
    401: "Nobody is logged in, or the token does not work.",
    403: "The role, or the token's scopes, do not allow it.",
    404: "There is no such thing, or it is somebody else's.",
    406: "There is no such form of this answer.",
    409: "It conflicts with how things stand.",
    413: "The body is larger than 1 MiB, or has more than {most_values:,} values.",
    415: "The body is not application/json in UTF-8.",
    422: "The request is well formed, and what it asks for cannot be.",
    429: "Too many calls; `Retry-After` says how long to wait.",
    503: "It cannot do that at this moment; `Retry-After` says when to ask again.",
}
_COMMON: Mapping[int, tuple[str, ...]] = {
    400: ("invalid_request", "malformed_body", "invalid_cursor", "invalid_key"),
    401: ("not_authenticated", "token_unknown", "token_expired", "token_revoked"),
    403: ("not_allowed", "scope_missing", "csrf_failed"),
    404: ("not_found",),
    406: ("not_acceptable",),
    409: ("idempotency_mismatch", "idempotency_in_progress"),
    413: ("body_too_large",),
    415: ("unsupported_media_type",),
    429: ("too_many_calls",),
    503: tuple(sorted(refusal.code for refusal in set(BY_STATE.values()) | {BROKER})),
}

"""Calls made up from the published schema, right and wrong ones, each by every role, held against the schema.

Each call is made in a transaction that is given up afterwards: no call finds what another one left. What waits for
the commit is checked before. Addresses name things that are there, most of the time; the rest is the schema's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import requests
import schemathesis
from django.core import signals
from django.db import close_old_connections, connection, transaction
from django.http import StreamingHttpResponse
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks

from scheduling.models import Award, Interval, Server, Webhook, WebhookDelivery
from tenants.api.schema import document
from tenants.models import ApiToken, Invitation, JoinRequest
from tenants.scoping import scope
from tests.api.builders import Program
from tests.api.table import CALLERS, World, caller_of
from tests.scheduling.live import SPEC

CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
ALONE = settings(
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@dataclass
class Report:
    """`answers`: how often (method, status) was answered. `failures`: each kind once, with one call that shows it."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        return self.answers.total()

    @property
    def statuses(self) -> set[int]:
        return {status for _, status in self.answers}

    def by_method(self) -> dict[str, dict[int, int]]:
        """Method -> status -> calls."""
        statuses: dict[str, dict[int, int]] = {}
        for (method, status), calls in sorted(self.answers.items()):
            statuses.setdefault(method, {})[status] = calls
        return statuses

    def text(self) -> str:
        lines = [f"{sum(statuses.values()):6} {method}: {statuses}" for method, statuses in self.by_method().items()]
        return "\n".join([*lines, f"{self.calls:6} calls, {len(self.failures)} failures"])


def operations() -> list[Any]:
    """Each method's spread evenly over the whole: in the order of their names all of PUT came last, and a run that was
    cut short had seen none of them."""
    cases = [each.ok() for each in schemathesis.openapi.from_dict(document()).get_all_operations()]
    cases.sort(key=lambda operation: operation.label)
    of_method = Counter(operation.method for operation in cases)
    place: Counter[str] = Counter()
    placed = []
    for operation in cases:
        place[operation.method] += 1
        placed.append(((place[operation.method] - 0.5) / of_method[operation.method], operation.label, operation))
    return [operation for *_, operation in sorted(placed, key=lambda one: one[:2])]


def fuzz(world: World, others: Sequence[World], selection: Sequence[Any], *, cases: int, start: int) -> Report:
    """So many `cases` of each operation, fewer where there are not so many different ones; each by every role."""
    report = Report()
    callers = {name: caller_of(name, world) for name in CALLERS}
    for caller in callers.values():
        caller.client.raise_request_exception = False
    real = _real(world, others)
    try:
        for operation in selection:
            _of_operation(operation, callers, real, report, cases=cases, start=start)
            print(f"{report.calls:6} calls, {len(report.failures)} failures: {operation.label}", flush=True)
    finally:
        print(report.text(), flush=True)  # also of a run that is cut short
    return report


def _of_operation(
    operation: Any,
    callers: Mapping[str, Program],
    real: Mapping[str, Sequence[Any]],
    report: Report,
    *,
    cases: int,
    start: int,
) -> None:
    @seed(start)
    @settings(ALONE, max_examples=cases)
    @given(_case(operation, real))
    def one(case: Any) -> None:
        for role, caller in callers.items():
            _call(caller, role, case, report)

    one()


def _real(world: World, others: Sequence[World]) -> Mapping[str, Sequence[Any]]:
    """Parameters of addresses -> what there is, of the own tenant and of another."""
    with scope(world.tenant):
        tokens = list(ApiToken.objects.filter(tenant=world.tenant).values_list("pk", flat=True)[:2])
        return {
            "tenant_slug": [world.tenant.slug, world.tenant.slug, others[0].tenant.slug],
            "tenant": [world.tenant.slug, others[0].tenant.slug],
            "owner_slug": [world.tenant.slug, others[0].tenant.slug],
            "pool_slug": [world.pool.slug],
            "job_id": [*(job.pk for job in world.jobs), others[0].jobs[0].pk],
            "award_id": [*Award.objects.values_list("pk", flat=True)[:2], 1],
            "number": [*Interval.objects.filter(pool=world.pool).values_list("number", flat=True)[:2], 1],
            "server_name": list(Server.objects.filter(pool=world.pool).values_list("name", flat=True)),
            "member_id": [member.pk for member in world.members.values()],
            "invitation_id": [*Invitation.objects.values_list("pk", flat=True)[:2], 1],
            "join_request_id": [*JoinRequest.objects.values_list("pk", flat=True)[:2], 1],
            "token_id": [*tokens, 1],
            "webhook_id": [*Webhook.objects.values_list("pk", flat=True)[:2], 1],
            "delivery_id": [*WebhookDelivery.objects.values_list("pk", flat=True)[:2], 1],
        }


def _case(operation: Any, real: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[Any]:
    names = [parameter.name for parameter in operation.path_parameters]
    modes = [GenerationMode.POSITIVE, GenerationMode.POSITIVE]
    if names or operation.body or operation.query or operation.headers:
        modes.append(GenerationMode.NEGATIVE)
    strategies = {name: st.sampled_from(real[name]) for name in names if real.get(name)}

    @st.composite
    def draw_case(draw: st.DrawFn) -> Any:
        mode = draw(st.sampled_from(modes))
        case = draw(operation.as_strategy(generation_mode=mode))
        for name, there in strategies.items():
            if draw(st.integers(0, 9)) < 9:  # 0 comes first: where there is one case alone, it is about what is there
                case.path_parameters[name] = draw(there)
        if isinstance(case.body, dict):
            _sensible(draw, case.body, real)
        return case

    return draw_case()


def _sensible(draw: st.DrawFn, body: dict[str, Any], real: Mapping[str, Sequence[Any]]) -> None:
    """A text made up names no pool, and an object made up is no job: some of them are put right."""
    now = timezone.now()
    right: Mapping[str, st.SearchStrategy[Any]] = {
        "pool": st.just(real["pool_slug"][0]),
        "spec": st.dictionaries(st.sampled_from(list(SPEC)), _anything(), max_size=2).map(lambda flaws: SPEC | flaws),
        "jobs": st.lists(st.sampled_from(real["job_id"]), min_size=1, max_size=4),
        "cells": st.dictionaries(
            st.sampled_from([*real["tenant"], *real["server_name"]]),
            st.fixed_dictionaries({"worker": st.integers(-1, 9), "ps": st.integers(0, 3)}),
        ),
        "capacity": st.fixed_dictionaries({"worker": st.integers(-1, 99)}, optional={"ps": st.integers(0, 2**31)}),
        "reason": st.just("The fuzz says so."),
        "amount": st.sampled_from(["1", "0.000001", "-1", "9223372036854.775807", "9223372036854.775808", "1e3"]),
        "expires_at": st.sampled_from([(now + timedelta(days=days)).isoformat() for days in (-1, 1, 400)]),
        "slug": st.just("tenant-made-up"),
    }
    for name in body.keys() & right.keys():
        if draw(st.integers(0, 3)) < 3:
            body[name] = draw(right[name])


def _anything() -> st.SearchStrategy[Any]:
    single = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    return single | st.lists(single, max_size=3) | st.dictionaries(st.text(max_size=8), single, max_size=3)


def _call(caller: Program, role: str, case: Any, report: Report) -> None:
    request = requests.Request(**case.as_transport_kwargs(base_url="http://localhost")).prepare()
    headers = {name: str(value) for name, value in request.headers.items()}
    if caller.secret:
        headers["Authorization"] = f"Bearer {caller.secret}"
    parts = urlsplit(request.url)
    body = request.body.encode() if isinstance(request.body, str) else request.body or b""
    kind = headers.pop("Content-Type", "application/json" if body else "")
    with transaction.atomic():
        reply = caller.client.generic(
            request.method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body, kind, headers=headers
        )
        whole = _content(reply)
        if reply.status_code < 400 and request.method != "GET":
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        transaction.set_rollback(True)
    report.answers[request.method or "", reply.status_code] += 1
    for flaw in _flaws(case, request, reply, whole):
        what = f"{case.operation.label}: {reply.status_code}: {flaw.splitlines()[0]}"
        report.failures.setdefault(
            what, f"{role}: {request.method} {request.url}\n{body[:600]!r}\n{whole[:600]!r}\n{flaw}"
        )


def _content(reply: Any) -> bytes:
    """A list as CSV is read whole. A stream of events has no end: it is let go of unread."""
    if not isinstance(reply, StreamingHttpResponse):
        return bytes(reply.content)
    if not reply["Content-Type"].startswith("text/event-stream"):
        return b"".join(reply.streaming_content)
    signals.request_finished.disconnect(close_old_connections)
    reply.close()
    signals.request_finished.connect(close_old_connections)
    return b""


def _flaws(case: Any, request: requests.PreparedRequest, reply: Any, whole: bytes) -> list[str]:
    if reply.status_code >= 500:
        return ["the server failed"]
    headers = {name.lower(): [value] for name, value in reply.headers.items()}
    answer = schemathesis.Response(reply.status_code, headers, whole, request=request, elapsed=0.0, verify=False)
    try:
        case.validate_response(answer, checks=CHECKS)
    except FailureGroup as group:
        return [f"{type(flaw).__name__}: {flaw}" for flaw in group.exceptions]
    except Failure as flaw:
        return [f"{type(flaw).__name__}: {flaw}"]
    return []

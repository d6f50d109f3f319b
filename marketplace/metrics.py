"""`/metrics` for Prometheus: the staff's, by a token with the scope audit:read or by their session."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

from django.core.cache import cache
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from redis.exceptions import RedisError
from rest_framework.request import Request

from marketplace.health import queued_tasks
from scheduling.selectors.gauges import MEANING, Gauge, gauges
from tenants.api.operations import Operation
from tenants.api.views import StaffView
from tenants.roles import Permission

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "bourse_"
KEPT_SECONDS = 5  # several monitors cost no more than one
TASKS = "task_queue_length"
log = logging.getLogger(__name__)


class Metrics(StaffView):
    def get(self, request: Request) -> HttpResponseBase:
        return HttpResponse(metrics_text(timezone.now()), content_type=MEDIA_TYPE)

    # A permission and its scope as every call has them; no part of the published schema, whose answers are JSON.
    get.operation = Operation("metrics_read", Permission.HISTORY_VIEW, None, (), (), whole=True)  # type: ignore[attr-defined]

    def _form(self) -> str:
        """One form, whatever the monitor prefers."""
        return "text"


def metrics_text(at: datetime) -> str:
    """At most `KEPT_SECONDS` old; made anew each time while Redis does not answer."""
    try:
        if (kept := cache.get("metrics")) is not None:
            return str(kept)
    except RedisError:
        log.warning("metrics are not kept: Redis does not answer")
        return written(gauges(at))
    text = written([*gauges(at), Gauge(TASKS, queued_tasks(), {})])
    cache.set("metrics", text, timeout=KEPT_SECONDS)
    return text


def written(found: Sequence[Gauge]) -> str:
    """In the text format of Prometheus, 0.0.4. Figures of one name stand together."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Sequence[Gauge]) -> Iterator[str]:
    for name, group in groupby(found, key=lambda gauge: gauge.name):
        meaning = MEANING.get(name, "Tasks that wait for a worker.")
        yield f"# HELP {PREFIX}{name} {meaning}"
        yield f"# TYPE {PREFIX}{name} gauge"
        for gauge in group:
            yield f"{PREFIX}{name}{_labels(gauge)} {_number(gauge.value)}"


def _labels(gauge: Gauge) -> str:
    """Names of tenants, pools and resources are plain words, so nothing in them is to be escaped."""
    inner = ",".join(f'{name}="{value}"' for name, value in gauge.labels.items())
    return f"{{{inner}}}" if inner else ""


def _number(value: float) -> str:
    return "NaN" if value != value else repr(float(value)).removesuffix(".0")

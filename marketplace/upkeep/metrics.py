"""`/metrics` for Prometheus: for staff, by a token with the scope audit:read or by their session."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.core.cache import cache
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from redis.exceptions import RedisError
from rest_framework.request import Request

from marketplace.upkeep.health import queued_tasks
from scheduling.common.measured import MEASURED
from scheduling.operator.read_engines import engine_figures
from scheduling.operator.read_gauges import MEANING, Gauge, gauges
from tenants.api.operations import Operation
from tenants.api.views import StaffView
from tenants.roles import Permission

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "bourse_"
KEPT_SECONDS = 5  # so that several monitors cost no more than one
TASKS = "task_queue_length"
log = logging.getLogger(__name__)


class Metrics(StaffView):
    def get(self, request: Request) -> HttpResponseBase:
        return HttpResponse(metrics_text(timezone.now()), content_type=MEDIA_TYPE)

    # It has a permission and a scope like every call, but is no part of the published schema, whose answers are JSON.
    get.operation = Operation("metrics_read", Permission.HISTORY_VIEW, None, (), (), whole=True)  # type: ignore[attr-defined]

    def _form(self) -> str:
        """Return the one form, whatever the monitor prefers."""
        return "text"


def metrics_text(at: datetime) -> str:
    """Return the page of figures, at most `KEPT_SECONDS` old; while Redis does not answer it is made each time."""
    try:
        if (page := cache.get("metrics")) is not None:
            return str(page)
    except RedisError:
        log.warning("metrics are not kept: Redis does not answer")
        return figures_text(gauges(at), engine_figures()) + measured()
    text = figures_text([*gauges(at), Gauge(TASKS, queued_tasks(), {})], engine_figures()) + measured()
    cache.set("metrics", text, timeout=KEPT_SECONDS)
    return text


def figures_text(figures: Sequence[Gauge], texts: Sequence[str] = ()) -> str:
    """Return figures in the text format of Prometheus, 0.0.4, grouped by name. `texts` are the figures that engines
    counted."""
    registry = CollectorRegistry()
    registry.register(_Figures(figures))
    registry.register(_Counted(texts))
    return generate_latest(registry).decode()


def measured() -> str:
    """Return what serving processes measured of their work: of all of them where they share a folder for it."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry).decode()
    return generate_latest(MEASURED).decode()


@dataclass(frozen=True, eq=False)
class _Figures(Collector):
    figures: Sequence[Gauge]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, group in groupby(self.figures, key=lambda gauge: gauge.name):
            family = GaugeMetricFamily(PREFIX + name, MEANING.get(name, "Tasks that wait for a worker."))
            for gauge in group:
                family.add_sample(PREFIX + name, dict(gauge.labels), gauge.value)
            yield family


@dataclass(frozen=True, eq=False)
class _Counted(Collector):
    """The figures of all engines, with one family per name."""

    texts: Sequence[str]

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for text in self.texts:
            for family in text_string_to_metric_families(text):
                metric = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                metric.samples += family.samples
        yield from (family for name, family in sorted(families.items()) if not name.endswith("_created"))

"""Dashboards and alerts ask only for figures that there are; each alert fires, and is over when its cause is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from marketplace.upkeep.metrics import TASKS, Gauge, figures_text
from scheduling.common.measured import MEASURED, REQUEST_SECONDS, STEP_SECONDS, USE_CASE_SECONDS
from scheduling.engines.base import NOT_HEARD, Report
from scheduling.operator.read_gauges import MEANING
from scheduling.runs.figures import EngineFigures
from scheduling.runs.runs import Ticked
from tests.patience import PATIENCE
from tests.ports import free_port

FOLDER = Path(settings.BASE_DIR) / "deploy" / "monitoring"
ALERTS = FOLDER / "alerts.yaml"
DASHBOARDS = sorted(FOLDER.glob("*.json"))
NO_PROMETHEUS = "the tests of alerts and dashboards need Prometheus and its promtool: apt-get install prometheus"

Series = tuple[str, str]  # name with labels, and values minute by minute as promtool writes them
# By alert: what makes it fire within the first forty minutes, and is over after the sixtieth.
CAUSES: dict[str, Sequence[Series]] = {
    "BourseDoesNotAnswer": [('up{job="bourse"}', "1x9 0x30 1x80")],
    "BourseDecidesLate": [('bourse_queue_lag_seconds{pool="main"}', "0x9 90x30 0x80")],
    "BoursePaymentsDoNotAddUp": [('bourse_payment_imbalance_credits{pool="main"}', "0x9 -0.000001x30 0x80")],
    "BourseBookDoesNotAddUp": [("bourse_ledger_imbalance_credits", "0x9 1.5x30 0x80")],
    "BourseEngineSilent": [('bourse_engine_seen_seconds{engine="local"}', "3x9 45x30 3x80")],
    "BourseEngineComplains": [('bourse_engine_alerts{engine="slurm"}', "0x9 2x30 0x80")],
    "BourseRunsLost": [('bourse_run_losses_total{engine="slurm",cause="silent"}', "0x9 0+1x30 30x80")],
    "BourseRunsLate": [
        ('bourse_run_late_seconds_bucket{engine="slurm",le="5.0"}', "0x120"),
        ('bourse_run_late_seconds_bucket{engine="slurm",le="10.0"}', "0x9 0+1x30 30x80"),
        ('bourse_run_late_seconds_bucket{engine="slurm",le="+Inf"}', "0x9 0+1x30 30x80"),
    ],
    "BourseIntervalsSlow": [
        ('bourse_use_case_seconds_bucket{use_case="interval",le="30.0"}', "0x120"),
        ('bourse_use_case_seconds_bucket{use_case="interval",le="100.0"}', "0x9 0+1x30 30x80"),
        ('bourse_use_case_seconds_bucket{use_case="interval",le="+Inf"}', "0x9 0+1x30 30x80"),
    ],
    "BoursePagesSlow": [
        ('bourse_request_seconds_bucket{route="jobs",le="1.0"}', "0x120"),
        ('bourse_request_seconds_bucket{route="jobs",le="3.0"}', "0x9 0+9x30 270x80"),
        ('bourse_request_seconds_bucket{route="jobs",le="+Inf"}', "0x9 0+9x30 270x80"),
    ],
    "BourseRequestsFail": [
        ('bourse_request_seconds_count{status="2xx"}', "0+60x120"),
        ('bourse_request_seconds_count{status="5xx"}', "0x9 0+3x30 90x80"),
    ],
    "BourseTasksWait": [("bourse_task_queue_length", "2x9 5000x30 2x80")],
}
FIRES_AT, OVER_AT = ("38m", "100m")


def rules() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}


def queries() -> dict[str, str]:
    """By dashboard and title of its panel, what is asked."""
    expressions = {}
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text())["panels"]:
            expressions |= {f"{file.stem}: {panel['title']} {each['refId']}": each["expr"] for each in panel["targets"]}
    return expressions


def everything() -> str:
    """A text of `/metrics` that has every figure there is."""
    engine = EngineFigures("slurm")
    engine.count(Ticked(1, 2, (0.3,), (("finished", ""), ("lost", "nothing is heard of its part"))), REPORT)
    for measure in (STEP_SECONDS.labels("interval", "decide"), USE_CASE_SECONDS.labels("interval")):
        measure.observe(0.2)
    REQUEST_SECONDS.labels("jobs", "GET", "2xx").observe(0.2)
    labels = {"pool": "main", "tenant": "lumen", "resource": "worker", "engine": "slurm", "lane": "batch"}
    gauges = [Gauge(name, 1.0, labels) for name in MEANING] + [Gauge(TASKS, 3.0, {})]
    return figures_text(gauges, [engine.text()]) + generate_latest(MEASURED).decode()


REPORT = Report((), (("sbatch", 0.1),))


def test_only_figures_that_there_are_are_asked_for() -> None:
    there = {sample.name for family in text_string_to_metric_families(everything()) for sample in family.samples}
    expressions = queries() | {name: rule["expr"] for name, rule in rules().items()}
    assert len(expressions) > 30
    for name, expression in expressions.items():
        figures = set(re.findall(r"bourse_[a-z_]+", expression))
        assert figures <= there, f"{name} asks for {sorted(figures - there)}"


def test_each_alert_says_what_to_do_in_one_line() -> None:
    assert rules().keys() == CAUSES.keys()
    for name, rule in rules().items():
        assert rule["labels"]["severity"] in ("page", "warn"), name
        assert len(rule["annotations"]["do"].splitlines()) == 1, name


@pytest.mark.skipif(shutil.which("promtool") is None, reason=NO_PROMETHEUS)
@pytest.mark.parametrize("alert", CAUSES)
def test_an_alert_fires_and_is_over(alert: str, tmp_path: Path) -> None:
    check_rule(alert, CAUSES[alert], FIRES_AT, tmp_path)


@pytest.mark.skipif(shutil.which("promtool") is None, reason=NO_PROMETHEUS)
def test_an_engine_that_loses_everything_for_the_first_time_is_told_of(tmp_path: Path) -> None:
    """All at once, so that the figure has risen before a monitor has read it."""
    engine = EngineFigures("slurm")
    before = losses(engine)
    engine.count(Ticked(0, 0, (), (("lost", NOT_HEARD),) * 20), Report())
    series = [(name, f"{before.get(name, '_')}x9 {after}x110") for name, after in losses(engine).items()]
    check_rule("BourseRunsLost", series, "12m", tmp_path)


def losses(engine: EngineFigures) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in engine.text().splitlines() if line.startswith("bourse_run_losses_total")]
    return {name: float(value) for name, _, value in lines}


def check_rule(alert: str, series: Sequence[Series], fires_at: str, folder: Path) -> None:
    """The alert does not fire at first, then it does, and then no more."""
    rule = rules()[alert]
    fired = {"exp_labels": rule["labels"] | _labels_of(alert), "exp_annotations": rule["annotations"]}
    checks = [
        {"eval_time": "5m", "alertname": alert, "exp_alerts": []},
        {"eval_time": fires_at, "alertname": alert, "exp_alerts": [fired]},
        {"eval_time": OVER_AT, "alertname": alert, "exp_alerts": []},
    ]
    document = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series],
                "alert_rule_test": checks,
            }
        ],
    }
    file = folder / "alert.yaml"
    file.write_text(yaml.safe_dump(document))
    ran = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _labels_of(alert: str) -> dict[str, str]:
    """What tells one such alert from another: the labels that are left of its series."""
    name = CAUSES[alert][0][0]
    labels = dict(re.findall(r'(\w+)="([^"]*)"', name))
    if " by (" in rules()[alert]["expr"] or "sum(" in rules()[alert]["expr"]:
        return {key: value for key, value in labels.items() if key == "engine"}
    return labels


@pytest.mark.wide
@pytest.mark.skipif(shutil.which("prometheus") is None, reason=NO_PROMETHEUS)
def test_every_query_of_the_dashboards_answers(tmp_path: Path) -> None:
    """By a Prometheus that reads our text."""
    with serving(everything()) as port, prometheus(tmp_path, port) as address:
        for name, expression in queries().items():
            wanted = expression.replace("$pool", ".*").replace("[15m]", "[1m]").replace("[5m]", "[1m]")
            deadline = time.monotonic() + PATIENCE
            while not (series := answer(address, wanted)):
                assert time.monotonic() < deadline, f"{name}: {wanted} has no answer"
                time.sleep(0.2)
            assert series, name


def answer(address: str, expression: str) -> list[Any]:
    query = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"{address}/api/v1/query?{query}", timeout=10) as reply:
            return list(json.load(reply)["data"]["result"])
    except (ConnectionError, TimeoutError):
        return []
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
            return []  # it listens, and still reads what it has stored
        raise
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionError | TimeoutError):
            return []  # it has not begun to listen, or stands still
        raise


@contextmanager
def serving(text: str) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


@contextmanager
def prometheus(folder: Path, port: int) -> Iterator[str]:
    scrape = {"job_name": "bourse", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
    config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "scrape_configs": [scrape]}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config | {"rule_files": [str(ALERTS)]}))
    listen = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={listen}"], stdout=log, stderr=log)
        try:
            yield f"http://{listen}"
        finally:
            process.terminate()
            process.wait(PATIENCE)

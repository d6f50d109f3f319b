"""`manage.py scenario`: make a scenario file, from a log of a real cluster or from a seed."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from scheduling.core import workload
from scheduling.core.scenario import BadScenario, read, to_json
from scheduling.lab.files import save, table_lines
from scheduling.lab.reports import scenario_line
from scheduling.lab.running import check_name
from scheduling.lab.settings import setting, with_changes
from scheduling.management.base import FileCommand, add_set_option

SOURCES = {
    "philly": "Microsoft's Philly log: real jobs of real tenants (jobs.csv.gz, tenants.csv)",
    "helios": "Helios Earth: jobs made up to match the hourly demand of 16 tenants (vc_hourly.csv.gz)",
    "alibaba": "Alibaba's 2023 GPU cluster: real pods and machines, tenants drawn (jobs.csv, machines.csv)",
    "synthetic": "a market drawn with a seed, in the parameter ranges of a paper",
}
TABLES = {"philly": ("jobs", "tenants"), "helios": ("hours",), "alibaba": ("jobs", "machines"), "synthetic": ()}
COMMON = ("seed", "slot_seconds")
TRACE = ("from_day", "days", "drain_days", "scale_quota", "ps_per_gpu")
ARGUMENTS = {
    "philly": (*COMMON, *TRACE),
    "helios": (*COMMON, *TRACE),
    "alibaba": (*COMMON, *TRACE, "owners"),
    "synthetic": (
        *COMMON,
        *(
            "preset",
            "owners",
            "servers",
            "jobs",
            "slots",
            "span",
            "load",
            "value",
            "longest",
            "operator_share",
            "cells",
        ),
    ),
}


class Command(FileCommand):
    help = "Make a scenario file from a log of a real cluster, or draw one with a seed."

    def add_arguments(self, parser: CommandParser) -> None:
        sources = parser.add_subparsers(dest="source", required=True, metavar="SOURCE")
        for source, help_text in SOURCES.items():
            options = sources.add_parser(source, help=help_text, description=help_text)
            _add_common(options)
            if source != "synthetic":
                _add_trace(options)
        _add_tables(sources.choices)
        _add_synthetic(sources.choices["synthetic"])

    def handle(self, **options: Any) -> None:
        document = document_make(options["source"], options)
        scenario = read(document)  # raises if the document could not be read again
        save(options["output"], to_json(document))
        self.stdout.write(f"{options['output']}: {scenario_line(scenario)}")
        for note in document["generator"].get("notes", ()):
            self.stdout.write(f"  note: {note}")


def document_make(source: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario document that the options describe."""
    arguments = {name: options[name] for name in ARGUMENTS[source] if options[name] is not None}
    if "owners" in arguments:
        arguments["tenants"] = arguments.pop("owners")
    check_name(options["policy"], "--policy")
    policy = with_changes({"name": options["policy"]}, [setting(text) for text in options["changes"]])
    with ExitStack() as files:
        tables = [files.enter_context(closing(table_lines(options[f"{name}_file"]))) for name in TABLES[source]]
        try:
            document: dict[str, Any] = getattr(workload, source)(*tables, **arguments, policy=policy)
        except BadScenario as error:
            raise BadScenario(_as_option(error.place, arguments), error.message) from None
    return document


def _as_option(place: str, arguments: Mapping[str, Any]) -> str:
    """Return an argument's name as it is on the command line, and any other place unchanged."""
    return f"--{place.replace('_', '-')}" if place in arguments else place


def _add_common(options: CommandParser) -> None:
    options.add_argument("--output", type=Path, required=True, metavar="S.json", help="the scenario file to write")
    options.add_argument("--seed", type=int, default=1, help="everything drawn depends on it alone (default 1)")
    options.add_argument("--slot-seconds", type=float, metavar="N", help="length of a slot (default 3600)")
    options.add_argument("--policy", default="astraea", metavar="NAME", help="the file's policy (default astraea)")
    add_set_option(options, "a field of the policy, e.g. mode=guarantee")


def _add_trace(options: CommandParser) -> None:
    options.add_argument("--from-day", type=int, metavar="N", help="first day of the log to take, counted from 0")
    options.add_argument("--days", type=int, metavar="N", help="how many days to take")
    options.add_argument("--drain-days", type=int, metavar="N", help="days after the last arrival, to finish in")
    options.add_argument(
        "--scale-quota", type=float, metavar="X", help="so much of the quotas, and of the cluster (default 1)"
    )
    options.add_argument("--ps-per-gpu", type=float, metavar="X", help="parameter servers per GPU (default 1)")


def _add_tables(sources: Mapping[str, CommandParser]) -> None:
    def table(source: str, name: str, help_text: str) -> None:
        sources[source].add_argument(
            f"--{name}", dest=f"{name}_file", type=Path, required=True, metavar="CSV", help=f"{help_text}; .gz will do"
        )

    table("philly", "jobs", "job_id, tenant, submit_s, gpus, duration_s")
    table("philly", "tenants", "tenant, quota_gpus")
    table("helios", "hours", "hour, tenant, quota_gpus, running_gpus, pending_gpus")
    table("alibaba", "jobs", "job_id, tenant, submit_s, gpus, duration_s, gpu_milli")
    table("alibaba", "machines", "machine, gpus")
    sources["alibaba"].add_argument(
        "--tenants", dest="owners", type=int, metavar="N", help="tenants to draw (default 8); 0: classes of service"
    )


def _add_synthetic(options: CommandParser) -> None:
    options.add_argument("--preset", help=f"whose parameter ranges: {', '.join(workload.PRESETS)} (default astraea)")
    options.add_argument("--tenants", dest="owners", type=int, metavar="N", help="(default 14)")
    options.add_argument("--servers", type=int, metavar="N", help="(default 100)")
    options.add_argument("--jobs", type=int, metavar="N", help="(default 300)")
    options.add_argument(
        "--slots", type=int, metavar="N", help="no decision after so many slots (default: the preset's)"
    )
    options.add_argument("--span", type=float, metavar="SLOTS", help="jobs arrive in so many slots")
    options.add_argument("--load", type=float, metavar="X", help="choose the span so that the load is X (1: all busy)")
    options.add_argument("--value", help="kind of value function: linear, convex or sigmoid")
    options.add_argument("--longest", type=int, metavar="SLOTS", help="no job whose shortest run is longer")
    options.add_argument(
        "--operator-share", type=float, metavar="X", help="part of the servers nobody owns (default 0)"
    )
    options.add_argument("--cells", action=BooleanOptionalAction, default=True, help="pin the quotas to servers")

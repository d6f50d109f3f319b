"""`manage.py pool_scenario --pool P --from TIME --to TIME --output S.json`: a pool's own jobs as a scenario file."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduling.core.scenario import BadScenario, read, to_json, write
from scheduling.lab.files import save
from scheduling.lab.reports import scenario_line
from scheduling.management.base import FileCommand
from scheduling.market.elastic.read_weights import weights_stored
from scheduling.market.view.history import pool_scenario
from scheduling.market.view.jobs import arrival_of
from scheduling.models import Pool
from tenants.scoping import scope_disabled


class Command(FileCommand):
    help = (
        "Write what a pool was asked for in a period as a scenario file, so that `compare` shows on your own jobs "
        "which policy to run, and `train_dl2` learns from them. The market is only read."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, metavar="NAME", help="the pool's short name")
        parser.add_argument("--from", dest="start", required=True, metavar="TIME", help="ISO 8601; UTC if nothing else")
        parser.add_argument("--to", dest="end", metavar="TIME", help="not included (default: now)")
        parser.add_argument(
            "--drain", type=int, metavar="SLOTS", help="slots after the period, to end in (default: as many as it has)"
        )
        parser.add_argument("--output", type=Path, required=True, metavar="S.json", help="the scenario file to write")

    def handle(self, **options: Any) -> None:
        pool = Pool.objects.filter(slug=options["pool"]).first()
        if pool is None:
            slugs = ", ".join(Pool.objects.order_by("slug").values_list("slug", flat=True)) or "none"
            raise BadScenario("--pool", f"{options['pool']} is no pool; there are: {slugs}")
        first, last = _slots(pool, options, timezone.now())
        drain = last - first if options["drain"] is None else options["drain"]
        if drain < 0:
            raise BadScenario("--drain", "must be 0 or more")
        with scope_disabled("the operator takes the jobs of all tenants away as a scenario"):
            scenario = pool_scenario(pool, first, last, drain)
        if not scenario.jobs:
            raise BadScenario("--from", f"nobody submitted a job to {pool.slug} between these times")
        document = write(scenario)
        read(document)  # raises if the document could not be read again
        _weights_beside(document["policy"], options["output"])
        save(options["output"], to_json(document))
        self.stdout.write(f"{options['output']}: {scenario_line(scenario)}")
        for note in document["generator"]["notes"]:
            self.stdout.write(f"  note: {note}")


def _weights_beside(policy: dict[str, Any], output: Path) -> None:
    """Write weights that the policy names into a file beside the scenario, S.json.npz, and let the policy name that."""
    inner = policy.get("policy", policy)
    if isinstance(name := inner.get("weights"), str):
        path = output.with_name(f"{output.name}.npz")
        save(path, weights_stored(name))
        inner["weights"] = str(path)


def _slots(pool: Pool, options: dict[str, Any], now: datetime) -> tuple[int, int]:
    """Return the first slot of the period and the slot after its last. Slots that are still to come are not in it."""
    first = math.floor(arrival_of(pool, _moment(options["start"], "--from")))
    end = now if options["end"] is None else _moment(options["end"], "--to")
    last, until = (math.ceil(arrival_of(pool, moment)) for moment in (end, now))
    if first >= until:
        raise BadScenario("--from", "is still to come")
    if last <= first:
        raise BadScenario("--to", "must be later than --from")
    if min(last, until) <= 0:
        raise BadScenario("--to", f"{pool.slug} had not opened by then")
    return max(first, 0), min(last, until)


def _moment(text: str, option: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadScenario(option, f"{text!r} is no time like 2026-11-02T08:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

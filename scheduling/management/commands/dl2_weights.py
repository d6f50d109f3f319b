"""`manage.py dl2_weights`: what live pools can be run with; `--add FILE --name NAME` adds trained weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduling.core.scenario import BadScenario
from scheduling.lab.tables import table
from scheduling.lab.weights import weights_read
from scheduling.management.base import FileCommand
from scheduling.models import PolicyWeights
from scheduling.operator.weights import weights_add
from tenants.access import Refused, access_of_system


class Command(FileCommand):
    help = "List the trained weights that live pools can name, or add a file of `train_dl2` to them for good."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--add", type=Path, metavar="FILE.npz", help="a file of weights")
        parser.add_argument("--name", metavar="NAME", help="the name by which a pool's policy names it")

    def handle(self, **options: Any) -> None:
        if (options["add"] is None) != (options["name"] is None):
            raise BadScenario("--add", "a file and its --name go together")
        if options["add"] is not None:
            self._add(options["add"], options["name"])
            return
        rows = PolicyWeights.objects.values_list("name", "added_at", "digest")
        lines = [[name, f"{at:%Y-%m-%d %H:%M}", digest] for name, at, digest in rows]
        self.stdout.write(table(["name", "added (UTC)", "digest"], lines) if lines else "no weights but those shipped")

    def _add(self, path: Path, name: str) -> None:
        answer = weights_add(
            name=name,
            content=weights_read(str(path), "--add"),
            by=access_of_system("dl2_weights"),
            reason=f"added from {path.name}",
            at=timezone.now(),
        )
        if isinstance(answer, Refused):
            raise BadScenario(str(path), answer.sentence)
        setting = json.dumps({"name": "dl2", "weights": name})
        self.stdout.write(f"{name}: {answer.digest}\nThe policy of a new elastic pool that uses them: {setting}")

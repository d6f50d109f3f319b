"""`manage.py simulate`: run scenario files and write what was decided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from scheduling.core.policies import POLICIES
from scheduling.core.scenario import BadScenario, Scenario, to_json
from scheduling.lab import reports
from scheduling.lab.files import flaws_of, folder_make, place_check, save, scenario_load
from scheduling.lab.parallel import each
from scheduling.lab.progress import ProgressLine
from scheduling.lab.running import check_name, run
from scheduling.lab.settings import Setting, setting, settings_for, with_changes
from scheduling.management.base import FileCommand, add_set_option, cores


@dataclass(frozen=True)
class SimulateRequest:
    """One file to run, with another policy than its own or None, the changes to it, and the path of the result."""

    path: Path
    policy: str | None
    changes: tuple[Setting, ...]
    output: Path | None


class Command(FileCommand):
    help = "Run scenario files and write what was decided: results of every job, tenant and the whole."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("scenarios", nargs="+", type=Path, metavar="SCENARIO.json", help="one file, or many")
        parser.add_argument(
            "--policy",
            metavar="NAME",
            help=f"another policy than the file's, with its own defaults: {', '.join(sorted(POLICIES))}",
        )
        add_set_option(parser, "change a field of the policy, e.g. theta.worker=16 or instant.units=chunks")
        parser.add_argument(
            "--output", type=Path, metavar="RESULT.json", help="write the result; with several files a folder"
        )

    def handle(self, **options: Any) -> None:
        if options["policy"] is not None:
            check_name(options["policy"], "--policy")
        changes = tuple(setting(text) for text in options["changes"])
        requests = [
            SimulateRequest(path, options["policy"], changes, output)
            for path, output in _outputs(options["scenarios"], options["output"])
        ]
        if len(requests) == 1:
            self._one(requests[0])
        else:
            self._many(requests)

    def _one(self, request: SimulateRequest) -> None:
        scenario = _scenario(request)
        if request.output is not None:
            place_check(request.output)
        with ProgressLine("simulating", "jobs") as progress, flaws_of(request.path):
            result = run(scenario, progress).document()
        if request.output is not None:
            save(request.output, to_json(result))
        self.stdout.write(reports.report(request.path.name, scenario, result))

    def _many(self, requests: list[SimulateRequest]) -> None:
        if requests[0].output is not None:
            folder_make(requests[0].output.parent)
        with ProgressLine("simulating", "files") as progress:
            answers = each(simulate_file, requests, cores(), progress)
        for line, wrong in answers:
            if not wrong:
                self.stdout.write(line)
        if flaws := [line for line, wrong in answers if wrong]:
            self.refuse(flaws)


def simulate_file(request: SimulateRequest) -> tuple[str, bool]:
    """Run one file of many. Return a line about it, and whether that line says what is wrong with the file."""
    try:
        scenario = _scenario(request)
        with flaws_of(request.path):
            result = run(scenario).document()
        if request.output is not None:
            save(request.output, to_json(result))
    except BadScenario as error:
        return str(error), True
    return reports.line(request.path.name, result), False


def _scenario(request: SimulateRequest) -> Scenario:
    """Return the scenario with its policy changed; a key that begins with `instant.` changes the instant lane's."""
    scenario = scenario_load(request.path)
    changes: dict[str, list[Setting]] = {"policy": [], "instant": []}
    for (lane, *path), value in request.changes:
        has_lane = bool(path) and lane in changes
        changes[lane if has_lane else "policy"].append((tuple(path) if has_lane else (lane, *path), value))
    if changes["instant"] and scenario.instant is None:
        raise BadScenario("--set instant", f"{request.path} has no policy for the instant lane")
    return replace(
        scenario,
        policy=with_changes(settings_for(scenario.policy, request.policy), changes["policy"]),
        instant=scenario.instant and with_changes(scenario.instant, changes["instant"]),
    )


def _outputs(paths: list[Path], output: Path | None) -> list[tuple[Path, Path | None]]:
    """Return each file with the path of its result. No result may overwrite a scenario or another result."""
    if output is None:
        return [(path, None) for path in paths]
    folder = len(paths) > 1 or output.is_dir()
    targets = [output / path.name if folder else output for path in paths]
    scenarios = {path.resolve() for path in paths}
    for number, (path, target) in enumerate(zip(paths, targets, strict=True)):
        if target.resolve() in scenarios:
            raise BadScenario(f"--output {output}", f"would overwrite the scenario {target}")
        if target in targets[:number]:
            raise BadScenario(f"--output {output}", f"{path} and {paths[targets.index(target)]} have the same name")
    return list(zip(paths, targets, strict=True))

"""The program of a job: whether it may run, with which parameters, and that it is the work that the job pays for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.core.scenario import BadScenario
from scheduling.engines.programs import PROGRAMS, Program
from scheduling.snapshots.specs import PROGRAM

UNITS = ("epochs", "chunks", "minibatches")


def program_of(spec: Mapping[str, Any]) -> tuple[Program, dict[str, Any]] | None:
    """The program and all its parameters; None: the job has none. Raises `BadScenario` at the field that is wrong.

    Epochs, chunks and mini-batches are the job's own where the parameters do not say them, and must not differ from
    it: what is scheduled and paid is what runs.
    """
    if PROGRAM not in spec:
        return None
    program, given = _asked(spec[PROGRAM])
    units = {"minibatches": 1} | {name: spec[name] for name in UNITS if name in spec}
    values = program.validate({**units, **given})
    if not isinstance(values, dict):
        place = f"{PROGRAM}.parameters"
        first = values[0]
        raise BadScenario(f"{place}.{first.parameter}" if first.parameter else place, first.sentence.rstrip("."))
    for name, amount in program.units(values).items():
        if amount != units.get(name):
            raise BadScenario(f"{PROGRAM}.parameters.{name}", f"must be the job's own {name} ({units.get(name)})")
    return program, values


def _asked(asked: object) -> tuple[Program, Mapping[str, Any]]:
    if not isinstance(asked, Mapping):
        raise BadScenario(PROGRAM, "must be an object with a name and parameters")
    if unknown := sorted(set(asked) - {"name", "parameters"}):
        raise BadScenario(f"{PROGRAM}.{unknown[0]}", "is not part of a program; it has a name and parameters")
    program = PROGRAMS.get(asked["name"]) if isinstance(asked.get("name"), str) else None
    if program is None:
        raise BadScenario(f"{PROGRAM}.name", f"must be one of {', '.join(PROGRAMS)}")
    parameters = asked.get("parameters", {})
    if not isinstance(parameters, Mapping) or not all(isinstance(name, str) for name in parameters):
        raise BadScenario(f"{PROGRAM}.parameters", "must be an object")
    return program, parameters

"""Checks of a job's program: that the tenant may run it, that its parameters are valid, and that it does the amount of
work that the job pays for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.core.names import nearest
from scheduling.core.scenario import BadScenario
from scheduling.core.types import Job
from scheduling.engines.programs import PROGRAMS, RegisteredProgram
from scheduling.models import PROGRAM
from scheduling.programs.catalogue import LIVE, PARAMETER_SERVER, values_of
from scheduling.programs.parameters import Value
from scheduling.programs.saving import Saves, saves_of
from scheduling.programs.stored import (
    OPERATOR,
    StoredProgram,
    is_retired,
    stored_program,
    usable_names,
    usable_programs,
)

UNITS = ("epochs", "chunks", "minibatches")
MOST_NAMED = 12  # programs that one sentence lists


def program_of(spec: Mapping[str, Any]) -> tuple[RegisteredProgram, dict[str, Any]] | None:
    """Return the built-in program and all its parameters, or None if the job has no program. Raises `BadScenario` at
    the field that is wrong.

    Epochs, chunks and mini-batches are taken from the job where the parameters leave them out, and must not differ from
    the job's: what runs is what is scheduled and paid.
    """
    if PROGRAM not in spec:
        return None
    program, parameters = _choice_read(spec[PROGRAM])
    units = {"minibatches": 1} | {name: spec[name] for name in UNITS if name in spec}
    values = program.validate({**units, **parameters})
    if not isinstance(values, dict):
        place = f"{PROGRAM}.parameters"
        first = values[0]
        raise BadScenario(f"{place}.{first.parameter}" if first.parameter else place, first.sentence.rstrip("."))
    for name, amount in program.units(values).items():
        if amount != units.get(name):
            raise BadScenario(f"{PROGRAM}.parameters.{name}", f"must be the job's own {name} ({units.get(name)})")
    return program, values


@dataclass(frozen=True)
class Pinned:
    """A specification that names one version of its program, and how that program saves its state. `saves` is None for
    a job without a program."""

    spec: dict[str, Any]
    saves: Saves | None


Among = Callable[..., list[StoredProgram]]


def program_pinned(spec: Mapping[str, Any], *, tenant_id: int, job: Job, among: Among = usable_programs) -> Pinned:
    """Return the specification with the version of its program written into it, and the owner where that is the
    operator. The job keeps both.

    Raises `BadScenario` at the field that is wrong. `job` is the specification as the core reads it: a program that
    talks to parameter servers needs some, and other programs must not have any. `among` reads the programs that the
    tenant may use now; a caller that pins many jobs passes a function that reads each program once.
    """
    wanted = spec.get(PROGRAM)
    if not isinstance(wanted, Mapping) or wanted.get("name") in PROGRAMS:
        if program_of(spec) is None:
            return Pinned(dict(spec), None)
        _shape_check(PARAMETER_SERVER, job)
        return Pinned(dict(spec), Saves(LIVE))
    fields = ("name", "version", "owner", "parameters")
    if unknown := sorted(set(map(str, wanted)) - set(fields)):
        raise BadScenario(f"{PROGRAM}.{unknown[0]}", f"is not part of a program; it has {', '.join(fields)}")
    stored = _usable(wanted, tenant_id, among)
    if stored.is_closed:
        what = f"names version {stored.version}, whose files are kept no more, as no job used them for long"
        raise BadScenario(f"{PROGRAM}.version", f"{what}: submit the script again, with its files")
    parameters = wanted.get("parameters", {})
    if not isinstance(parameters, Mapping):
        raise BadScenario(f"{PROGRAM}.parameters", "must be an object")
    values = values_of(stored.program, parameters)
    if isinstance(values, tuple):
        raise BadScenario(f"{PROGRAM}.{values[0].field}", values[0].sentence)
    _shape_check(stored.program.shape, job)
    pinned = {"name": stored.program.name, "version": stored.version, "parameters": dict(parameters)}
    if not stored.program.owner.tenant:
        pinned["owner"] = OPERATOR
    return Pinned({**spec, PROGRAM: pinned}, saves_of(stored.program))


def program_kept(spec: Mapping[str, Any], *, tenant_id: int) -> tuple[StoredProgram, dict[str, Value]] | None:
    """Return the version in the catalogue that an accepted job keeps, with its archive, and the values of all its
    parameters. Return None if the job has no program, or a built-in one. Raises `BadScenario` where the program can no
    longer be started as it was accepted."""
    wanted = spec.get(PROGRAM)
    if not isinstance(wanted, Mapping) or wanted.get("name") in PROGRAMS:
        return None
    name, version, owner = str(wanted.get("name")), wanted.get("version"), wanted.get("owner")
    stored = stored_program(tenant_id=tenant_id, name=name, version=version, owner=owner)
    if stored is None:
        raise BadScenario(f"{PROGRAM}.name", "is in the catalogue no more")
    values = values_of(stored.program, wanted.get("parameters", {}))
    if isinstance(values, tuple):
        raise BadScenario(f"{PROGRAM}.{values[0].field}", values[0].sentence)
    return stored, values


def _usable(choice: Mapping[str, Any], tenant_id: int, among: Among) -> StoredProgram:
    """Return the version that the job names, among those that the tenant may use now. A program of the tenant's own
    takes precedence over one of the operator with the same name."""
    name, version, owner = choice.get("name"), choice.get("version"), choice.get("owner")
    if not isinstance(name, str) or not name:
        raise BadScenario(f"{PROGRAM}.name", "must be the name of a program")
    if owner not in (None, OPERATOR):
        raise BadScenario(f"{PROGRAM}.owner", f"must be {OPERATOR}, or be left out")
    if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 1):
        raise BadScenario(f"{PROGRAM}.version", "must be a whole number from 1")
    newest = next(iter(among(tenant_id=tenant_id, name=name, owner=owner)), None)
    if newest is None and owner is None and is_retired(tenant_id=tenant_id, name=name):
        raise BadScenario(f"{PROGRAM}.name", "is retired: no new job can name it")
    if newest is None:
        names = [*PROGRAMS, *usable_names(tenant_id=tenant_id)]
        near = nearest(name, names)
        instead = f"did you mean {near}?" if near else f"there are {', '.join(names[:MOST_NAMED])}"
        raise BadScenario(f"{PROGRAM}.name", f"is no program that you may use; {instead}")
    if version in (None, newest.version):
        return newest
    whose = newest.program.owner.tenant
    earlier = among(tenant_id=tenant_id, name=name, owner=owner, version=version)
    if earlier and earlier[0].program.owner.tenant == whose:
        return earlier[0]
    raise BadScenario(f"{PROGRAM}.version", f"must be from 1 to {newest.version}")


def _shape_check(shape: str, job: Job) -> None:
    if shape == PARAMETER_SERVER and job.all_reduce:
        raise BadScenario("ps_demand", "must ask for parameter servers: the program talks to them")
    if shape != PARAMETER_SERVER and not job.all_reduce:
        sentence = f"must be empty: the program is {shape.replace('_', '-')}, and needs no parameter servers"
        raise BadScenario("ps_demand", sentence)


def _choice_read(choice: object) -> tuple[RegisteredProgram, Mapping[str, Any]]:
    if not isinstance(choice, Mapping):
        raise BadScenario(PROGRAM, "must be an object with a name and parameters")
    if unknown := sorted(set(choice) - {"name", "parameters"}):
        raise BadScenario(f"{PROGRAM}.{unknown[0]}", "is not part of a program; it has a name and parameters")
    program = PROGRAMS.get(choice["name"]) if isinstance(choice.get("name"), str) else None
    if program is None:
        raise BadScenario(f"{PROGRAM}.name", f"must be one of {', '.join(PROGRAMS)}")
    parameters = choice.get("parameters", {})
    if not isinstance(parameters, Mapping) or not all(isinstance(name, str) for name in parameters):
        raise BadScenario(f"{PROGRAM}.parameters", "must be an object")
    return program, parameters

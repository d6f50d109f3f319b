"""A program of the catalogue: the fields of a version, and how a document is read as one or refused.

A version never changes once it is used; an edit makes the next one, and a job keeps the version that it was
submitted with. `digest` is that of all fields but the version's number, so an edit that changes nothing is recognised.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from scheduling.core.names import nearest
from scheduling.programs.fields import FieldRefusal, is_kept, path_of
from scheduling.programs.parameters import (
    TEXT,
    Parameter,
    Value,
    document_of_parameter,
    read_parameter,
    read_values,
    word_of,
)
from scheduling.programs.starting import Command

PARAMETER_SERVER, ALL_REDUCE, INDEPENDENT = "parameter_server", "all_reduce", "independent"
SHAPES = (PARAMETER_SERVER, ALL_REDUCE, INDEPENDENT)
NONE, RESTART, LIVE = "none", "restart", "live"
RESIZES = (NONE, RESTART, LIVE)
ONE, EACH_GPU = "one", "each_gpu"  # how many processes a worker has
GRACE_SECONDS, MOST_GRACE = 30, 3_600
MOST_WORDS, LONGEST_WORD, LONGEST_SCRIPT = 200, 4_096, 256 * 1024
MOST_VARIABLES, MOST_PARAMETERS = 100, 50
FROM_SCRIPT = "-sbatch"  # ends the names of programs made of batch scripts, so that none has the name of another one
SLUG = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
PLACE = re.compile(r"\{([a-z][a-z0-9_]*)\}")
SHA = re.compile(r"[0-9a-f]{64}")
# Variables that are set for every process: a program cannot set them to something else.
RENDEZVOUS = (
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK",
    "TF_CONFIG", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
)  # fmt: skip


@dataclass(frozen=True)
class UnitLimits:
    """The limits of one unit. A program that exceeds one fails by its own fault, and the reason has the number. None
    means the engine's own limit."""

    memory_mebibytes: int | None = None
    processor_seconds: int | None = None
    open_files: int | None = None
    output_mebibytes: int | None = None


BOUNDS = {
    "memory_mebibytes": (1, 2**24),
    "processor_seconds": (1, 366 * 86_400 * 1_024),
    "open_files": (16, 2**20),
    "output_mebibytes": (1, 2**20),
}


@dataclass(frozen=True)
class ProgramOwner:
    """The owner of a program: a tenant, by its slug, whose members alone see it; or the operator (no tenant)."""

    tenant: str = ""


@dataclass(frozen=True)
class Program:
    """One version of a program. Either `command` has words or `script` has text."""

    name: str
    version: int
    owner: ProgramOwner
    shape: str
    title: str = ""
    description: str = ""
    command: tuple[str, ...] = ()
    script: str = ""
    image: str = ""
    modules: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()  # (variable, name in the operator's store)
    archive: str = ""  # the archive's digest
    processes_per_worker: str = ONE  # one | each_gpu
    parameters: tuple[Parameter, ...] = ()
    resize: str = NONE
    grace_seconds: int = GRACE_SECONDS
    limits: UnitLimits = UnitLimits()

    def grace_in(self, slot_seconds: float) -> float:
        """Return the seconds between the order to save and the end, in a pool of such slots: at most one slot."""
        return min(float(self.grace_seconds), slot_seconds)

    @property
    def digest(self) -> str:
        """The digest of all fields but the version's number and the tenants that the operator offers it to."""
        fields = asdict(self) | {"version": 0, "owner": self.owner.tenant}
        return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


FIELDS = (
    "name", "title", "description", "shape", "command", "script", "image", "modules", "environment", "secrets",
    "archive", "processes_per_worker", "parameters", "resize", "grace_seconds", "limits",
)  # fmt: skip


def read(document: Mapping[str, Any], owner: ProgramOwner) -> Program | tuple[FieldRefusal, ...]:
    """Read a document as the first version of a program; or return all that is wrong with it, by field."""
    refusals: list[FieldRefusal] = []
    for name in document:
        if name not in FIELDS:
            near = nearest(str(name), FIELDS)
            instead = f"; did you mean {near}?" if near else ""
            refusals.append(FieldRefusal(path_of(name), f"is no field of a program{instead}"))
    parameters = _parameters(document.get("parameters") or (), refusals)
    fields: dict[str, Any] = {
        "name": _name(document.get("name"), refusals),
        "title": _text(document, "title", 200, refusals),
        "description": _text(document, "description", 4_000, refusals, lines=True),
        "shape": _choice(document, "shape", SHAPES, "", refusals),
        "image": _text(document, "image", 500, refusals),
        "modules": _modules(document.get("modules") or (), refusals),
        "environment": _variables(document, "environment", refusals),
        "secrets": _variables(document, "secrets", refusals),
        "archive": _archive(document.get("archive") or "", refusals),
        "processes_per_worker": _choice(document, "processes_per_worker", (ONE, EACH_GPU), ONE, refusals),
        "resize": _choice(document, "resize", RESIZES, NONE, refusals),
        "grace_seconds": _whole(document, "grace_seconds", GRACE_SECONDS, (1, MOST_GRACE), refusals),
        "limits": _limits(document.get("limits") or {}, refusals),
        "command": _command(document.get("command") or (), [each.name for each in parameters], refusals),
        "script": _script(document.get("script") or "", refusals),
    }
    if bool(document.get("command")) == bool(document.get("script")):
        refusals.append(FieldRefusal("command", "must be said, or else a script; one of the two"))
    if fields["resize"] == LIVE and fields["shape"] != PARAMETER_SERVER:
        refusals.append(FieldRefusal("resize", "live is for programs with parameter servers that speak our protocol"))
    if fields["processes_per_worker"] == EACH_GPU and fields["shape"] == PARAMETER_SERVER:
        refusals.append(FieldRefusal("processes_per_worker", "must be one where there are parameter servers"))
    both = {name for name, _ in fields["environment"]} & {name for name, _ in fields["secrets"]}
    refusals += [FieldRefusal(f"secrets.{name}", "is set in environment, too") for name in sorted(both)]
    if refusals:
        return tuple(refusals)
    return Program(version=1, owner=owner, parameters=parameters, **fields)


def edit(before: Program, document: Mapping[str, Any]) -> Program | tuple[FieldRefusal, ...]:
    """Read a document as the next version, of the same owner and name. Return the version before if nothing changes."""
    after = read(document, before.owner)
    if isinstance(after, tuple):
        return after
    if after.name != before.name:
        return (FieldRefusal("name", f"must stay {before.name}: what has another name is another program"),)
    return before if after.digest == before.digest else replace(after, version=before.version + 1)


def document_of(program: Program) -> dict[str, Any]:
    """Return a version as a document, without fields that have their defaults. `read` makes the same version of it."""
    document: dict[str, Any] = {}
    for field in FIELDS:
        value = getattr(program, field)
        if field in ("name", "shape") or value != getattr(_UNSAID, field):
            document[field] = value
    for field in ("environment", "secrets"):
        if field in document:
            document[field] = dict(document[field])
    for field in ("command", "modules"):
        if field in document:
            document[field] = list(document[field])
    if "limits" in document:
        document["limits"] = {name: number for name, number in asdict(program.limits).items() if number is not None}
    if "parameters" in document:
        document["parameters"] = [document_of_parameter(parameter) for parameter in program.parameters]
    return document


_UNSAID = Program(name="", version=1, owner=ProgramOwner(), shape="")


def values_of(program: Program, values: Mapping[str, object]) -> dict[str, Value] | tuple[FieldRefusal, ...]:
    """Return every parameter with its value, or what is wrong. Where a word of the command begins with a text
    parameter, its value cannot begin with a dash: the program would take it for an option."""
    by_name = read_values(program.parameters, values)
    if isinstance(by_name, tuple):
        return by_name
    texts = [each.name for each in program.parameters if each.kind == TEXT]
    refusals = [
        FieldRefusal(f"parameters.{name}", "must not begin with a dash")
        for name in texts
        if str(by_name[name]).startswith("-") and any(word.startswith(f"{{{name}}}") for word in program.command)
    ]
    return tuple(refusals) or by_name


def words_of(program: Program, values: Mapping[str, Value], script_file: str) -> tuple[str, ...]:
    """Return the words that start a process. A parameter's value stays inside its word, whatever it has, as no shell
    reads the words. A script is a file; it gets its parameters as variables, as a value in its text would be code."""
    if program.script:
        return ("bash", "-eu", script_file)
    return tuple(PLACE.sub(lambda match: word_of(values[match[1]]), word) for word in program.command)


def command_of(program: Program, values: Mapping[str, Value], script_file: str) -> Command:
    """Return what a program's processes are started with. A script gets its parameters as variables: nothing is put
    into its text."""
    variables = dict(program.environment)
    if program.script:
        variables |= {f"BOURSE_PARAMETER_{name.upper()}": word_of(value) for name, value in values.items()}
    return Command(
        words=words_of(program, values, script_file),
        variables=variables,
        ring=program.shape == ALL_REDUCE,
        roles=program.shape == PARAMETER_SERVER,
        each_gpu=program.processes_per_worker == EACH_GPU,
    )


def _name(value: object, refusals: list[FieldRefusal]) -> str:
    if not isinstance(value, str) or not SLUG.fullmatch(value):
        refusals.append(FieldRefusal("name", "must begin with a letter a-z, then a-z, 0-9 and -, 40 at most"))
        return ""
    return value


def _text(
    document: Mapping[str, Any], field: str, longest: int, refusals: list[FieldRefusal], *, lines: bool = False
) -> str:
    value = document.get(field) or ""
    if not isinstance(value, str) or len(value) > longest or not _is_shown(value, lines=lines):
        refusals.append(FieldRefusal(field, f"must be at most {longest:,} characters that can be shown"))
        return ""
    return value


def _is_shown(text: str, *, lines: bool) -> bool:
    return (text.replace("\n", " ").replace("\t", " ") if lines else text).isprintable()


def _choice(
    document: Mapping[str, Any], field: str, among: Sequence[str], default: str, refusals: list[FieldRefusal]
) -> str:
    value = document.get(field) or default
    if value not in among:
        refusals.append(FieldRefusal(field, f"must be one of {', '.join(among)}"))
        return default
    return str(value)


def _whole(
    document: Mapping[str, Any], field: str, default: int, bounds: tuple[int, int], refusals: list[FieldRefusal]
) -> int:
    value = document.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not bounds[0] <= value <= bounds[1]:
        refusals.append(FieldRefusal(field, f"must be a whole number from {bounds[0]:,} to {bounds[1]:,}"))
        return default
    return value


def _modules(value: object, refusals: list[FieldRefusal]) -> tuple[str, ...]:
    names = list(value) if isinstance(value, list | tuple) else [None]
    if len(names) > 50 or not all(
        isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+/-]{0,99}", name, re.ASCII) for name in names
    ):
        refusals.append(FieldRefusal("modules", "must be at most 50 names of modules"))
        return ()
    return tuple(map(str, names))


def _variables(document: Mapping[str, Any], field: str, refusals: list[FieldRefusal]) -> tuple[tuple[str, str], ...]:
    value = document.get(field) or {}
    if not isinstance(value, Mapping) or len(value) > MOST_VARIABLES:
        refusals.append(FieldRefusal(field, f"must be an object of at most {MOST_VARIABLES} variables"))
        return ()
    for name, text in value.items():
        place = f"{field}.{path_of(name)}"
        if not isinstance(name, str) or not VARIABLE.fullmatch(name):
            refusals.append(FieldRefusal(place, "is no name of a variable"))
        elif name in RENDEZVOUS or name.startswith("BOURSE_"):
            refusals.append(FieldRefusal(place, "is set for every process, and cannot be another value"))
        elif field == "secrets" and not (isinstance(text, str) and SLUG.fullmatch(text)):
            refusals.append(FieldRefusal(place, "must be the name of a secret in the operator's store"))
        elif not isinstance(text, str) or len(text) > LONGEST_WORD or not is_kept(text):
            refusals.append(FieldRefusal(place, f"must be a text of at most {LONGEST_WORD:,} characters"))
    return tuple(sorted((str(name), str(text)) for name, text in value.items()))


def _archive(value: object, refusals: list[FieldRefusal]) -> str:
    if value == "" or (isinstance(value, str) and SHA.fullmatch(value)):
        return str(value)
    refusals.append(FieldRefusal("archive", "must be the digest of an archive that was uploaded"))
    return ""


def _limits(value: object, refusals: list[FieldRefusal]) -> UnitLimits:
    if not isinstance(value, Mapping):
        refusals.append(FieldRefusal("limits", "must be an object"))
        return UnitLimits()
    refusals += [FieldRefusal(f"limits.{path_of(name)}", "is no limit") for name in value if name not in BOUNDS]
    numbers: dict[str, int] = {}
    for name, (least, most) in BOUNDS.items():
        number = value.get(name)
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            refusals.append(FieldRefusal(f"limits.{name}", f"must be a whole number from {least:,} to {most:,}"))
        else:
            numbers[name] = number
    return UnitLimits(**numbers)


def _parameters(value: object, refusals: list[FieldRefusal]) -> tuple[Parameter, ...]:
    if not isinstance(value, list | tuple) or len(value) > MOST_PARAMETERS:
        refusals.append(FieldRefusal("parameters", f"must be a list of at most {MOST_PARAMETERS} parameters"))
        return ()
    parameters: list[Parameter] = []
    for index, row in enumerate(value):
        place = f"parameters[{index}]"
        if not isinstance(row, Mapping):
            refusals.append(FieldRefusal(place, "must be an object"))
            continue
        parameter = read_parameter(row, place)
        if isinstance(parameter, tuple):
            refusals += parameter
        elif parameter.name in [each.name for each in parameters]:
            refusals.append(FieldRefusal(f"{place}.name", f"{parameter.name} is the name of another parameter already"))
        else:
            parameters.append(parameter)
    return tuple(parameters)


def _command(value: object, names: Sequence[str], refusals: list[FieldRefusal]) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        refusals.append(FieldRefusal("command", "must be a list of words, not a line: no shell reads it"))
        return ()
    if len(value) > MOST_WORDS:
        refusals.append(FieldRefusal("command", f"must be at most {MOST_WORDS} words"))
        return ()
    for index, word in enumerate(value):
        place = f"command[{index}]"
        if not isinstance(word, str) or len(word) > LONGEST_WORD or not is_kept(word) or (not word and index == 0):
            refusals.append(FieldRefusal(place, f"must be a word of at most {LONGEST_WORD:,} characters"))
            continue
        inside = PLACE.findall(word)
        if index == 0 and inside:
            refusals.append(FieldRefusal(place, "names what is started, and a parameter cannot choose that"))
        for name in inside:
            if name not in names:
                near = nearest(name, names)
                instead = f"; did you mean {{{near}}}?" if near else ""
                refusals.append(FieldRefusal(place, f"{{{name}}} is no parameter{instead}"))
    return tuple(map(str, value))


def _script(value: object, refusals: list[FieldRefusal]) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_SCRIPT or not is_kept(value):
        refusals.append(FieldRefusal("script", f"must be a text of at most {LONGEST_SCRIPT:,} characters"))
        return ""
    if "\r" in value:
        refusals.append(FieldRefusal("script", "must have Unix line breaks: bash cannot run others"))
    return value

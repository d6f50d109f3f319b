"""Make the program that a batch script becomes: one of the tenant's own, named after the job, with a version for each
text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import IO, Any

from scheduling.catalogue import MAY_NOT_BRING, archive_names, program_register
from scheduling.common import as_sentence
from scheduling.models import PROGRAM, CatalogueProgram, ProgramSwitch, ProgramVersion
from scheduling.programs.catalogue import (
    ALL_REDUCE,
    EACH_GPU,
    FROM_SCRIPT,
    INDEPENDENT,
    NONE,
    ONE,
    RESTART,
    SLUG,
    Program,
    ProgramOwner,
    read,
)
from scheduling.programs.sbatch import IGNORED, NOT_KEPT, UNDERSTOOD, LineRefusal, OptionLine, Script
from scheduling.programs.sbatch.beginning import beginning, notes, whole_text
from scheduling.programs.sbatch.files_missing import FileNames, files_missing
from scheduling.programs.sbatch.launchers import calls
from scheduling.programs.sbatch.request import ScriptRequest
from scheduling.programs.sbatch.steps import steps
from scheduling.programs.sbatch.variables import LOCAL, NODES, PROCESSES, variables_missing
from tenants.access import Access, Refused
from tenants.roles import Permission

INDEX = "index"
NEEDS_SCOPE = Refused(
    "not_allowed",
    "The script becomes a program of the tenant: whoever submits it must be allowed to register programs.",
)


def has_commands(script: Script) -> bool:
    """Return whether anything of the script would run; else it only says what to reserve."""
    return _first_command(script) is not None


def script_document(
    script: Script, request: ScriptRequest, name: str, archive: str = ""
) -> dict[str, Any] | tuple[LineRefusal, ...]:
    """Return the script as a document of the catalogue, or why its processes cannot be started as it says. `archive` is
    the digest of the files that come along."""
    tasks, processes, gpus = request.processes_per_worker, _processes(script, request), request.gpus_per_worker
    if processes not in (1, gpus):
        field = "ntasks_per_node" if script.place("ntasks_per_node") else "ntasks"
        option = f"--{field.replace('_', '-')}"
        sentence = f"{option} cannot be kept: a worker has one process, or one for each of its {gpus} GPUs"
        return (LineRefusal(script.place(field), option, sentence, "--ntasks-per-node=1"),)
    export = script.options.export
    return {
        "name": _slug(name),
        "title": name,
        "shape": INDEPENDENT if request.job.most * processes == 1 else ALL_REDUCE,
        "script": _text(script, name, gpus, tasks // processes),
        "environment": dict(export.variables) if export else {},
        "parameters": [_index(script.options.array)] if script.options.array else [],
        "processes_per_worker": EACH_GPU if processes > 1 else ONE,
        "resize": NONE if request.job.least == request.job.most else RESTART,
        "limits": {} if request.memory_per_worker is None else {"memory_mebibytes": request.memory_per_worker},
    } | ({"archive": archive} if archive else {})


def script_lines(
    script: Script,
    request: ScriptRequest,
    name: str,
    lines: tuple[OptionLine, ...],
    files: FileNames | None,
    files_field: str = "",
) -> Iterator[OptionLine]:
    """Yield the lines of the script's head as a program keeps them, and what becomes of its commands. `files` are those
    that come along, or None where nobody knows; `files_field` is the field of a form that takes them."""
    for line in lines:
        option = line.option.split("=")[0]
        if option in ("--output", "-o") and line.verdict == UNDERSTOOD:
            yield replace(line, verdict=IGNORED, sentence="What it prints is the log on the job's page.")
        elif option == "--export" and script.options.export and script.options.export.everything:
            sentence = "What is set where you submit is not known here; the variables that are named are set."
            yield replace(line, verdict=NOT_KEPT, sentence=sentence)
        else:
            yield line
    first, most, local = _first_command(script), request.job.most, _processes(script, request)
    if first is None:
        return
    where = "on its worker" if most == 1 else f"on each of its {most} workers"
    where = where if local == 1 else f"in each of {local} processes {where}"
    where = where if most * local == 1 else f"{where}, told of the others as env:// reads it"
    yield OptionLine(first, "", UNDERSTOOD, f"The script runs as the program {_slug(name)}, {where}.")
    for number, flaw in steps(script, _values(request, local)):
        if flaw:
            sentence = f"srun with {flaw} ends the script: here a command runs in every process of the job."
            yield OptionLine(number, "", NOT_KEPT, sentence)
        else:
            yield OptionLine(number, "", UNDERSTOOD, "What srun starts runs where the script runs, in every process.")
    for number, is_kept, sentence in notes(script, most, request.gpus_per_worker):
        yield OptionLine(number, "", UNDERSTOOD if is_kept else NOT_KEPT, sentence)
    for number, variable in variables_missing(script, request.gpus_per_worker):
        ends = "the script ends where it uses it" if "u" in script.shell_options else "it is empty"
        yield OptionLine(number, "", NOT_KEPT, f"{variable} is not set here, and {ends}.")
    for number, file in files_missing(script, files) if files is not None else ():
        yield OptionLine(number, "", NOT_KEPT, f"{file} does not come along: {_way_along(file, files_field)}.")


def next_version(document: Mapping[str, Any], parameters: Mapping[str, Any], by: Access) -> dict[str, Any] | Refused:
    """Return the program as a specification names it: the newest version if it says just this, else the version that
    registering it would make. Nothing is registered."""
    if by.tenant is None or not by.allows(Permission.PROGRAMS_REGISTER):
        return NEEDS_SCOPE
    if not ProgramSwitch.objects.filter(tenant=by.tenant, may_bring=True).exists():
        return MAY_NOT_BRING
    program = read(document, ProgramOwner(by.tenant.slug))
    if not isinstance(program, Program):
        return Refused(
            "invalid_program", as_sentence(f"The script cannot be a program: {program[0].field} {program[0].sentence}")
        )
    own = CatalogueProgram.objects.filter(tenant=by.tenant, name=program.name)
    newest = ProgramVersion.objects.filter(program__in=own).order_by("-version").first()
    version = 1 if newest is None else newest.version + (newest.digest != program.digest)
    return {PROGRAM: {"name": program.name, "version": version, "parameters": dict(parameters)}}


def script_register(
    document: Mapping[str, Any],
    parameters: Mapping[str, Any],
    *,
    by: Access,
    at: datetime,
    archive: IO[bytes] | None = None,
) -> dict[str, Any] | Refused:
    """Return the same after registering it: the version is found by its digest, or made. `archive` has the files that
    come along, where they were not sent before."""
    outcome = program_register(document=document, archive=archive, by=by, at=at)
    if isinstance(outcome, Refused):
        return Refused(outcome.code, outcome.sentence)  # its faults name fields of a document that nobody wrote
    return {PROGRAM: {"name": str(document["name"]), "version": outcome.row.version, "parameters": dict(parameters)}}


def files_brought(archive: str, by: Access) -> FileNames | None:
    """Return what is in an archive that the tenant has sent before; None if there is none, or none of the tenant's."""
    own = ProgramVersion.objects.filter(program__tenant=by.tenant, archive=archive)
    if by.tenant is None or not own.exists() or (names := archive_names(archive)) is None:
        return None
    return FileNames(frozenset(b"/".join(path).decode("utf-8", "replace") for path in names))


def _way_along(file: str, field: str) -> str:
    """Return what helps where a script names a file that does not come along. `field` is the form's field for files, or
    empty where there is no form."""
    if file.startswith("../"):
        return "only what lies below the folder of the submission can"
    if file.endswith("bin/activate"):
        return "an environment is to be one that the servers have, by its whole path or as a module"
    return f"bring it in a tar.gz, under “{field}”" if field else f"bring it with --with {shlex.quote(file)}"


def _slug(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    slug = (plain if SLUG.match(plain) else f"job-{plain}")[: 40 - len(FROM_SCRIPT)].strip("-")
    return slug + FROM_SCRIPT


def _index(indexes: Sequence[int]) -> dict[str, Any]:
    """Return the parameter that says which member of an array a job is."""
    return {"name": INDEX, "kind": "whole", "default": indexes[0], "least": 0, "most": 10**9, "title": "Index"}


def _processes(script: Script, request: ScriptRequest) -> int:
    """Return how many processes of each worker we start. A launcher starts them itself, so that the script runs once
    there, as on Slurm."""
    return 1 if any(calls(script)) else request.processes_per_worker


def _values(request: ScriptRequest, local: int) -> dict[str, str]:
    """Return the counts that `srun` may ask for, as far as they are known before the job runs."""
    fixed = request.job.least == request.job.most
    values = {LOCAL: str(local)}
    return values | ({PROCESSES: str(request.job.most * local), NODES: str(request.job.most)} if fixed else {})


def _text(script: Script, name: str, gpus: int, tasks: int) -> str:
    """Return the whole script, with a command before its second line that sets what Slurm would have set."""
    return whole_text(script.body, beginning(script, name, f"BOURSE_PARAMETER_{INDEX.upper()}", gpus, tasks))


def _first_command(script: Script) -> int | None:
    """Return the number of the line with its first command."""
    return next((command.line for command in script.shell.commands), None)

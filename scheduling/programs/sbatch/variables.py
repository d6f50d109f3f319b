"""Slurm's variables: those that a script names are set for it, as far as their values are known here."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scheduling.programs.sbatch.known import variables_set
from scheduling.programs.sbatch.reading import Options, Script

ARRAY_INDEX = "SLURM_ARRAY_TASK_ID"
NAMED = re.compile(r"\bSLURMD?_[A-Z0-9_]+")
USED = re.compile(r"\$(?:\{(SLURM_[A-Z0-9_]+)\b(?!:?[-+=])|(SLURM_[A-Z0-9_]+))")  # ${NAME:-...} needs no value
# The value of each variable as a shell writes it: from what every process gets, and what `env://` reads if there are
# several processes.
PROCESSES, LOCAL = "${WORLD_SIZE:-1}", "${LOCAL_WORLD_SIZE:-1}"
NODES = f"$(({PROCESSES} / {LOCAL}))"
VALUES = {
    "SLURM_JOB_ID": '"$BOURSE_JOB"',
    "SLURM_JOBID": '"$BOURSE_JOB"',
    "SLURM_SUBMIT_DIR": '"$HOME"',
    "SLURM_NTASKS": PROCESSES,
    "SLURM_NPROCS": PROCESSES,
    "SLURM_NTASKS_PER_NODE": LOCAL,
    "SLURM_JOB_NUM_NODES": NODES,
    "SLURM_NNODES": NODES,
    "SLURM_PROCID": "${RANK:-0}",
    "SLURM_LOCALID": "${LOCAL_RANK:-0}",
    "SLURM_NODEID": "${NODE_RANK:-0}",
    "SLURM_JOB_NODELIST": '"$BOURSE_HOSTS"',
    "SLURM_NODELIST": '"$BOURSE_HOSTS"',
    "SLURM_LAUNCH_NODE_IPADDR": '"${BOURSE_HOSTS%%,*}"',
    "SLURMD_NODENAME": '"$(echo "$BOURSE_HOSTS" | cut -d, -f$((${NODE_RANK:-0} + 1)))"',
    "SLURM_TASKS_PER_NODE": LOCAL,
    "SLURM_JOB_END_TIME": '"$BOURSE_ENDS_AT"',
    "SLURM_RESTART_COUNT": '"$BOURSE_RESTART"',
    "SLURM_JOB_USER": '"$USER"',
}


def variables_told(script: Script, name: str, index: str, gpus: int, tasks: int = 1) -> Iterator[tuple[str, str]]:
    """Yield each variable that the script names and that has a value here, as a shell sets it. `index` is the variable
    that holds the index of an array's member, `gpus` the GPUs of a worker, and `tasks` the number of Slurm's processes
    for each process of a worker here."""
    values = VALUES | (_of_tasks(tasks) if tasks > 1 else {}) | _by_options(script.options, name, gpus)
    if script.options.array:
        yield ARRAY_INDEX, f'"${index}"'
    named = set(NAMED.findall(script.shell.text))
    yield from sorted((variable, values[variable]) for variable in named & values.keys())


def variables_missing(script: Script, gpus: int) -> Iterator[tuple[int, str]]:
    """Yield each variable that the script uses and nothing sets, with the first line that uses it."""
    names = {*VALUES, *_by_options(script.options, "", gpus), *([ARRAY_INDEX] if script.options.array else [])}
    sets = [(command.line, name) for command in script.shell.commands for name, _ in variables_set(command.words)]
    first = {name: number for number, name in reversed(sets)}
    for number, match in script.shell.places(USED):
        if (variable := match[1] or match[2]) not in names and first.get(variable, number + 1) > number:
            names.add(variable)
            yield number, variable


def _of_tasks(tasks: int) -> dict[str, str]:
    """Return the values of the counts if a launcher starts `tasks` processes for each process here."""
    in_all, local = f"$(({PROCESSES} * {tasks}))", str(tasks)
    counts = {"SLURM_NTASKS": in_all, "SLURM_NPROCS": in_all}
    return counts | {"SLURM_NTASKS_PER_NODE": local, "SLURM_TASKS_PER_NODE": local}


def _by_options(options: Options, name: str, gpus: int) -> dict[str, str]:
    """Return the variables that Slurm sets if the script has their option."""
    values = {"SLURM_JOB_NAME": quoted(options.job_name or name)}
    if options.cpus_per_task is not None:
        values["SLURM_CPUS_PER_TASK"] = str(options.cpus_per_task)
    if gpus:
        values |= {"SLURM_GPUS_ON_NODE": str(gpus), "SLURM_GPUS_PER_NODE": str(gpus)}
    if options.array:
        first, last = min(options.array), max(options.array)
        values |= {"SLURM_ARRAY_TASK_MIN": str(first), "SLURM_ARRAY_TASK_MAX": str(last)}
        values["SLURM_ARRAY_TASK_COUNT"] = str(len(options.array))
    return values


def quoted(text: str) -> str:
    """Return the text as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"

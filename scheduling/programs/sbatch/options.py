"""The options that a #SBATCH line may have: those that are read, those that change nothing here, those that are not
kept, and those that are refused.

A name in none of these lists is not an option of sbatch, and is refused, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.programs.sbatch import values
from scheduling.programs.sbatch.values import BadValue


@dataclass(frozen=True)
class Supported:
    """An option that is read. `field` is its name in `Options`; `meaning` is the sentence that reports it."""

    field: str
    read: Callable[[str], Any]
    meaning: str


def _many(text: str) -> int | BadValue:
    return values.whole(text)


SUPPORTED: Mapping[str, Supported] = {
    "job-name": Supported("job_name", values.plain_text, "The job is called so."),
    "nodes": Supported("nodes", values.nodes, "Each node is one worker of the job."),
    "ntasks": Supported("ntasks", _many, "So many processes run together."),
    "ntasks-per-node": Supported("ntasks_per_node", _many, "So many processes run on each worker."),
    "gpus": Supported("gpus", values.gpus, "So many GPUs in all."),
    "gres": Supported("gres", values.gres, "So many GPUs on each worker."),
    "gpus-per-node": Supported("gpus_per_node", values.gpus, "So many GPUs on each worker."),
    "gpus-per-task": Supported("gpus_per_task", values.gpus, "So many GPUs for each process."),
    "cpus-per-task": Supported("cpus_per_task", _many, "So many processors for each process."),
    "mem": Supported("mem", values.memory, "So much memory on each worker."),
    "mem-per-gpu": Supported("mem_per_gpu", values.memory, "So much memory for each GPU."),
    "time": Supported("time", values.duration, "The job is bought for so long."),
    "array": Supported("array", values.indexes, "One job for each index."),
    "dependency": Supported(
        "dependency", values.after_ok, "It begins when these jobs, and all jobs of these arrays, have ended well."
    ),
    "chdir": Supported("chdir", values.path, "The script starts in this folder."),
    "output": Supported("output", values.pattern, "What it prints is the job's log, under this name."),
    "export": Supported("export", values.export, "It starts with these variables."),
    "constraint": Supported("constraint", values.constraint, "Only servers that have this."),
    "nodelist": Supported("nodelist", values.hosts, "Only these servers."),
    "exclude": Supported("exclude", values.hosts, "None of these servers."),
    "begin": Supported("begin", values.moment, "It begins not before this."),
    "deadline": Supported("deadline", values.moment, "After this it is worth nothing."),
}

SHORTS: Mapping[str, str] = {
    "J": "job-name", "N": "nodes", "n": "ntasks", "G": "gpus", "c": "cpus-per-task", "t": "time", "a": "array",
    "d": "dependency", "D": "chdir", "o": "output", "C": "constraint", "w": "nodelist", "x": "exclude", "b": "begin",
    "A": "account", "p": "partition", "q": "qos", "e": "error", "i": "input", "v": "verbose", "Q": "quiet",
    "H": "hold", "s": "oversubscribe", "O": "overcommit", "L": "licenses", "F": "nodefile", "m": "distribution",
    "k": "no-kill", "S": "core-spec", "B": "extra-node-info", "W": "wait", "M": "clusters",
}  # fmt: skip

# Options that do not change what is computed, on how many resources, or when.
IGNORED: Mapping[str, str] = {
    "account": "Your tenant pays.",
    "partition": "You choose the pool where you submit.",
    "qos": "What a job is worth decides, not a quality of service.",
    "comment": "It is for people.",
    "wckey": "Costs are told by job and by tenant.",
    "mail-type": "Events are told by webhooks.",
    "mail-user": "Events are told by webhooks.",
    "verbose": "It is about what sbatch prints.",
    "quiet": "It is about what sbatch prints.",
    "parsable": "It is about what sbatch prints.",
    "requeue": "A job that the platform could not bring to its end starts again anyway.",
    "nice": "What a job is worth decides, not a niceness.",
    "priority": "What a job is worth decides, not a priority.",
    "kill-on-invalid-dep": "A job whose dependency cannot be met any more is taken back anyway.",
    "cluster-constraint": "There is one cluster.",
    "clusters": "There is one cluster.",
    "spread-job": "The market places the workers.",
    "use-min-nodes": "The market places the workers.",
    "contiguous": "The market places the workers.",
    "profile": "Measurements are taken anyway.",
    "acctg-freq": "Measurements are taken anyway.",
    "bell": "It is about what sbatch prints.",
}
NOT_KEPT: Mapping[str, str] = {
    "error": "Errors go into the same log as all that is printed.",
    "open-mode": "Each start of a job has a log of its own.",
    "no-requeue": "A job that the platform could not bring to its end is started again.",
    "oversubscribe": "Units are held by one job at a time.",
    "wait-all-nodes": "All workers of a job start together.",
}

# Options that would change what runs, on what, or when: for each why it is refused, and the nearest allowed text.
REFUSED: Mapping[str, tuple[str, str]] = {
    "exclusive": ("whole nodes cannot be had for oneself: say how many GPUs, processors and how much memory", "--mem="),
    "mem-per-cpu": ("memory is said for a node or for a GPU", "--mem="),
    "ntasks-per-gpu": ("processes are said for a node", "--ntasks-per-node="),
    "ntasks-per-core": ("processes are said for a node", "--ntasks-per-node="),
    "ntasks-per-socket": ("processes are said for a node", "--ntasks-per-node="),
    "gpus-per-socket": ("GPUs are said for a node or a process", "--gpus-per-node="),
    "cpus-per-gpu": ("processors are said for a process", "--cpus-per-task="),
    "cores-per-socket": ("processors are said for a process", "--cpus-per-task="),
    "sockets-per-node": ("processors are said for a process", "--cpus-per-task="),
    "threads-per-core": ("processors are said for a process", "--cpus-per-task="),
    "extra-node-info": ("processors are said for a process", "--cpus-per-task="),
    "mincpus": ("processors are said for a process", "--cpus-per-task="),
    "core-spec": ("processors are said for a process", "--cpus-per-task="),
    "thread-spec": ("processors are said for a process", "--cpus-per-task="),
    "time-min": ("a job has one length", "--time="),
    "tmp": ("room on disks is not for sale", ""),
    "licenses": ("licences are not for sale", ""),
    "reservation": ("what is reserved is bought in the market", "--begin="),
    "signal": ("a script is told by SIGTERM, so many seconds before the end as its program says", ""),
    "hold": ("a job waits for a time or for other jobs, not for a hand", "--begin="),
    "wrap": ("the script itself is what runs", ""),
    "test-only": ("ask for a quote", ""),
    "wait": ("submitting does not wait", ""),
    "input": ("a script reads no input: name the file in a command", ""),
    "propagate": ("limits are the program's", ""),
    "uid": ("a program runs under its tenant's own account", ""),
    "gid": ("a program runs under its tenant's own account", ""),
    "get-user-env": ("variables are set by name", "--export="),
    "export-file": ("variables are set by name", "--export="),
    "nodefile": ("servers are named in the line itself", "--nodelist="),
    "prefer": ("a server has a feature or it is not used", "--constraint="),
    "overcommit": ("each process has processors of its own", "--cpus-per-task="),
    "no-kill": ("workers of a job run together or not at all", ""),
    "distribution": ("processes are dealt to workers in their order", "--ntasks-per-node="),
    "hint": ("processors are said for a process", "--cpus-per-task="),
    "mem-bind": ("where a process sits in its node is the engine's", ""),
    "cpu-freq": ("how fast processors run is the engine's", ""),
    "gpu-bind": ("where a process sits in its node is the engine's", ""),
    "gpu-freq": ("how fast GPUs run is the engine's", ""),
    "gres-flags": ("where a process sits in its node is the engine's", ""),
    "switches": ("the market places the workers", "--nodelist="),
    "network": ("networks are not for sale apart", ""),
    "burst-buffer": ("room on disks is not for sale", ""),
    "bb": ("room on disks is not for sale", ""),
    "bbf": ("room on disks is not for sale", ""),
    "bcast": ("programs come by their archive", ""),
    "container": ("an image belongs to a program", ""),
    "delay-boot": ("servers are on", ""),
    "power": ("servers are on", ""),
    "reboot": ("servers are on", ""),
    "ignore-pbs": ("lines of PBS are comments here anyway", ""),
    "stepmgr": ("steps of Slurm are not known here", ""),
    "tres-per-task": ("GPUs are said for a node or a process", "--gpus-per-task="),
    "segment": ("the market places the workers", ""),
    "resv-ports": ("ports are the engine's", ""),
    "mcs-label": ("who sees a job is its tenant's", ""),
    "extra": ("nothing reads it", ""),
    "batch": ("the script starts on the first worker", "--constraint="),
    "oom-kill-step": ("a program that takes too much memory is ended as a whole", ""),
}

# Options of #BOURSE lines: for each the field, its value, and the sentence that reports it.
OURS: Mapping[str, tuple[str, bool, str]] = {
    "--divisible": ("divisible", True, "It can be saved and go on later, so it may rent in pieces."),
    "--whole": ("divisible", False, "It is sold as a whole, from its start to its end."),
}

# Options without a value; all others take one.
FLAGS = frozenset({
    "verbose", "quiet", "parsable", "requeue", "no-requeue", "hold", "spread-job", "use-min-nodes", "contiguous",
    "overcommit", "oversubscribe", "exclusive", "test-only", "wait", "no-kill", "ignore-pbs", "reboot", "bell",
    "get-user-env", "stepmgr", "nice", "resv-ports",
})  # fmt: skip
OPTION_NAMES = (*SUPPORTED, *IGNORED, *NOT_KEPT, *REFUSED)

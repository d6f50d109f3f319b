"""The request of a batch script, in workers of a pool, in the same form as a job that is described in hours.

A worker is a node if the script has options for nodes, a process if it has options for processes, and else a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scheduling.core.names import nearest
from scheduling.programs.hours import MOST_WORKERS, InHours
from scheduling.programs.sbatch.lines import NOT_KEPT, LineRefusal, OptionLine
from scheduling.programs.sbatch.options import SHORTS
from scheduling.programs.sbatch.reading import Options, Script
from scheduling.programs.sbatch.values import Nodes

GPUS = ("gpu", "worker")  # names of GPUs in a pool that does not distinguish types
MEMORY, MEBIBYTES = "memory", 1024  # the name of memory in a pool, and the mebibytes of a unit


@dataclass(frozen=True)
class ScriptRequest:
    """The job in hours, the processes and GPUs of each worker, and what of the script this pool cannot keep."""

    job: InHours
    processes_per_worker: int
    not_kept: tuple[OptionLine, ...] = ()
    gpus_per_worker: int = 0
    memory_per_worker: int | None = None  # mebibytes that it may take; None if the script does not say


@dataclass(frozen=True)
class _Workers:
    """The workers of a job: `least` to `most` of them, each with `processes` processes that share `gpus` GPUs.
    `is_node` says that a worker is a node."""

    least: int
    most: int
    gpus: int
    processes: int
    is_node: bool


def ask(script: Script, resources: Sequence[str]) -> ScriptRequest | tuple[LineRefusal, ...]:
    """Return what the script requests of a pool with these resources, or why that is impossible."""
    options = script.options
    if refusals := tuple(_contradictions(script)):
        return refusals
    if options.time is None:
        return (LineRefusal(1, "--time", "--time must be said: what is bought is so much time", "--time=6:00:00"),)
    workers = _workers(script)
    if isinstance(workers, LineRefusal):
        return (workers,)
    if workers.most > MOST_WORKERS:
        line = max(script.place(field) for field in ("nodes", "ntasks", "gpus"))
        return (LineRefusal(line, "", f"asks for {workers.most:,} workers, and a job has at most {MOST_WORKERS:,}"),)
    demand = _demand(script, workers, resources)
    if isinstance(demand, LineRefusal):
        return (demand,)
    worker, lines = demand
    job = InHours(options.time, workers.most, workers.least, tuple(sorted(worker.items())))
    memory = options.mem if options.mem_per_gpu is None else options.mem_per_gpu * workers.gpus
    return ScriptRequest(job, workers.processes, tuple(lines), workers.gpus, memory)


def lines_here(script: Script, request: ScriptRequest) -> tuple[OptionLine, ...]:
    """Return the lines of a script, marked where this pool does not keep what they ask for."""
    unkept = {(line.number, line.option): line.sentence for line in request.not_kept}
    return tuple(
        replace(line, verdict=NOT_KEPT, sentence=sentence)
        if (sentence := unkept.get((line.number, _long(line.option))))
        else line
        for line in script.lines
    )


def _long(option: str) -> str:
    """Return an option's long form, such as --nodes for -N."""
    return f"--{SHORTS[option[1]]}" if option[1:] in SHORTS else option


def _contradictions(script: Script) -> Iterator[LineRefusal]:
    """Yield a refusal for lines that contradict each other."""
    options = script.options
    pairs = (("gres", "gpus_per_node"), ("mem", "mem_per_gpu"))
    for one, other in pairs:
        first, second = getattr(options, one), getattr(options, other)
        if first is None or second is None or (one == "gres" and first == second):
            continue
        line = max(script.place(one), script.place(other))
        names = f"--{one.replace('_', '-')} and --{other.replace('_', '-')}"
        yield LineRefusal(line, "", f"{names} say two things: leave one out", f"--{other.replace('_', '-')}=")
    kinds = {field: getattr(options, field).kind for field in ("gpus", "gres", "gpus_per_node", "gpus_per_task")
             if getattr(options, field) is not None}  # fmt: skip
    if len({kind for kind in kinds.values() if kind}) > 1:
        yield LineRefusal(
            max(script.place(field) for field in kinds), "", "names another type of GPU than a line before"
        )


def _workers(script: Script) -> _Workers | LineRefusal:
    """Return the number of workers, and the GPUs and processes of each."""
    options = script.options
    per_node = options.gpus_per_node or options.gres
    if options.nodes or options.ntasks_per_node or per_node:
        return _nodes(script, options, None if per_node is None else per_node.count)
    tasks = options.ntasks or 1
    if options.gpus_per_task is not None:
        if options.gpus is not None and options.ntasks is None:
            tasks = max(1, -(-options.gpus.count // options.gpus_per_task.count))
        if options.gpus is not None and options.gpus.count != tasks * options.gpus_per_task.count:
            return _uneven(script, "gpus", tasks * options.gpus_per_task.count, "as the processes have together")
        return _Workers(tasks, tasks, options.gpus_per_task.count, 1, is_node=False)
    if options.gpus is None:
        return _Workers(tasks, tasks, 0, 1, is_node=False)
    count = options.gpus.count
    if options.ntasks is None and options.cpus_per_task is None:
        return _Workers(count, count, 1, 1, is_node=False)
    if count % tasks:
        return _uneven(script, "gpus", -(-count // tasks) * tasks, f"that {tasks} processes share evenly")
    return _Workers(tasks, tasks, count // tasks, 1, is_node=False)


def _nodes(script: Script, options: Options, gpus: int | None) -> _Workers | LineRefusal:
    """Return the workers of a script in which a worker is a node."""
    nodes, tasks = options.nodes, options.ntasks_per_node
    if nodes is None:
        needed = 1
        if options.ntasks is not None and tasks is not None:
            needed = -(-options.ntasks // tasks)
        elif options.gpus is not None and gpus:
            needed = -(-options.gpus.count // gpus)
        nodes = Nodes(needed, needed)
    if nodes.least != nodes.most and (options.ntasks is not None or options.gpus is not None):
        sentence = "--nodes is a range, and --ntasks or --gpus a number for all of them: say it for each node"
        return LineRefusal(script.place("nodes"), "--nodes", sentence, f"--nodes={nodes.most}")
    if tasks is None:
        tasks = 1
        if options.ntasks is not None:
            if options.ntasks % nodes.most:
                fitting = -(-options.ntasks // nodes.most) * nodes.most
                return _uneven(script, "ntasks", fitting, f"that {nodes.most} nodes share evenly")
            tasks = options.ntasks // nodes.most
    elif options.ntasks is not None and options.ntasks != tasks * nodes.most:
        return _uneven(script, "ntasks", tasks * nodes.most, "as --nodes and --ntasks-per-node say")
    if options.gpus_per_task is not None:
        of_tasks = options.gpus_per_task.count * tasks
        if gpus is not None and gpus != of_tasks:
            field = "gpus_per_node" if options.gpus_per_node else "gres"
            return _uneven(script, field, of_tasks, "as the processes of a node have together")
        gpus = of_tasks
    if options.gpus is not None:
        if options.gpus.count % nodes.most:
            fitting = -(-options.gpus.count // nodes.most) * nodes.most
            return _uneven(script, "gpus", fitting, f"that {nodes.most} nodes share evenly")
        each = options.gpus.count // nodes.most
        if gpus is not None and gpus != each:
            return _uneven(script, "gpus", gpus * nodes.most, "as the nodes have together")
        gpus = each
    return _Workers(nodes.least, nodes.most, gpus or 0, tasks, is_node=True)


def _uneven(script: Script, field: str, fitting: int, why: str) -> LineRefusal:
    name = f"--{field.replace('_', '-')}"
    nearest_value = f"gpu:{fitting}" if field == "gres" else str(fitting)
    return LineRefusal(script.place(field), name, f"{name} must be a number {why}", f"{name}={nearest_value}")


def _demand(
    script: Script, workers: _Workers, resources: Sequence[str]
) -> tuple[dict[str, float], list[OptionLine]] | LineRefusal:
    """Return what a worker takes of each resource, and the options that this pool cannot keep because it does not count
    the resource."""
    options = script.options
    demand: dict[str, float] = {}
    lines: list[OptionLine] = []
    if workers.gpus:
        field, gpus = next(
            (field, value)
            for field in ("gpus_per_node", "gres", "gpus_per_task", "gpus")
            if (value := getattr(options, field)) is not None
        )
        kinds = [getattr(options, each).kind for each in ("gpus", "gres", "gpus_per_node", "gpus_per_task")
                 if getattr(options, each) is not None]  # fmt: skip
        kind = next((each for each in kinds if each), gpus.kind)
        names = (f"gpu-{kind}", f"gpu_{kind}", kind) if kind else GPUS
        resource = next((name for name in names if name in resources), None)
        if resource is None:
            line, option = script.place(field), f"--{field.replace('_', '-')}"
            wanted = f"GPUs of the type {kind}" if kind else "GPUs"
            return LineRefusal(line, option, f"the pool has no {wanted}", nearest(names[0], resources))
        demand[resource] = float(workers.gpus)
    cpus = (options.cpus_per_task or (0 if workers.gpus else 1)) * workers.processes
    if cpus and "cpu" in resources:
        demand["cpu"] = float(cpus)
    elif options.cpus_per_task:
        place = script.place("cpus_per_task")
        lines.append(OptionLine(place, "--cpus-per-task", NOT_KEPT, "The pool does not count processors."))
    memory = options.mem
    if memory is not None and not workers.is_node and workers.most > 1:
        sentence = "--mem is that of a node: say how many nodes, or the memory of a GPU"
        return LineRefusal(script.place("mem"), "--mem", sentence, "--nodes=" if not workers.gpus else "--mem-per-gpu=")
    if options.mem_per_gpu is not None:
        if not workers.gpus:
            line = script.place("mem_per_gpu")
            return LineRefusal(line, "--mem-per-gpu", "there is no GPU whose memory it could be", "--mem=")
        memory = options.mem_per_gpu * workers.gpus
    if memory is not None and MEMORY in resources:
        demand[MEMORY] = float(-(-memory // MEBIBYTES))
    elif memory is not None:
        field = "mem" if options.mem is not None else "mem_per_gpu"
        option = f"--{field.replace('_', '-')}"
        sentence = "A worker may take so much. The pool does not count memory, so none is set aside for it."
        lines.append(OptionLine(script.place(field), option, NOT_KEPT, sentence))
    if not demand:
        if "worker" not in resources:
            return LineRefusal(1, "", "asks for nothing that the pool counts", "--gpus=1")
        demand["worker"] = 1.0
    return demand, lines

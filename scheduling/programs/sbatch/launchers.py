"""Commands that start the processes of a worker: `torchrun`, `accelerate launch`, `deepspeed`, and PyTorch's modules.

Each has options for the number of machines and where they meet. A script's values are those of the cluster that it was
written for; here the platform sets them. So the script's first lines define functions of bash with these names, which
drop such options and add the platform's instead. All other options stay as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scheduling.programs.sbatch.commands import Command
from scheduling.programs.sbatch.known import OPTIONS_OF_PYTHON, PYTHON
from scheduling.programs.sbatch.reading import Script

NAMED = re.compile(r"torchrun|torch\.distributed\.(?:run|launch)|accelerate|deepspeed")
OTHER_SCRIPT = re.compile(r"\b(?:bash|sh|source)\s|\.sh\b|(?:^|\s)\./")  # a script that it runs may call a launcher
BY_MODULE = re.compile(r"-m[\s\\]+(?:torch\.distributed\.|accelerate\.commands\.|deepspeed\.launcher\.)")


@dataclass(frozen=True)
class Launcher:
    """A launcher. Its options are named with _ for every -, and without leading dashes, as launchers accept both."""

    name: str  # as people write it
    call: str  # its name as a command
    modules: tuple[str, ...]  # modules of Python that do the same
    started: str  # the module that runs in its place
    left_out: frozenset[str]  # options that are dropped, because the platform sets them
    alone: frozenset[str]  # options without a value
    additions: tuple[str, ...]  # lines of bash that add the platform's options to `options`
    behind: str = ""  # the word after its name, such as `launch`
    counted: frozenset[str] = frozenset()  # options for the number of processes, which are set anew
    per_worker: frozenset[str] = frozenset()  # options for the number of processes of a worker
    in_all: frozenset[str] = frozenset()  # options for the number of processes of all workers
    not_kept: Mapping[str, str] = field(default_factory=dict)  # for options in `left_out`: what the job does not get


@dataclass(frozen=True)
class Call:
    """A call of a launcher in a script. `words` are those after its name. `hidden` is the word that keeps the shell
    from calling the function, or empty."""

    line: int
    launcher: Launcher
    words: tuple[str, ...]
    hidden: str = ""


_TORCH_MEETING = frozenset({
    "nnodes", "node_rank", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "master_addr", "master_port",
    "local_addr", "standalone",
})  # fmt: skip
_TORCH_ALONE = frozenset({
    "standalone", "m", "module", "no_python", "run_path", "virtual_local_rank", "use_env", "h", "help",
})  # fmt: skip
# Launchers of one worker in one job may run beside each other: each then chooses a port.
_TORCH_ADDITIONS = (
    'if [ -z "$BOURSE_MEETING" ]; then options+=(--standalone); else',
    'options+=("--nnodes=$BOURSE_NODES" "--node_rank=$BOURSE_NODE" "--master_addr=$host" "--master_port=$port")',
    "fi",
)
_ALL_GPUS = "all GPUs of each worker are used"
LAUNCHERS = (
    Launcher(
        "torchrun", "torchrun", ("torch.distributed.run",), "torch.distributed.run", _TORCH_MEETING, _TORCH_ALONE,
        _TORCH_ADDITIONS, per_worker=frozenset({"nproc_per_node"}),
    ),
    Launcher(
        "torch.distributed.launch", "", ("torch.distributed.launch",), "torch.distributed.launch", _TORCH_MEETING,
        _TORCH_ALONE, _TORCH_ADDITIONS, per_worker=frozenset({"nproc_per_node"}),
    ),
    Launcher(
        "accelerate launch", "accelerate", ("accelerate.commands.launch",), "accelerate.commands.launch",
        frozenset({
            "num_machines", "machine_rank", "main_process_ip", "main_process_port", "rdzv_backend", "rdzv_conf",
            "same_network", "deepspeed_hostfile", "deepspeed_multinode_launcher", "deepspeed_inclusion_filter",
            "deepspeed_exclusion_filter", "mpirun_hostfile",
        }),
        frozenset({
            "cpu", "multi_gpu", "tpu", "ipex", "enable_cpu_affinity", "dynamo_use_fullgraph", "dynamo_use_dynamic",
            "dynamo_use_regional_compilation", "use_deepspeed", "use_fsdp", "use_parallelism_config", "use_megatron_lm",
            "use_xpu", "same_network", "m", "module", "no_python", "tpu_cluster", "no_tpu_cluster", "tpu_use_sudo",
            "downcast_bf16", "fp8_use_autocast_during_eval", "debug", "q", "quiet", "h", "help",
        }),
        (
            'options+=("--num_machines=$BOURSE_NODES" "--machine_rank=$BOURSE_NODE" "--main_process_ip=$host")',
            'options+=("--main_process_port=$port" --deepspeed_multinode_launcher=standard)',
            'case "$processes ${options[*]}" in',
            '  " "*"--config"[_-]"file"*) ;;  # which says how many processes there are',
            '  *) options+=("--num_processes=${processes:-$((BOURSE_NODES * gpus))}") ;;',
            "esac",
        ),
        behind="launch", counted=frozenset({"num_processes"}), in_all=frozenset({"num_processes"}),
        not_kept={
            "deepspeed_inclusion_filter": _ALL_GPUS, "deepspeed_exclusion_filter": _ALL_GPUS,
            "mpirun_hostfile": "MPI starts nothing here",
        },
    ),
    Launcher(
        # Its own first half reaches the other machines by ssh, and counts GPUs from 0, whichever the job got.
        "deepspeed", "deepspeed", ("deepspeed.launcher.runner",), "deepspeed.launcher.launch",
        frozenset({
            "H", "hostfile", "i", "include", "e", "exclude", "num_nodes", "min_elastic_nodes", "max_elastic_nodes",
            "master_port", "master_addr", "node_rank", "launcher", "launcher_args", "no_ssh", "no_ssh_check",
            "force_multi", "save_pid", "autotuning", "comment", "account", "elastic_training", "ssh_port",
            "venv_script",
        }),
        frozenset({
            "module", "no_python", "no_local_rank", "no_ssh", "no_ssh_check", "force_multi", "save_pid",
            "elastic_training", "bind_cores_to_rank", "q", "quiet", "h", "help",
        }),
        (
            'IFS=, read -ra devices <<< "${CUDA_VISIBLE_DEVICES-}"',
            "[ ${#devices[@]} -gt 0 ] || devices=($(seq 0 $((${processes:-$gpus} - 1))))",
            'world=$(printf \',"%s"\' "${devices[@]:0:${processes:-$gpus}}")',
            'world=$(for ((node = 0; node < BOURSE_NODES; node++)); do printf \',"%s":[%s]\' $node "${world:1}"; done)',
            'world=$(printf "{%s}" "${world:1}" | base64 | tr -d "\\n" | tr "+/" "-_")',
            'options+=("--node_rank=$BOURSE_NODE" "--master_addr=$host" "--master_port=$port" "--world_info=$world")',
        ),
        counted=frozenset({"num_gpus", "num_accelerators"}), per_worker=frozenset({"num_gpus", "num_accelerators"}),
        not_kept={
            "i": _ALL_GPUS, "include": _ALL_GPUS, "e": _ALL_GPUS, "exclude": _ALL_GPUS,
            "autotuning": "it would start jobs of its own",
            "elastic_training": "another number of workers starts a job anew",
            "venv_script": "activate an environment in the script itself",
        },
    ),
)  # fmt: skip


# The launchers that a script calls.


def calls(script: Script) -> Iterator[Call]:
    """Yield each call of a launcher, also in a text that is held in a variable: `LAUNCHER="torchrun ..."`."""
    return filter(None, map(_call, script.shell.commands))


def _call(command: Command) -> Call | None:
    """Return the call of a launcher in a command, or None."""
    if not command.programs:
        return None
    last = command.programs[-1]
    words = command.words[last.at :]
    if (begin := _begin(words)) is None:
        return None
    launcher, behind = begin
    by_version = words[0] if "." in words[0] else ""  # python3.11
    return Call(command.line, launcher, tuple(behind), last.hidden or by_version)


def begins_launcher(words: Sequence[str]) -> bool:
    return _begin(words) is not None


def _begin(words: Sequence[str]) -> tuple[Launcher, Sequence[str]] | None:
    """Return the launcher that a command begins with, and the words after it, or None."""
    program = words[0].rpartition("/")[2] if words else ""
    if PYTHON.fullmatch(program):
        at = 1
        while at < len(words) and words[at].startswith("-") and words[at] != "-m":
            at += 2 if words[at] in OPTIONS_OF_PYTHON else 1
        module = words[at + 1] if words[at : at + 1] == ["-m"] and at + 1 < len(words) else ""
        return next(((each, words[at + 2 :]) for each in LAUNCHERS if module in each.modules), None)
    for each in LAUNCHERS:
        if each.behind and program == f"{each.call}-{each.behind}":
            return each, words[1:]
        if program and program == each.call and (not each.behind or words[1:2] == [each.behind]):
            return each, words[2 if each.behind else 1 :]
    return None


# The notes on calls, before the script runs.


def call_notes(call: Call, workers: int, gpus: int) -> Iterator[tuple[bool, str]]:
    """Yield whether the call's request is kept, and a sentence. `workers` is the most workers that the job may have,
    `gpus` the GPUs of each."""
    launcher, name = call.launcher, call.launcher.name
    if call.hidden:
        instead = launcher.call or "python -m " + launcher.modules[0]
        instead += f" {launcher.behind}" if launcher.behind else ""
        yield (
            False,
            f"{name} behind {call.hidden} looks for the others by what this line says: call {instead} by itself.",
        )
        return
    options = list(_options(call))
    left_out = [option for option, key, _ in options if key in launcher.left_out and key not in launcher.not_kept]
    ignored = list(dict.fromkeys(left_out))
    more = f" {', '.join(ignored)} {'is' if len(ignored) == 1 else 'are'} ignored." if ignored else ""
    yield True, f"{name} runs once on each worker, and is told where the workers meet.{more}"
    for option, key, value in options:
        if why := launcher.not_kept.get(key):
            yield False, f"{option} of {name} cannot be kept: {why}."
        if key in launcher.per_worker | launcher.in_all and re.fullmatch(r"[0-9]{1,6}", value):
            yield from _count_notes(option, int(value), gpus, workers if key in launcher.in_all else 1)


def _count_notes(option: str, count: int, gpus: int, workers: int) -> Iterator[tuple[bool, str]]:
    """Yield a note if an option requests more processes than there are GPUs, or fewer than there are workers."""
    if gpus and count > gpus * workers:
        where = "a worker has" if workers == 1 else f"the {workers} workers have"
        there = f"{gpus * workers} GPU{'s' if gpus * workers > 1 else ''}"
        yield False, f"{option} is {count}, and {where} {there}: --gpus-per-node says how many a worker has."
    if count < workers:
        yield False, f"{option} is {count}, and there are {workers} workers, each of which runs one process at least."


def _options(call: Call) -> Iterator[tuple[str, str, str]]:
    """Yield the launcher's own options: each as it is written, its name in `Launcher`, and its value."""
    words, at = call.words, 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        option, equals, value = words[at].partition("=")
        key = option.lstrip("-").replace("-", "_")
        after = words[at + 1] if at + 1 < len(words) else ""
        is_one = equals or re.fullmatch(r"-[^-].+", option) or key in call.launcher.alone
        if not is_one and (key in call.launcher.left_out or not re.match(r"-[^0-9]", after)):
            at, value = at + 1, after
        at += 1
        yield option, key, value


# The functions of bash.


def launcher_functions(script: Script, gpus: int) -> list[str]:
    """Return the lines of the functions, or none if the script cannot need them. They are exported, so bash scripts
    that it runs have them, too. `gpus` is the number of GPUs of a worker."""
    if not (NAMED.search(script.shell.text) or OTHER_SCRIPT.search(script.shell.text)):
        return []
    lines = [
        "bourse_launch() {",
        '  local python="$1" module="$2" left_out="$3" alone="$4" counted="$5" name count processes="" options=()',
        f'  local host="${{BOURSE_MEETING%:*}}" port="${{BOURSE_MEETING##*:}}" gpus={max(gpus, 1)} devices world node',
        '  [ -n "$BOURSE_MEETING" ] || host=127.0.0.1 port="${BOURSE_PORT-29500}"',
        "  shift 5",
        '  while [[ "${1-}" == -?* && "$1" != -- ]]; do',
        '    name="${1%%=*}" count=2',
        '    name="${name#-}" name="${name#-}" name=" ${name//-/_} "',
        '    if [[ "$1" == *=* || "$1" == -[!-]?* || "$alone" == *"$name"* ]]; then',
        "      count=1",
        '    elif [[ "$left_out" != *"$name"* && "${2-}" == -[!0-9]* ]]; then',
        "      count=1",
        "    fi",
        "    [ $count -le $# ] || count=$#",
        '    if [[ "$counted" == *"$name"* ]]; then',
        '      [ $count = 1 ] && processes="${1#*=}" || processes="$2"',
        '    elif [[ "$left_out" != *"$name"* ]]; then',
        '      options+=("${@:1:count}")',
        "    fi",
        "    shift $count",
        "  done",
        '  case "$module" in',
    ]
    for module, additions in dict.fromkeys((each.started, each.additions) for each in LAUNCHERS):
        lines += [f"    {module})", *(f"      {line}" for line in additions), "      ;;"]
    lines += ["  esac", '  command "$python" -m "$module" "${options[@]}" "$@"', "}"]
    functions = ["bourse_launch"]
    for each in LAUNCHERS:
        if each.behind:
            others = f'[ "${{1-}}" = {each.behind} ] || {{ command {each.call} "$@"; return; }}'
            lines += [f"{each.call}() {{", f"  {others}", "  shift", f'  {_begun("python3", each)} "$@"', "}"]
            lines.append(f'{each.call}-{each.behind}() {{ {each.call} {each.behind} "$@"; }}')
            functions += [each.call, f"{each.call}-{each.behind}"]
        elif each.call:
            lines += [f"{each.call}() {{", f'  {_begun("python3", each)} "$@"', "}"]
            functions.append(each.call)
    if BY_MODULE.search(script.shell.text):
        lines += _python_functions()
        functions += ["bourse_python", "python", "python3"]
    return [*lines, f"export -f {' '.join(functions)}"]


def _begun(python: str, launcher: Launcher) -> str:
    """Return the call of `bourse_launch`, up to the words of the script."""
    lists = (f'" {" ".join(sorted(names))} "' for names in (launcher.left_out, launcher.alone, launcher.counted))
    return f"bourse_launch {python} {launcher.started} {' '.join(lists)}"


def _python_functions() -> list[str]:
    """Return functions for which `python -m torch.distributed.run` is `torchrun`. All else goes to Python itself."""
    return [
        "bourse_python() {",
        '  local python="$1" before=()',
        "  shift",
        '  while [[ "${1-}" == -[!mc]* ]]; do',
        '    before+=("$1"); shift',
        '    if [[ $# -gt 0 && "${before[-1]}" == -[WX] ]]; then before+=("$1"); shift; fi',
        "  done",
        '  case "${1-} ${2-}" in',
        *(f'    "-m {module}") shift 2; {_begun(chr(34) + "$python" + chr(34), each)} "$@" ;;'
          for each in LAUNCHERS for module in each.modules),
        '    *) command "$python" ${before[@]+"${before[@]}"} "$@" ;;',
        "  esac",
        "}",
        'python() { bourse_python python "$@"; }',
        'python3() { bourse_python python3 "$@"; }',
    ]  # fmt: skip

"""What stands in a script after its first line: what Slurm and PyTorch's launcher would tell and do, so that a script
runs here as it runs there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scheduling.programs.sbatch.commands import before_command, is_begun_by_another
from scheduling.programs.sbatch.reading import Script
from scheduling.programs.sbatch.steps import step_function
from scheduling.programs.sbatch.variables import NODES, quoted, variables_told

# What srun and torchrun are called with stands between the two.
TORCHRUN = re.compile(r"(?:^|[;&|({\s])torchrun\s")
TORCHRUN_MODULE = re.compile(r"-m\s+torch\.distributed\.(?:run|launch)\b")
SCONTROL = re.compile(r"\bscontrol\s+(\S+(?:\s+\S+)?)")
HOST_NAMES = re.compile(r"show\s+hostnames?")
MODULE = re.compile(before_command("do", "then", "else", "if", "while", "time", "srun") + r"(?:module|ml)\s")
MEETING = re.compile(r"(?:^|[\s;])(MASTER_ADDR|MASTER_PORT)=")
HOME = re.compile(r"(?<![\w/.])~/|\$\{?HOME\b")
# Options of torchrun that say where its processes meet, each with a value; and others that have one.
RENDEZVOUS = (
    "nnodes", "node[-_]rank", "rdzv[-_]backend", "rdzv[-_]endpoint", "rdzv[-_]id", "rdzv[-_]conf", "master[-_]addr",
    "master[-_]port", "local[-_]addr",
)  # fmt: skip
OTHER_VALUES = (
    "nproc[-_]per[-_]node", "max[-_]restarts", "monitor[-_]interval", "start[-_]method", "role", "log[-_]dir",
    "redirects", "tee", "local[-_]ranks[-_]filter", "logs[-_]specs", "event[-_]log[-_]handler", "numa[-_]binding",
)  # fmt: skip


def beginning(script: Script, name: str, index: str, gpus: int) -> list[str]:
    """The lines. `index`: the variable that holds the index of a member of an array; `gpus`: of a worker."""
    folder = script.options.chdir
    lines = [f"cd -- {quoted(folder)}"] if folder is not None else []
    lines += [f"export {variable}={value}" for variable, value in variables_told(script, name, index, gpus)]
    functions = [*step_function(script), *_torchrun_function(script), *_scontrol_function(script)]
    if functions:
        lines.append('BOURSE_MEETING="${MASTER_ADDR:+$MASTER_ADDR:${MASTER_PORT-}}"')
    return [*lines, *functions, *_modules(script), *_shell_options(script)]


def notes(script: Script, workers: int) -> Iterator[tuple[int, bool, str]]:
    """Of commands: the line, whether what it asks for is kept, and a sentence. `workers`: at most."""
    started = any(TORCHRUN.search(text) or "srun" in text for _, text in script.commands())
    for number, text in script.commands():
        if is_begun_by_another(text, "torchrun") or TORCHRUN_MODULE.search(text):
            yield number, False, "It looks for the others by what this line says: call torchrun, which is told here."
        elif TORCHRUN.search(text):
            yield number, True, "torchrun runs once on each worker, and is told where the workers meet."
        for words in SCONTROL.findall(text):
            if not HOST_NAMES.match(words):
                yield number, False, f"scontrol {words} cannot be kept: only scontrol show hostnames is answered here."
        if MODULE.search(text):
            yield number, True, "Modules are loaded where the servers have them."
        for variable in MEETING.findall(text) if workers > 1 else ():
            if started:
                yield number, True, f"srun and torchrun are told {variable} by the platform, whatever is set here."
            else:
                sentence = f"{variable} is told to every process: set here, those on other servers may not find it."
                yield number, False, f"{sentence} Leave the line out."
        if HOME.search(text):
            yield number, False, "Home is the job's folder here: name your own files by their whole path."


def _torchrun_function(script: Script) -> list[str]:
    """`torchrun` as a function of bash: once on each worker, where the workers are told to meet."""
    if not any(TORCHRUN.search(text) for _, text in script.commands()):
        return []
    return [
        "torchrun() {",
        "  local options=()",
        "  while [ $# -gt 0 ]; do",
        '    case "$1" in',
        f"      {_patterns(RENDEZVOUS, '=*')}|--standalone) shift ;;",
        f"      {_patterns(RENDEZVOUS)}) shift; [ $# -eq 0 ] || shift ;;",
        f'      {_patterns(OTHER_VALUES)}|-r|-t) options+=("$1" "${{2-}}"); shift; [ $# -eq 0 ] || shift ;;',
        '      -*) options+=("$1"); shift ;;',
        "      *) break ;;",
        "    esac",
        "  done",
        '  if [ -z "$BOURSE_MEETING" ]; then',
        '    python3 -m torch.distributed.run --standalone ${options[@]+"${options[@]}"} "$@"',
        "  else",
        f'    python3 -m torch.distributed.run --nnodes={NODES} --node_rank="${{NODE_RANK:-0}}" \\',
        '      --master_addr="${BOURSE_MEETING%:*}" --master_port="${BOURSE_MEETING##*:}" \\',
        '      ${options[@]+"${options[@]}"} "$@"',
        "  fi",
        "}",
    ]


def _patterns(names: Sequence[str], end: str = "") -> str:
    """As alternatives of a `case`."""
    return "|".join(f"--{name}{end}" for name in names)


def _scontrol_function(script: Script) -> list[str]:
    """`scontrol show hostnames`, by which scripts choose where their processes meet."""
    if not any(SCONTROL.search(text) for _, text in script.commands()):
        return []
    return [
        "scontrol() {",
        '  case "${1-} ${2-}" in',
        """    "show hostname"*) echo "${3:-$BOURSE_HOSTS}" | tr , '\\n' ;;""",
        '    *) echo "scontrol $* cannot be kept." >&2; return 1 ;;',
        "  esac",
        "}",
    ]


def _modules(script: Script) -> list[str]:
    """What a login shell knows, for scripts that load modules or ask for such a shell. The Python that the engine has
    stays the first."""
    if "l" not in script.shell_options and not any(MODULE.search(text) for _, text in script.commands()):
        return []
    return [
        "set +eu",
        "if ! command -v module > /dev/null && [ -r /etc/profile ]; then",
        '  BOURSE_PATH="$PATH"',
        "  . /etc/profile",
        '  PATH="$BOURSE_PATH:$PATH"',
        "fi",
        "set -eu",
    ]


def _shell_options(script: Script) -> list[str]:
    """As its first line has them, as Slurm would start it; a program's script begins with `-eu`."""
    off = "".join(letter for letter in "eu" if letter not in script.shell_options)
    on = "".join(letter for letter in "vx" if letter in script.shell_options)
    return [*([f"set +{off}"] if off else []), *([f"set -{on}"] if on else [])]

"""What stands in a script after its first line: what Slurm and PyTorch's launcher would tell and do, so that a script
runs here as it runs there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scheduling.programs.sbatch.commands import before_command
from scheduling.programs.sbatch.launchers import call_notes, calls, launcher_functions
from scheduling.programs.sbatch.reading import Script
from scheduling.programs.sbatch.steps import step_function
from scheduling.programs.sbatch.variables import NODES, quoted, variables_told

SCONTROL = re.compile(r"\bscontrol\s+(\S+(?:\s+\S+)?)")
HOST_NAMES = re.compile(r"show\s+hostnames?")
MODULE = re.compile(before_command("do", "then", "else", "if", "while", "time", "srun") + r"(?:module|ml)\s")
MEETING = re.compile(r"(?:^|[\s;])(MASTER_ADDR|MASTER_PORT)=")
FOR_A_TIME = re.compile(r"(?<![\w/.}])/tmp\b")
HOME = re.compile(r"(?<![\w/.])~/|\$\{?HOME\b")


def beginning(script: Script, name: str, index: str, gpus: int, tasks: int = 1) -> list[str]:
    """The lines. `index`: the variable that holds the index of a member of an array; `gpus`: of a worker; `tasks`: so
    many processes has a worker under Slurm for each that it has here."""
    folder = script.options.chdir
    lines = [f"cd -- {quoted(folder)}"] if folder is not None else []
    lines += [f"export {variable}={value}" for variable, value in variables_told(script, name, index, gpus, tasks)]
    functions = [*step_function(script), *launcher_functions(script, gpus), *_scontrol_function(script)]
    if functions:
        # Kept under names of ours: scripts set the others, to what holds on the cluster that they were written for.
        lines.append('export BOURSE_MEETING="${MASTER_ADDR:+$MASTER_ADDR:${MASTER_PORT-}}"')
        lines.append(f'export BOURSE_NODES="{NODES}" BOURSE_NODE="${{NODE_RANK:-0}}"')
    return [*lines, *functions, *_modules(script), *_shell_options(script)]


def notes(script: Script, workers: int, gpus: int = 0) -> Iterator[tuple[int, bool, str]]:
    """Of commands: the line, whether what it asks for is kept, and a sentence. `workers`: at most; `gpus`: of each."""
    launched = list(calls(script))
    of_calls = ((call.line, *note) for call in launched for note in call_notes(call, workers, gpus))
    is_started = bool(launched) or any("srun" in text for _, text in script.commands())
    yield from sorted([*of_calls, *_other_notes(script, workers, is_started=is_started)], key=lambda note: note[0])


def _other_notes(script: Script, workers: int, *, is_started: bool) -> Iterator[tuple[int, bool, str]]:
    """`is_started`: by a command that tells the processes where they meet."""
    if for_a_time := next((number for number, text in script.commands() if FOR_A_TIME.search(text)), 0):
        sentence = "What lies in /tmp is not kept, and some servers refuse it: name $TMPDIR in its place."
        yield for_a_time, False, sentence
    for number, text in script.commands():
        for words in SCONTROL.findall(text):
            if not HOST_NAMES.match(words):
                yield number, False, f"scontrol {words} cannot be kept: only scontrol show hostnames is answered here."
        if MODULE.search(text):
            yield number, True, "Modules are loaded where the servers have them."
        for variable in MEETING.findall(text) if workers > 1 else ():
            if is_started:
                yield number, True, f"srun and launchers are told {variable} by the platform, whatever is set here."
            else:
                sentence = f"{variable} is told to every process: set here, those on other servers may not find it."
                yield number, False, f"{sentence} Leave the line out."
        if HOME.search(text):
            yield number, False, "Home is the job's folder here: name your own files by their whole path."


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

"""What is inserted after a script's first line. Its commands set and do what Slurm and PyTorch's launcher would, so
that a script runs here as it runs under Slurm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scheduling.programs.sbatch.commands import Command
from scheduling.programs.sbatch.known import MODULES, ORDERS, variables_set
from scheduling.programs.sbatch.launchers import call_notes, calls, launcher_functions
from scheduling.programs.sbatch.reading import Script
from scheduling.programs.sbatch.steps import step_function
from scheduling.programs.sbatch.variables import NODES, quoted, variables_told

SCONTROL = re.compile(r"(?<![\w./-])scontrol(?![\w./-])")
MEETING = ("MASTER_ADDR", "MASTER_PORT")
FOR_A_TIME = re.compile(r"(?<![\w/.}])/tmp\b")
IN_QUOTES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n"})  # of bash, as $'...'
HOME = re.compile(r"(?<![\w/.])~/|\$\{?HOME\b")


def beginning(script: Script, name: str, index: str, gpus: int, tasks: int = 1) -> list[str]:
    """Return the lines. `index` is the variable that holds the index of an array's member, and `gpus` the GPUs of a
    worker. For each process that a worker has here it has `tasks` processes under Slurm."""
    folder = script.options.chdir
    lines = [f"cd -- {quoted(folder)}"] if folder is not None else []
    lines += [f"export {variable}={value}" for variable, value in variables_told(script, name, index, gpus, tasks)]
    functions = [*step_function(script), *launcher_functions(script, gpus), *_scontrol_function(script)]
    if functions:
        # Stored under our own names: scripts set the usual ones to values of the cluster that they were written for.
        lines.append('export BOURSE_MEETING="${MASTER_ADDR:+$MASTER_ADDR:${MASTER_PORT-}}"')
        lines.append(f'export BOURSE_NODES="{NODES}" BOURSE_NODE="${{NODE_RANK:-0}}"')
    return [*lines, *functions, *_order_functions(script), *_modules(script), *_shell_options(script)]


def whole_text(body: str, lines: Sequence[str]) -> str:
    """Return a script with the commands of these lines as one command in front of its second line. So bash counts the
    script's lines as its author does: what it says of line 9 is about line 9."""
    first, _, rest = body.partition("\n")
    commands = "\n".join(lines).translate(IN_QUOTES)
    return "\n".join([first, f"eval $'{commands}'; {rest}" if lines else rest])


def notes(script: Script, workers: int, gpus: int = 0) -> Iterator[tuple[int, bool, str]]:
    """Yield notes on commands: the line, whether its request is kept, and a sentence. `workers` is the most workers
    that the job may have, `gpus` the GPUs of each."""
    launched = list(calls(script))
    of_calls = ((call.line, *note) for call in launched for note in call_notes(call, workers, gpus))
    is_started = bool(launched) or any(command.program("srun") for command in script.shell.commands)
    yield from sorted([*of_calls, *_other_notes(script, workers, is_started=is_started)], key=lambda note: note[0])


def _other_notes(script: Script, workers: int, *, is_started: bool) -> Iterator[tuple[int, bool, str]]:
    """Yield notes on all but launchers. `is_started`: a command starts the processes and says where they meet."""
    if for_a_time := next(script.shell.places(FOR_A_TIME), None):
        sentence = "What lies in /tmp is not kept, and some servers refuse it: name $TMPDIR in its place."
        yield for_a_time[0], False, sentence
    for number in dict.fromkeys(number for number, _ in script.shell.places(HOME)):
        yield number, False, "Home is the job's folder here: name your own files by their whole path."
    for number in dict.fromkeys(command.line for command in script.shell.commands if _loads_modules(command)):
        yield number, True, "Modules are loaded where the servers have them."
    for command in script.shell.commands:
        if program := command.program("scontrol"):
            behind = command.words[program.at + 1 : program.at + 3]
            words = " ".join(behind) + f" behind {program.hidden}" * bool(program.hidden)
            if program.hidden or not (behind[:1] == ["show"] and behind[1:] and behind[1].startswith("hostname")):
                sentence = f"scontrol {words} cannot be kept: only scontrol show hostnames is answered here."
                yield command.line, False, sentence
        if program := command.program(*ORDERS):
            yield command.line, False, _without_slurm(program.name)
        for variable, _ in variables_set(command.words) if workers > 1 else ():
            if variable in MEETING and is_started:
                sentence = f"srun and launchers are told {variable} by the platform, whatever is set here."
                yield command.line, True, sentence
            elif variable in MEETING:
                sentence = f"{variable} is told to every process: set here, those on other servers may not find it."
                yield command.line, False, f"{sentence} Leave the line out."


def _loads_modules(command: Command) -> bool:
    program = command.program(*MODULES)
    return program is not None and not program.hidden


def _scontrol_function(script: Script) -> list[str]:
    """Return a function for `scontrol show hostnames`, with which scripts choose where their processes meet."""
    if not SCONTROL.search(script.shell.text):
        return []
    return [
        "scontrol() {",
        '  case "${1-} ${2-}" in',
        """    "show hostname"*) echo "${3:-$BOURSE_HOSTS}" | tr , '\\n' ;;""",
        '    *) echo "scontrol $* cannot be kept." >&2; return 1 ;;',
        "  esac",
        "}",
        "export -f scontrol",
    ]


def _order_functions(script: Script) -> list[str]:
    """Return a function for each command that Slurm does not hear, so that the log says why it fails."""
    names = {program.name for command in script.shell.commands if (program := command.program(*ORDERS))}
    return [
        line
        for name in sorted(names)
        for line in (f'{name}() {{ echo "{_without_slurm(name)}" >&2; return 1; }}', f"export -f {name}")
    ]


def _without_slurm(name: str) -> str:
    sentence = f"{name} cannot be kept: Slurm hears nothing of a script here."
    return f"{sentence} Submit the next job with --dependency=afterok." if name == "sbatch" else sentence


def _modules(script: Script) -> list[str]:
    """Return lines that read a login shell's profile, for scripts that load modules or request such a shell. The
    engine's Python stays the first in the path."""
    if "l" not in script.shell_options and not any(map(_loads_modules, script.shell.commands)):
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
    """Return lines that set the shell options of the script's first line, as Slurm would. A program's script begins
    with `-eu`."""
    off = "".join(letter for letter in "eu" if letter not in script.shell_options)
    on = "".join(letter for letter in "vx" if letter in script.shell_options)
    return [*([f"set +{off}"] if off else []), *([f"set -{on}"] if on else [])]

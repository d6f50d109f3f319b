"""`srun` in a script. Slurm starts a script once, on its first node, and `srun` starts the processes; here the script
itself runs once for each process. So a command that `srun` starts in all processes of a job is run by the script
itself, by a function `srun` in its first lines. An `srun` that starts fewer processes, or elsewhere, is not kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from scheduling.programs.sbatch.known import variables_set
from scheduling.programs.sbatch.reading import Script
from scheduling.programs.sbatch.variables import LOCAL, NODES, PROCESSES

# Options that do not change what runs: a worker has what they request, and all that is printed goes into the log.
WITHOUT_VALUE = (
    "-u", "--unbuffered", "-l", "--label", "-K", "--kill-on-bad-exit", "-Q", "--quiet", "-v", "--verbose",
    "--exclusive", "--exact", "--overlap", "-I", "--immediate", "--propagate",
)  # fmt: skip
WITH_VALUE = (
    "-c", "--cpus-per-task", "--cpu-bind", "--gpu-bind", "--mem-bind", "--hint", "-m", "--distribution", "--mpi",
    "-J", "--job-name", "-t", "--time", "-o", "--output", "-e", "--error", "--mem", "--mem-per-cpu", "--mem-per-gpu",
    "-G", "--gpus", "--gpus-per-node", "--gpus-per-task", "--gres", "--threads-per-core", "-W", "--wait",
)  # fmt: skip
# Options with the only value that can be kept, as a shell writes it.
OF_ALL = {
    ("-n", "--ntasks"): PROCESSES,
    ("-N", "--nodes"): NODES,
    ("--ntasks-per-node",): LOCAL,
    ("--export",): "ALL",
    ("--jobid",): "$BOURSE_JOB",
}
HELD = re.compile(r"\$(?:\{(\w+)\}|(\w+))")  # a word that is nothing but a variable

NAMED = re.compile(r"(?<![\w./-])srun(?![\w./-])")


def step_function(script: Script) -> list[str]:
    """Return the lines of a bash function `srun`, or none if the script does not name it."""
    if not NAMED.search(script.shell.text):
        return []
    harmless = "|".join((*WITHOUT_VALUE, *WITH_VALUE))
    wanted = [f'      {"|".join(names)}) wanted="{value}" ;;' for names, value in OF_ALL.items()]
    return [
        # A step may be part of a pipe or go on in the background: `exit` in the function ends no more than that. So it
        # asks the script's own shell to end, by a signal that nobody uses, and says why where that shell says it.
        "trap 'exit 127' RTMAX",
        "exec {BOURSE_SAYS}>&2",
        "export BOURSE_SHELL=$$ BOURSE_SAYS",
        "srun() {",
        '  local option value wanted server="${BOURSE_HOSTS%%,*}" flaw=""',
        "  while [ $# -gt 0 ]; do",
        '    option="$1" value=""',
        '    case "$option" in',
        "      --) shift; break ;;",
        '      --*=*) value="${option#*=}"; option="${option%%=*}"; shift ;;',
        f"      {'|'.join(WITHOUT_VALUE)}) shift ;;",
        '      -[A-Za-z]?*) value="${option#??}"; option="${option%"$value"}"; shift ;;',
        '      -*) value="${2-}"; shift; [ $# -eq 0 ] || shift ;;',
        "      *) break ;;",
        "    esac",
        '    case "$option" in',
        f"      {harmless}) continue ;;",
        *wanted,
        '      -w|--nodelist) wanted="" server="$value" ;;',
        '      *) wanted="" ;;',
        "    esac",
        '    [ -n "$wanted" ] && [ "$value" = "$wanted" ] || flaw="${flaw:-$option $value}"',
        "  done",
        '  if [ -n "$flaw" ] && [ "${1-}" = hostname ]; then  # asked on one server, to meet there',
        '    echo "$server"',
        "    return",
        "  fi",
        '  if [ -n "$flaw" ]; then',
        '    flaw="srun: $flaw cannot be kept: the command runs in every process of the job."',
        '    { echo "$flaw" >&"$BOURSE_SAYS"; } 2> /dev/null || echo "$flaw" >&2',
        '    kill -s RTMAX "$BOURSE_SHELL"',
        "    exit 127",
        "  fi",
        '  [ -z "$BOURSE_MEETING" ] || export MASTER_ADDR="${BOURSE_MEETING%:*}" MASTER_PORT="${BOURSE_MEETING##*:}"',
        '  "$@"',
        "}",
        "export -f srun",
    ]


def steps(script: Script, values: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield the line of each `srun`, and the part of it that cannot be kept, as it is written, or empty if all is kept.

    `values` maps texts of `OF_ALL` to their values in the job, as far as they are known before it starts.
    """
    texts = _texts(script)
    for command in script.shell.commands:
        if program := command.program("srun"):
            flaw = _flaw(_written_out(command.words[program.at + 1 :], texts), values)
            if program.hidden:
                is_path = command.words[program.at] == program.hidden
                flaw = "its whole path" if is_path else "a command that is begun by another"
            yield command.line, flaw


def _texts(script: Script) -> dict[str, str]:
    """Return the variables that the script sets once, to a text without others in it."""
    sets = [each for command in script.shell.commands for each in variables_set(command.words)]
    times = Counter(name for name, _ in sets)
    return {name: text for name, text in sets if times[name] == 1 and "$" not in text and "`" not in text}


def _written_out(words: Sequence[str], texts: Mapping[str, str]) -> list[str]:
    """Return the words with the texts in place of the variables that hold them. A shell divides them at blanks, also
    between quotes."""
    whole: list[str] = []
    for word in words:
        held = HELD.fullmatch(word)
        text = texts.get(held[1] or held[2]) if held else None
        whole += [word] if text is None else text.split()
    return whole


def _flaw(words: Sequence[str], values: Mapping[str, str]) -> str:
    at, flaw = 0, ""
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        option, at = words[at], at + 1
        if option.startswith("--") and "=" in option:
            option, _, value = option.partition("=")
        elif option in WITHOUT_VALUE:
            continue
        elif not option.startswith("--") and len(option) > 2:
            option, value = option[:2], option[2:]
        else:
            value, at = words[at] if at < len(words) else "", at + 1
        if option in WITHOUT_VALUE or option in WITH_VALUE:
            continue
        wanted = next((text for names, text in OF_ALL.items() if option in names), None)
        if wanted is None or (value != values.get(wanted, wanted) and "$" not in value):
            flaw = flaw or f"{option} {value}".rstrip()  # the function checks the value of a variable
    return "" if words[at : at + 1] == ["hostname"] else flaw

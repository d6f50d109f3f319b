"""A script is read once, as a shell takes it apart. What is told of it is compared with what bash then really calls."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.programs.sbatch.beginning import beginning, notes
from scheduling.programs.sbatch.commands import MOST_DEEP, MOST_SIGNS, TEXTS_DEEP, shell_read
from scheduling.programs.sbatch.files_missing import FileNames, files_missing
from scheduling.programs.sbatch.launchers import calls
from scheduling.programs.sbatch.steps import steps
from scheduling.programs.sbatch.variables import variables_missing, variables_told
from tests.patience import PATIENCE
from tests.programs.scripts import HEAD, RING, ran, script

COMMANDS = ("srun -u echo a", "scontrol show job 1", "module load cuda", "torchrun a.py")
# Where a command may stand, each {} one. Every name is of something that was read otherwise than bash does, or that
# must not be after that was mended.
PLACES = {
    "by itself": "{}",
    "behind !": "! {}",
    "until": "until {}; do break; done",
    "elif": "if false; then true; elif {}; then true; fi",
    "behind time with an option": "time -p {}",
    "behind a redirection": "> out.txt {}",
    "behind a value with a blank": 'A="b c" B=$(echo 1) {}',
    "behind a value in an array": 'declare -A m=([a]=1 [b]="x y"); {}',
    "a case": "case a in a) {} ;; esac",
    "a case on lines of its own": "case a in\n  b|c)\n    true\n    ;;\n  (a)\n    {}\nesac\ntrue",
    "behind lines in a case": "case a in\n  a) cat <<EOF ;;\nit's\nEOF\n  b) true\nesac\n{}",
    "a test with a bracket": "[[ a =~ ^(a|b)$ && b < c ]] && {}",
    "a function": "run() { {}; }\nrun",
    "a function in brackets": "function run ()\n(\n{}\n)\nrun",
    "a loop by numbers": "for ((i=0; i<1; i++)) do {}; done",
    "behind a sum": "((1 << 2)) && {}",
    "coproc": "coproc {}; wait",
    "double quotes": 'x="a $(true; {}) b"',
    "backticks": "x=`{}`",
    "backticks in double quotes": 'echo "a `{}` b"',
    "braces": "echo ${X:-$({})}",
    "an array of output": "y=( $({}) # it's a list\n )",
    "substitutions in one another": "x=$(echo $({}))",
    "what is read from a command": "cat <({})",
    "lines for a command": "cat <<EOF\nit's $({})\nEOF",
    "lines for a shell": "bash <<EOF\n{}\nEOF",
    "quoted lines for a shell": "bash -s <<'EOF'\n{}\nEOF",
    "lines that become a script": "cat > run.sh <<'EOF'\n{}\nEOF\nbash run.sh",
    "eval": "eval {}",
    "eval of a text": "eval '{}'",
    "trap": "trap '{}' EXIT",
    "a text for bash": "bash -c '{}'",
    "a text of lines for bash": "bash -c '\ntrue\n{}\n'",
    "a text for bash with options": 'bash -euo pipefail -c "true; {}"',
    "a text in a text": "bash -c \"bash -c '{}'\"",
    "a variable": "RUN='{}'\n$RUN",
    "a variable for eval": 'RUN="{}"; eval "$RUN"',
    "a variable for bash": "export RUN='{}'\nbash -c \"$RUN\"",
    "an array": 'RUN=({})\n"${RUN[@]}"',
    "an array on several lines": 'RUN=(\n  {}  # so\n)\n"${RUN[@]}" b',
    "behind a variable": "W=\n$W {}",
    "behind env": "env -u X A=1 {}",
    "behind timeout": "timeout -k 1 10s {}",
    "behind nice": "nice -n 1 {}",
    "behind command": "command {}",
    "behind xargs": "echo a | xargs -n 1 {}",
    "by a path": "bin/{}",
    "an escaped name": "\\{}",
    "behind a quote in a comment": "true # it's\n{}",
    "behind escaped quotes": 'echo \\" "\\"" $\'it\\\'s\' ${x:-"a}b"} ${x%%"\'"}; {}',
    "behind a sign for numbers": "echo $# ${#} a#b; {}",
    # No command:
    "a comment behind a command": "true # {}",
    "asked for": "command -v {} || true",
    "asked for by its kind": "type {} || true",
    "printed": "echo {}; echo '{}'; printf \"{}\"",
    "a value that is printed": "M='{} failed'\necho $M",
    "a word of a function": "log() { echo \"$1\"; }\nlog '{}'",
    "a word of a list": "y=( {} )\necho ${#y[@]}",
    "the name of a case": "case a in {}) true ;; esac".replace("{}", "srun|module|scontrol|torchrun"),
    "lines that are printed": "cat <<'EOF'\n$({})\n{}\nEOF",
    "lines that are kept": "cat > a.txt <<EOF\n{}\nEOF",
    "a program of another language": "awk '{print \"{}\"}' < /dev/null",
}
STUB = """#!/bin/bash
echo "program ${0##*/}" >> calls.txt
"""
FUNCTIONS = "".join(
    f'{name}() {{ echo "function {name}" >> calls.txt; }}\nexport -f {name}\n'
    for name in ("srun", "scontrol", "module", "torchrun")
)


def calls_of_bash(folder: Path, body: str) -> set[str]:
    """What bash calls: functions, or programs that are found by their names."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("srun", "scontrol", "module", "torchrun"):
        (programs / name).write_text(STUB)
        (programs / name).chmod(0o755)
    (folder / "calls.txt").write_text("")
    (folder / "script.sh").write_text(FUNCTIONS + body)
    done = subprocess.run(
        ["bash", "script.sh"],
        cwd=folder,
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "syntax error" not in done.stderr
    return set((folder / "calls.txt").read_text().splitlines()) - {"program module"}  # of which nothing is said


def calls_by_notes(body: str) -> set[str]:
    names = {"program srun" if flaw else "function srun" for _, flaw in steps(script(body), {})}
    for _, _, sentence in notes(script(body), 2, 2):
        if sentence.startswith(("scontrol", "Modules")):
            name = "module" if sentence.startswith("Modules") else "scontrol"
            names.add(f"{'program' if ' behind ' in sentence else 'function'} {name}")
    return names | {f"{'program' if call.hidden else 'function'} torchrun" for call in calls(script(body))}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_what_is_told_is_what_bash_calls(place: str, tmp_path: Path) -> None:
    for command in COMMANDS:
        body = place.replace("{}", command) + "\n"
        assert calls_by_notes(body) == calls_of_bash(tmp_path, body), body


def test_functions_are_known_in_shells_that_the_script_begins(tmp_path: Path) -> None:
    body = f"""\
cat > {tmp_path}/inner.sh <<'END'
srun echo in a script
scontrol show hostnames
END
bash {tmp_path}/inner.sh
bash -c 'srun -u echo in a text'
RUN=(srun --label echo)
"${{RUN[@]}}" in an array
echo `srun echo in backticks`
! srun echo behind a sign
"""
    done = ran(tmp_path, body, **RING)
    lines = ["in a script", "n7", "n8", "in a text", "in an array", "in backticks", "behind a sign"]
    assert done.stdout.splitlines() == lines, done.stderr
    assert {flaw for _, flaw in steps(script(body), {})} == {""}


def test_lines_of_commands_are_those_of_the_script() -> None:
    body = "true \\\n  && srun a\nbash -c '\n\nsrun b\n'\ncat <<EOF\n\n$(srun c)\nEOF\nx=$(\n\nsrun d)\n# e\nsrun f\n"
    assert [line for line, _ in steps(script(body), {})] == [4, 7, 11, 15, 17]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("RUN=torchrun\n$RUN --nnodes 2 a.py", [()]),
        ("RUN=torchrun\nsrun ${RUN} a.py", [()]),
        ("RUN='srun -n 4'\n$RUN torchrun a.py", [("a.py",)]),
        ("srun $OPTIONS torchrun a.py", [("a.py",)]),
        ("RUN=(torchrun\n  --nnodes 2\n  a.py)\n\"${RUN[@]}\"", [("--nnodes", "2", "a.py")]),
        ("STRATEGY=deepspeed\nsrun python a.py --strategy $STRATEGY", []),
        ("conda install -y deepspeed", []),
        ("srun echo torchrun a.py", []),
        ("srun echo \"$(torchrun a.py)\"", [("a.py",)]),
    ],
)  # fmt: skip
def test_launcher_is_seen_where_it_is_called(body: str, words: list[tuple[str, ...]]) -> None:
    assert [call.words for call in calls(script(body))] == words


def test_what_is_printed_sets_nothing() -> None:
    assert list(notes(script("echo MASTER_ADDR=$MASTER_ADDR\n"), 2)) == []
    assert [is_kept for _, is_kept, _ in notes(script("export A MASTER_ADDR=x\n# srun\n"), 2)] == [False]
    assert [is_kept for _, is_kept, _ in notes(script("env MASTER_PORT=1 python a\necho `srun b`\n"), 2)] == [True]
    missing = "echo 'SLURM_TMPDIR='; echo $SLURM_TMPDIR\n"
    assert list(variables_missing(script(missing), 2)) == [(3, "SLURM_TMPDIR")]
    assert list(variables_missing(script(missing.replace("echo 'S", "declare -x 'S")), 2)) == []


def test_comments_say_nothing() -> None:
    body = "true # $SLURM_JOB_ID $SLURM_TMPDIR /tmp/a ~/b torchrun srun scontrol\n"
    plain = script(body, "#!/bin/bash -eu\n")
    assert [*notes(plain, 2), *variables_missing(plain, 2), *beginning(plain, "train", "INDEX", 2)] == []
    body = "echo '# $SLURM_JOB_ID' a#/tmp $# ~/b\n"
    assert [line for line, _, _ in notes(script(body), 2)] == [3, 3]
    assert list(variables_told(script(body), "train", "INDEX", 2)) == [("SLURM_JOB_ID", '"$BOURSE_JOB"')]


def test_what_a_function_cannot_answer_is_told() -> None:
    lines = list(notes(script("timeout 9 scontrol show hostnames\n/bin/scontrol show hostnames\n"), 2))
    assert [(line, is_kept) for line, is_kept, _ in lines] == [(3, False), (4, False)]
    assert list(steps(script("/bin/srun a\n"), {})) == [(3, "its whole path")]
    assert list(steps(script('srun -w ${nodes[0]} -N "$(nproc)" a\n'), {})) == [(3, "-w ${nodes[0]}")]


@pytest.mark.parametrize("says", ["", "sbatch", "scontrol show hostnames", "srun true", "torchrun -h || true"])
def test_bash_counts_lines_as_the_scripts_author_does(tmp_path: Path, says: str) -> None:
    body = f"{says}\necho $SLURM_JOB_ID\nno-such-command\n"
    ended = ran(tmp_path, body, **RING, BOURSE_JOB="88")
    line = HEAD.count("\n") + body[: body.index("no-such")].count("\n") + 1
    assert f"line {line}: no-such-command: command not found" in ended.stderr
    assert ended.stdout.splitlines()[-1] == "88"


def test_files_are_told_where_their_commands_run() -> None:
    body = 'x=`python a.py`\necho "$(python b.py)"\nA=1 $PYTHON c/d.py\n[[ -f e.py ]] && python e.py\n'
    assert list(files_missing(script(body), FileNames())) == [(3, "a.py"), (4, "b.py")]
    hook = 'eval "$(conda shell.bash hook)"\npython a.py\n'
    assert list(files_missing(script(hook), FileNames())) == [(4, "a.py")]


def test_what_has_no_end_hides_nothing_before_it() -> None:
    for rest in (
        "echo 'x",
        'echo "x',
        "x=$(y",
        "x=${y",
        "x=$((1",
        "x=`y",
        "cat <<END",
        "[[ a",
        "case a in",
        "x=(",
        "\\",
    ):
        assert list(steps(script(f"srun a\n{rest}\n"), {}))[:1] == [(3, "")], rest
        functions = beginning(script(f"{rest}\n$SLURM_JOB_ID torchrun"), "train", "INDEX", 2)
        assert {'export SLURM_JOB_ID="$BOURSE_JOB"', "bourse_launch() {"} <= set(functions), rest


def test_what_is_very_long_or_deep_is_not_read_to_its_end() -> None:
    assert len(list(steps(script("true\n" * 100 + "srun a\n"), {}))) == 1
    assert list(steps(script("true\n" * MOST_SIGNS + "srun a\n"), {})) == []
    nested = "$(" * (MOST_DEEP + 5) + "srun a" + ")" * (MOST_DEEP + 5)
    assert list(steps(script(f"srun b\necho {nested}\n"), {})) == [(3, "")]
    for _ in range(TEXTS_DEEP + 2):
        nested = "$(" * (MOST_DEEP - 3) + f"eval {shlex.quote(nested)}" + ")" * (MOST_DEEP - 3)
    assert list(steps(script(f"srun b\necho {nested}\nsrun c\n"), {})) == [(3, ""), (5, "")]
    assert len(shell_read(f"#!/bin/bash\n{nested}\n").commands) <= MOST_DEEP
    assert "srun() {" in beginning(script("true\n" * MOST_SIGNS + "srun a\n"), "train", "INDEX", 2)
    assert len(shell_read("a\n" * MOST_SIGNS).commands) < MOST_SIGNS


@given(st.text(st.sampled_from("ab='\"\\`$(){}[]<>|&;# \n\t"), max_size=80))
def test_every_text_is_read_in_its_lines(text: str) -> None:
    reading = shell_read(f"#!/bin/bash\n{text}")
    assert reading.text.count("\n") == text.count("\n") + 1
    assert all(2 <= command.line <= text.count("\n") + 2 for command in reading.commands)
    lines = [command.line for command in reading.commands]
    assert lines == sorted(lines)

"""`srun` in a script: what runs in every process is run by the script itself, and all else is said and ends it."""

from __future__ import annotations

import subprocess

import pytest

from scheduling.programs.sbatch import Script, read
from scheduling.programs.sbatch.beginning import beginning
from scheduling.programs.sbatch.steps import step_function, steps
from scheduling.programs.sbatch.variables import LOCAL, NODES, PROCESSES
from tests.patience import PATIENCE

HEAD = "#!/bin/bash -eu\n#SBATCH --time=10 --gpus-per-node=2 --nodes=3\n"
RING = {"WORLD_SIZE": "6", "LOCAL_WORLD_SIZE": "2"}
VALUES = {PROCESSES: "6", NODES: "3", LOCAL: "2"}


def script(body: str) -> Script:
    answer = read(HEAD + body)
    assert isinstance(answer, Script), answer
    return answer


def ran(body: str, *, shell: str = "-eu", **environment: str) -> subprocess.CompletedProcess[str]:
    text = "\n".join([*beginning(script(body), "step", "INDEX", 2), body])
    variables = {"PATH": "/usr/bin:/bin", "BOURSE_HOSTS": "n1,n2,n3", "BOURSE_JOB": "7", **environment}
    return subprocess.run(["bash", shell, "-c", text], env=variables, capture_output=True, text=True, timeout=PATIENCE)


ALIKE = (
    "srun", "srun -n6", "srun -n 6", "srun --ntasks=6", "srun --ntasks 6 -N 3", "srun -N3 --ntasks-per-node=2",
    "srun -u -l --label -K1 --kill-on-bad-exit=1", "srun --cpu-bind=none --mpi=pmix -c8", "srun --export=ALL",
    "srun -J step -t 1:00 --gres=gpu:2 -G 2 --exclusive", "srun --", "MODE=x srun", 'srun -n "$WORLD_SIZE"',
    "if true; then srun", "time srun", "true && srun", "MODE=x \\\n srun",
    "srun --cpus-per-task=4 \\\n    --unbuffered", "srun --wait=60 -W 60 -I --immediate=5 --propagate=ALL",
    "srun --jobid $BOURSE_JOB --jobid=$BOURSE_JOB", "STEP='-K1 --wait=60'\nsrun $STEP",
)  # fmt: skip
NOT_KEPT = {
    "srun -n 1": "-n 1",
    "srun --ntasks=1": "--ntasks 1",
    "srun -N1 -n6": "-N 1",
    "srun --ntasks-per-node 1": "--ntasks-per-node 1",
    "srun --export=NONE": "--export NONE",
    "srun --export=ALL,A=1": "--export ALL,A=1",
    "srun -w n1": "-w n1",
    "srun --nodelist=n1": "--nodelist n1",
    "srun --multi-prog": "--multi-prog python3",
    "srun --pty": "--pty python3",
    "srun -D /tmp": "-D /tmp",
    "srun --jobid 9": "--jobid 9",
}


@pytest.mark.parametrize("call", ALIKE)
def test_what_runs_in_every_process_the_script_runs_itself(call: str) -> None:
    end = "\nfi" if "then" in call else ""
    body = f"{call} python3 -c 'import sys; print(sys.argv)' 'a b' --lr=1 -n 1{end}\n"
    assert [flaw for _, flaw in steps(script(body), VALUES)] == [""]
    done = ran(body, **RING)
    assert (done.returncode, done.stdout) == (0, "['-c', 'a b', '--lr=1', '-n', '1']\n"), done.stderr


@pytest.mark.parametrize(("call", "flaw"), NOT_KEPT.items(), ids=NOT_KEPT)
def test_what_would_run_elsewhere_or_less_often_is_said_beforehand_and_ends_the_script(call: str, flaw: str) -> None:
    body = f"true\n{call} python3 -c 'print(1)'\n"
    assert list(steps(script(body), VALUES)) == [(4, flaw)]
    done = ran(body, **RING)
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr == f"srun: {flaw} cannot be kept: the command runs in every process of the job.\n"


def test_a_command_that_fails_ends_the_script_with_its_status() -> None:
    assert ran("srun bash -c 'exit 7'\necho on\n").returncode == 7
    assert ran("MODE=x srun printenv MODE\n").stdout == "x\n"


def test_options_that_a_variable_holds_are_read_where_the_script_sets_it_once() -> None:
    body = "STEP='--wait=60 --multi-prog'\nsrun ${STEP} a\n"
    assert list(steps(script(body), VALUES)) == [(4, "--multi-prog a")]
    assert list(steps(script(f"STEP=\n{body}"), VALUES)) == [(5, "")]


def test_a_number_that_nobody_knows_beforehand_is_not_promised() -> None:
    elastic = {LOCAL: "2"}
    assert list(steps(script("srun -n 6 a\nsrun --ntasks-per-node=2 a\n"), elastic)) == [(3, "-n 6"), (4, "")]


def test_a_script_without_steps_stays_as_it_is_and_a_step_that_is_no_command_of_the_script_is_said() -> None:
    assert step_function(script("# srun a\npython3 a.py\n")) == []
    assert list(steps(script("exec srun a\n"), VALUES)) == [(3, "a command that is begun by another")]
    assert list(steps(script("timeout 1h srun a\n"), VALUES)) == [(3, "a command that is begun by another")]
    assert list(steps(script("echo $(srun a) | srun b; srun -w n1 c\n"), VALUES)) == [(3, ""), (3, ""), (3, "-w n1")]


def test_what_stands_in_the_script_for_a_command_to_read_comes_to_it() -> None:
    assert ran("srun -u cat - <<'TEXT'\nhello $HOME\nTEXT\n").stdout == "hello $HOME\n"


@pytest.mark.parametrize("shell", ["-eu", "-u"])
@pytest.mark.parametrize(
    "body",
    [
        "srun $STEP bash -c 'echo trained' 2>&1 | cat\necho on\n",
        "srun -N1 -n1 --exclusive echo a &\nsrun -N1 -n1 --exclusive echo b &\nwait\necho on\n",
        "found=$(srun -n 1 cat list || true)\necho on\n",
        "bash -c 'srun -n 1 cat list; echo inner' || true\necho on\n",
    ],
    ids=["pipe", "background", "substitution", "inner"],
)
def test_a_step_that_is_not_kept_ends_the_script_wherever_it_stands(body: str, shell: str) -> None:
    done = ran(body, shell=shell, STEP="-n 1", **RING)
    assert done.returncode == 127
    assert "cannot be kept" in done.stderr
    assert "on" not in done.stdout.splitlines()

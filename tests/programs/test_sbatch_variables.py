"""What Slurm tells a script by variables: told where it is known, and said where it is not."""

from __future__ import annotations

import subprocess

import pytest

from scheduling.programs.sbatch import Script, read
from scheduling.programs.sbatch.variables import variables_missing, variables_told
from tests.patience import PATIENCE

HEAD = "#!/bin/bash\n#SBATCH --job-name=\"a 'b'\" --gpus=2 --time=10 --cpus-per-task=3\n"


def script(body: str, head: str = HEAD) -> Script:
    answer = read(head + body)
    assert isinstance(answer, Script), answer
    return answer


def printed(body: str, **environment: str) -> str:
    """What the script says under `bash -eu` with what it is told."""
    exports = variables_told(script(body), "train", "BOURSE_PARAMETER_INDEX", 2)
    text = "".join(f"export {name}={value}\n" for name, value in exports) + body
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/home/job", "BOURSE_JOB": "7", **environment}
    done = subprocess.run(
        ["bash", "-eu", "-c", text], env=variables, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return done.stdout


def test_a_script_as_labs_have_it_is_told_what_slurm_would_tell() -> None:
    body = """\
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
cd "${SLURM_SUBMIT_DIR}" 2> /dev/null || true
echo $OMP_NUM_THREADS $SLURM_JOB_ID "$SLURM_JOB_NAME" $SLURM_GPUS_ON_NODE
echo $SLURM_PROCID of $SLURM_NTASKS on $SLURM_NNODES, $SLURM_LOCALID of $SLURM_NTASKS_PER_NODE
"""
    assert printed(body) == "3 7 a 'b' 2\n0 of 1 on 1, 0 of 1\n"
    ring = {"WORLD_SIZE": "6", "LOCAL_WORLD_SIZE": "2", "RANK": "5", "LOCAL_RANK": "1", "NODE_RANK": "2"}
    assert printed(body, **ring) == "3 7 a 'b' 2\n5 of 6 on 3, 1 of 2\n"
    assert list(variables_missing(script(body), 2)) == []


def test_what_it_does_not_name_is_not_set_so_that_the_text_of_a_script_stays_what_it_was() -> None:
    assert list(variables_told(script("# of $SLURM_JOB_ID\npython3 train.py\n"), "train", "INDEX", 2)) == []
    array = script("true\n", HEAD.replace("--time", "--array=0-3 --time"))
    assert list(variables_told(array, "train", "INDEX", 2)) == [("SLURM_ARRAY_TASK_ID", '"$INDEX"')]


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ("a\necho $SLURM_JOB_PARTITION $SLURM_JOB_NODELIST\n", [(4, "SLURM_JOB_PARTITION")]),
        ('echo "${SLURM_ARRAY_TASK_ID}" $SLURM_ARRAY_TASK_ID\n', [(3, "SLURM_ARRAY_TASK_ID")]),
        ("echo ${SLURM_TMPDIR:-/tmp} ${SLURM_TMPDIR-} ${SLURM_TMPDIR:+x}\n", []),
        ("SLURM_TMPDIR=x; echo $SLURM_TMPDIR\n", []),
        ("export SLURM_TMPDIR=x\necho $SLURM_TMPDIR\n", []),
        ("# $SLURM_TMPDIR\n", []),
        ("echo ${SLURM_TMPDIR%/}\n", [(3, "SLURM_TMPDIR")]),
    ],
)
def test_what_nobody_sets_is_said_with_the_line_that_uses_it(body: str, missing: list[tuple[int, str]]) -> None:
    assert list(variables_missing(script(body), 0)) == missing

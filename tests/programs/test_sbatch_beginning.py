"""What stands in a script after its first line: with it, scripts as labs have them meet where the platform says."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduling.programs.sbatch.beginning import beginning, notes
from tests.programs.scripts import HEAD, RING, ran, script


def test_the_first_node_is_found_as_scripts_look_for_it(tmp_path: Path) -> None:
    """Three ways that tutorials have; and srun gives its command what the platform told, not what was found."""
    body = """\
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
head_node=${nodes[0]}
ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
export MASTER_ADDR=$(scontrol show hostname "$SLURM_NODELIST" | head -n 1)
export MASTER_PORT=$((10000 + $RANDOM % 1000))
echo ${#nodes[@]} $ip $MASTER_ADDR $SLURMD_NODENAME $SLURM_LAUNCH_NODE_IPADDR $SLURM_JOB_END_TIME
srun bash -c 'echo $MASTER_ADDR $MASTER_PORT'
"""
    done = ran(tmp_path, body, **RING)
    assert done.stdout == "2 n7 n7 n8 n7 1800000000\nn7 4000\n", done.stderr
    assert [is_kept for _, is_kept, _ in notes(script(body), 2)] == [True, True]


def test_a_script_goes_on_after_a_command_that_fails_as_its_first_line_says(tmp_path: Path) -> None:
    body = "false\necho ${NOT_SET}on\n"
    for first, lines in (("", "on\n"), (" -e", ""), (" -u", ""), (" -eu", "")):
        done = ran(tmp_path, body, HEAD.replace("bash", f"bash{first}", 1))
        assert (done.stdout, done.returncode == 0) == (lines, bool(lines)), first
    assert ran(tmp_path, "echo $1on\n", HEAD.replace("bash", "bash -x", 1)).stderr.endswith("+ echo on\n")


def test_what_cannot_be_kept_ends_the_script_all_the_same(tmp_path: Path) -> None:
    done = ran(tmp_path, "srun -n 1 echo a\necho b\n", **RING)
    assert (done.returncode, done.stdout) == (127, "")
    assert ran(tmp_path, "scontrol requeue 1 || echo no\n").stdout == "no\n"


def test_a_script_that_asks_slurm_for_something_is_told_why_it_cannot(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("sbatch", "squeue"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\necho it was heard\n")
        (tmp_path / "bin" / name).chmod(0o755)
    body = "sbatch next.sbatch || echo no\nbash -c 'squeue || echo no'\n"
    done = ran(tmp_path, body, PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert done.stdout == "no\nno\n", done
    assert done.stderr.splitlines() == [
        "sbatch cannot be kept: Slurm hears nothing of a script here. Submit the next job with --dependency=afterok.",
        "squeue cannot be kept: Slurm hears nothing of a script here.",
    ]


def test_who_loads_modules_knows_what_a_login_shell_knows_and_keeps_the_engines_python(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3"
    python.write_text("#!/bin/sh\necho ours\n")
    python.chmod(0o755)
    done = ran(tmp_path, "module load cuda || true\npython3\n", PATH=f"{python.parent}:/usr/bin:/bin")
    assert done.stdout.endswith("ours\n"), done
    assert ran(tmp_path, "shopt -q login_shell; echo ${PS1-}\n", HEAD.replace("bash", "bash -l", 1)).returncode == 0


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("export MASTER_ADDR=$(hostname)\npython train.py\n", [(3, False)]),
        ("export MASTER_PORT=29500\nsrun python train.py\n", [(3, True)]),
        ("torchrun train.py\n", [(3, True)]),
        ("source ~/env/bin/activate\n", [(3, False)]),
        ("cp a $HOME/b\n", [(3, False)]),
        ("cat /home/x~/y\n", []),
        ("python a.py --out /tmp/x\ncat > a.py <<END\nopen('/tmp/y')\nEND\n", [(3, False)]),
        ("export TMPDIR=/tmp\n", [(3, False)]),
        ("ls /var/tmp tmp/x ./tmp $A/tmp ${A}/tmp /tmpfs/x\n", []),
        ("scontrol requeue $SLURM_JOB_ID\n", [(3, False)]),
        (
            "next=$(sbatch --parsable next.sbatch)\nif squeue -h; then\n  timeout 9 scancel 7\nfi\n",
            [(n, False) for n in (3, 4, 5)],
        ),
        ("echo sbatch; ls sbatch/ squeue\ncat > a <<END\nsbatch b\nEND\n", []),
        ("module load cuda\nml python\n", [(3, True), (4, True)]),
        ("python modules/module load\n", []),
    ],
)
def test_what_comes_of_such_commands_is_said_beforehand(body: str, lines: list[tuple[int, bool]]) -> None:
    assert [(number, is_kept) for number, is_kept, _ in notes(script(body), 2)] == lines


def test_where_one_worker_is_all_there_is_nobody_misses_the_address() -> None:
    assert list(notes(script("export MASTER_ADDR=$(hostname)\npython train.py\n"), 1)) == []


def test_a_plain_script_is_left_as_it_is() -> None:
    assert beginning(script("python3 train.py\n", HEAD.replace("bash", "bash -eu", 1)), "train", "INDEX", 2) == []

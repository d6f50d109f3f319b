"""What stands in a script after its first line: with it, scripts as labs have them meet where the platform says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from scheduling.programs.sbatch import Script, read
from scheduling.programs.sbatch.beginning import beginning, notes

HEAD = "#!/bin/bash\n#SBATCH --time=10 --gpus-per-node=2 --nodes=2\n"
RING = {
    "MASTER_ADDR": "n7", "MASTER_PORT": "4000", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "RANK": "1",
    "NODE_RANK": "1", "LOCAL_RANK": "0", "BOURSE_HOSTS": "n7,n8", "BOURSE_ENDS_AT": "1800000000",
}  # fmt: skip
# Stands where PyTorch's launcher would.
LAUNCHER = "import json, os, sys\nprint(json.dumps(sys.argv[1:]))\n"


def script(body: str, head: str = HEAD) -> Script:
    found = read(head + body)
    assert isinstance(found, Script), found
    return found


def ran(folder: Path, body: str, head: str = HEAD, **environment: str) -> subprocess.CompletedProcess[str]:
    """As an engine starts it: by `bash -eu` and a file."""
    package = folder / "torch" / "distributed"
    package.mkdir(parents=True, exist_ok=True)
    for name, text in (("../__init__", ""), ("__init__", ""), ("run", LAUNCHER)):
        (package / f"{name}.py").write_text(text)
    first, _, rest = (head + body).partition("\n")
    (folder / "script.sh").write_text("\n".join([first, *beginning(script(body, head), "train", "INDEX", 2), rest]))
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/home/job", "PYTHONPATH": str(folder), "USER": "mira"} | environment
    return subprocess.run(
        ["bash", "-eu", str(folder / "script.sh")], env=variables, capture_output=True, text=True, timeout=60
    )


CALLS = {
    "torchrun --nnodes=$SLURM_NNODES --nproc_per_node=2 --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d"
    " --rdzv_endpoint=$MASTER_ADDR:29500 train.py --epochs 3": ["--nproc_per_node=2", "train.py", "--epochs", "3"],
    "srun torchrun --nnodes 2 --nproc_per_node 2 --rdzv_id $RANDOM --rdzv_endpoint n1:29500 train.py --nnodes 9": [
        "--nproc_per_node", "2", "train.py", "--nnodes", "9",
    ],
    "torchrun --standalone --nproc-per-node=gpu --master-port=1234 -m pkg.train a": [
        "--nproc-per-node=gpu", "-m", "pkg.train", "a",
    ],
    "OMP_NUM_THREADS=1 torchrun --max-restarts 0 -t 3 'my train.py' ''": [
        "--max-restarts", "0", "-t", "3", "my train.py", "",
    ],
    "srun -u \\\n  torchrun \\\n  --master_addr $MASTER_ADDR \\\n train.py": ["train.py"],
}  # fmt: skip


@pytest.mark.parametrize(("call", "words"), CALLS.items(), ids=range(len(CALLS)))
def test_torchrun_meets_where_the_platform_says_whatever_the_script_says(
    call: str, words: list[str], tmp_path: Path
) -> None:
    body = f"export MASTER_ADDR=$(hostname)\nexport MASTER_PORT=29500\n{call}\n"
    done = ran(tmp_path, body, **RING, BOURSE_JOB="7")
    platform = ["--nnodes=2", "--node_rank=1", "--master_addr=n7", "--master_port=4000"]
    assert json.loads(done.stdout) == platform + words, done.stderr


def test_torchrun_of_a_single_worker_meets_itself(tmp_path: Path) -> None:
    done = ran(tmp_path, "torchrun --nproc_per_node=4 --nnodes=1 train.py\n", BOURSE_HOSTS="n7")
    assert json.loads(done.stdout) == ["--standalone", "--nproc_per_node=4", "train.py"], done.stderr


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
    assert [kept for _, kept, _ in notes(script(body), 2)] == [True, True]


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
        ("timeout 1h torchrun train.py\n", [(3, False)]),
        ("python -m torch.distributed.run train.py\n", [(3, False)]),
        ("torchrun train.py\n", [(3, True)]),
        ("source ~/env/bin/activate\n", [(3, False)]),
        ("cp a $HOME/b\n", [(3, False)]),
        ("cat /home/x~/y\n", []),
        ("scontrol requeue $SLURM_JOB_ID\n", [(3, False)]),
        ("module load cuda\nml python\n", [(3, True), (4, True)]),
        ("python modules/module load\n", []),
    ],
)
def test_what_comes_of_such_commands_is_said_beforehand(body: str, lines: list[tuple[int, bool]]) -> None:
    assert [(number, kept) for number, kept, _ in notes(script(body), 2)] == lines


def test_where_one_worker_is_all_there_is_nobody_misses_the_address() -> None:
    assert list(notes(script("export MASTER_ADDR=$(hostname)\npython train.py\n"), 1)) == []


def test_a_plain_script_is_left_as_it_is() -> None:
    assert beginning(script("python3 train.py\n", HEAD.replace("bash", "bash -eu", 1)), "train", "INDEX", 2) == []

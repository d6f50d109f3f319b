"""Launchers in batch scripts: told where the platform's workers meet, whatever the script says of that."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest

from scheduling.jobs.script_program import script_document
from scheduling.programs.sbatch import read
from scheduling.programs.sbatch.beginning import beginning, notes
from scheduling.programs.sbatch.files_missing import FileNames, files_missing
from scheduling.programs.sbatch.launchers import LAUNCHERS, calls
from scheduling.programs.sbatch.reading import MOST_CHARACTERS
from scheduling.programs.sbatch.request import ScriptRequest, ask
from scheduling.programs.sbatch.steps import steps
from tests.programs.scripts import HEAD, PATH, RING, ran, script

TORCH = ["--nnodes=2", "--node_rank=1", "--master_addr=n7", "--master_port=4000"]
ACCELERATE = [
    "--num_machines=2", "--machine_rank=1", "--main_process_ip=n7", "--main_process_port=4000",
    "--deepspeed_multinode_launcher=standard",
]  # fmt: skip
SET = "export MASTER_ADDR=$(hostname) MASTER_PORT=29500 WORLD_SIZE=99 RANK=5\n"


def started(folder: Path, body: str, **environment: str) -> list[list[str]]:
    """Module and words of each launcher that begins."""
    done = ran(folder, SET + body, **RING | environment, BOURSE_JOB="7", BOURSE_PORT="4001")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


# Each with the options that stay, and what follows them.
OF_TORCH = {
    "torchrun --nnodes=$SLURM_NNODES --nproc_per_node=2 --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d"
    " --rdzv_endpoint=$MASTER_ADDR:29500 train.py --epochs 3": (["--nproc_per_node=2"], ["train.py", "--epochs", "3"]),
    "srun torchrun --nnodes 2 --nproc_per_node 2 --rdzv_id $RANDOM --rdzv_endpoint n1:29500 train.py --nnodes 9": (
        ["--nproc_per_node", "2"], ["train.py", "--nnodes", "9"],
    ),
    "torchrun --standalone --nproc-per-node=gpu --master-port=1234 -m pkg.train a": (
        ["--nproc-per-node=gpu", "-m"], ["pkg.train", "a"],
    ),
    "OMP_NUM_THREADS=1 torchrun --max-restarts 0 -t 3 'my train.py' ''": (
        ["--max-restarts", "0", "-t", "3"], ["my train.py", ""],
    ),
    "srun -u \\\n  torchrun \\\n  --master_addr $MASTER_ADDR \\\n train.py": ([], ["train.py"]),
    "python -u -W ignore -m torch.distributed.run --node_rank -1 --new-one 7 --tee=3 -- train.py": (
        ["--new-one", "7", "--tee=3"], ["--", "train.py"],
    ),
    "LAUNCHER='python3 -m torch.distributed.run --nnodes 9'\nsrun --jobid $SLURM_JOB_ID bash -c \"$LAUNCHER a.py\"": (
        [], ["a.py"],
    ),
    "echo 'torchrun --nnodes 9 b.py' > run.sh\nbash run.sh": ([], ["b.py"]),
    "if true; then torchrun; fi": ([], []),
    "torchrun --nnodes": ([], []),
}  # fmt: skip


@pytest.mark.parametrize(("call", "words"), OF_TORCH.items(), ids=range(len(OF_TORCH)))
def test_torchrun_meets_where_the_platform_says(call: str, words: tuple[list[str], list[str]], tmp_path: Path) -> None:
    options, program = words
    call = call.replace("--jobid $SLURM_JOB_ID ", "").replace("> run.sh", f"> {tmp_path}/run.sh")
    call = call.replace("bash run.sh", f"bash {tmp_path}/run.sh")
    assert started(tmp_path, f"{call}\n") == [["torch.distributed.run", *options, *TORCH, *program]]


def test_pytorchs_older_launcher_still_tells_scripts_their_local_rank(tmp_path: Path) -> None:
    launches = started(tmp_path, "python3 -m torch.distributed.launch --nnodes=4 --use_env a.py\n")
    assert launches == [["torch.distributed.launch", "--use_env", *TORCH, "a.py"]]


def test_accelerate_is_told_machines_and_as_many_processes_as_there_are_gpus(tmp_path: Path) -> None:
    body = """\
accelerate launch --multi_gpu --num_machines 8 --machine_rank $SLURM_PROCID --mixed_precision bf16 \\
  --main_process_ip $MASTER_ADDR --main_process_port 29500 --rdzv_backend c10d --use_deepspeed \\
  --deepspeed_hostfile hosts train.py --num_machines 3
accelerate-launch --num_processes $((SLURM_NNODES * 2)) train.py
python -m accelerate.commands.launch --config_file a.yaml --debug train.py
srun accelerate launch --config-file=a.yaml --num-processes=4 -m train
"""
    module = "accelerate.commands.launch"
    options = ["--multi_gpu", "--mixed_precision", "bf16", "--use_deepspeed"]
    assert started(tmp_path, body) == [
        [module, *options, *ACCELERATE, "--num_processes=4", "train.py", "--num_machines", "3"],
        [module, *ACCELERATE, "--num_processes=4", "train.py"],
        [module, "--config_file", "a.yaml", "--debug", *ACCELERATE, "train.py"],
        [module, "--config-file=a.yaml", "-m", *ACCELERATE, "--num_processes=4", "train"],
    ]


def test_other_words_of_accelerate_and_python_are_their_own(tmp_path: Path) -> None:
    program = tmp_path / "ours" / "accelerate"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "accelerate $*"\n')
    program.chmod(0o755)
    body = "accelerate env --nnodes 2\npython3 -c 'import sys; print(sys.argv[1:])' -m torch.distributed.run\n"
    body += "echo 'print(5)' | python3 -X dev -\npython3 -m json.tool --help > /dev/null\npython3 -W || exit 3\n"
    done = ran(tmp_path, body, **RING, PATH=f"{program.parent}:{PATH}")
    assert done.stdout == "accelerate env --nnodes 2\n['-m', 'torch.distributed.run']\n5\n"
    assert done.returncode == 3


def world_of(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """What DeepSpeed is told of all GPUs, and its other words."""
    (world,) = (word for word in words if word.startswith("--world_info="))
    record = json.loads(base64.urlsafe_b64decode(world.partition("=")[2]))
    return record, [word for word in words if word != world]


@pytest.mark.parametrize(
    ("call", "devices", "gpus"),
    [
        ("deepspeed --hostfile hosts --num_nodes 4 --master_port 29500", "4,6", ["4", "6"]),
        ("srun deepspeed --no_ssh --node_rank=$SLURM_PROCID --num_gpus 1", "4,6", ["4"]),
        ("deepspeed --include localhost:0,1 --launcher slurm --launcher_args '--mem 3'", "GPU-a", ["GPU-a"]),
        ("python -m deepspeed.launcher.runner --num_gpus=3", "", ["0", "1", "2"]),
        ("deepspeed -H hosts", "", ["0", "1"]),
    ],
)  # fmt: skip
def test_deepspeed_begins_on_each_worker_with_the_gpus_that_were_dealt(
    call: str, devices: str, gpus: list[str], tmp_path: Path
) -> None:
    (words,) = started(tmp_path, f"{call} --module pkg.train --deepspeed --num_gpus 9\n", CUDA_VISIBLE_DEVICES=devices)
    dealt_gpus, others = world_of(words)
    assert list(dealt_gpus.values()) == [gpus, gpus]
    assert others == [
        "deepspeed.launcher.launch", "--module", "--node_rank=1", "--master_addr=n7", "--master_port=4000",
        "pkg.train", "--deepspeed", "--num_gpus", "9",
    ]  # fmt: skip


def test_a_single_worker_meets_itself_at_a_port_that_it_may_use(tmp_path: Path) -> None:
    body = "torchrun --nproc_per_node=4 --nnodes=1 a.py\naccelerate launch b.py\ndeepspeed c.py\n"
    done = ran(tmp_path, body, gpus=0, BOURSE_HOSTS="n7", BOURSE_PORT="4001")
    torch, accelerate, deepspeed = (json.loads(line) for line in done.stdout.splitlines())
    assert torch[1:] == ["--nproc_per_node=4", "--standalone", "a.py"]
    assert accelerate[3:5] == ["--main_process_ip=127.0.0.1", "--main_process_port=4001"]
    assert accelerate[-2:] == ["--num_processes=1", "b.py"]
    dealt_gpus, others = world_of(deepspeed)
    assert list(dealt_gpus.values()) == [["0"]]
    assert others[2:] == ["--master_addr=127.0.0.1", "--master_port=4001", "c.py"]


def test_every_way_of_ending_is_the_scripts(tmp_path: Path) -> None:
    """A launcher that fails ends a script with -e, and no other; and none of the functions ends it by itself."""
    first = HEAD.replace("bash", "bash -eu", 1)
    body = "torchrun --nnodes 2 -m a\ndeepspeed a\naccelerate launch a\npython3 -c ''\necho on\n"
    assert ran(tmp_path, body, first, **RING).stdout.endswith("on\n")
    (python := tmp_path / "ours" / "python3").parent.mkdir()
    python.write_text("#!/bin/sh\nexit 4\n")
    python.chmod(0o755)
    for call in ("torchrun a", "deepspeed a", "accelerate launch a", "python3 -m torch.distributed.run a"):
        done = ran(tmp_path, f"{call}\necho on\n", first, **RING, PATH=f"{python.parent}:{PATH}")
        assert (done.returncode, done.stdout) == (4, ""), call
        assert ran(tmp_path, f"{call}\necho $?\n", **RING, PATH=f"{python.parent}:{PATH}").stdout == "4\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("torchrun --nnodes 2 --rdzv-id=4 a.py", [(True, "--nnodes, --rdzv-id are ignored.")]),
        ("srun deepspeed --hostfile h a.py", [(True, "--hostfile is ignored.")]),
        ("time torchrun a.py", [(True, "torchrun runs once on each worker, and is told where the workers meet.")]),
        ("timeout 1h torchrun a.py", [(False, "torchrun behind timeout looks")]),
        ("exec python -m torch.distributed.launch a.py", [(False, "python -m torch.distributed.launch by itself")]),
        ("/opt/env/bin/accelerate launch a.py", [(False, "call accelerate launch by itself")]),
        ("python3.11 -m deepspeed.launcher.runner a.py", [(False, "call deepspeed by itself")]),
        ("ls | xargs torchrun", [(False, "behind xargs")]),
        ("deepspeed --include a:0 --autotuning run a.py", [(True, ""), (False, "--include"), (False, "jobs of its")]),
        ("torchrun --nproc_per_node=4 a.py", [(True, ""), (False, "is 4, and a worker has 2 GPUs: --gpus-per-node")]),
        ("torchrun --nproc_per_node=2 a.py --nproc_per_node=9", [(True, "")]),
        ("accelerate launch --num_processes 4 a.py", [(True, "")]),
        ("accelerate launch --num_processes 8 a.py", [(True, ""), (False, "the 2 workers have 4 GPUs")]),
        ("accelerate launch --num_processes 1 a.py", [(True, ""), (False, "there are 2 workers")]),
        ("LAUNCHER=\"python -u -m torch.distributed.run --nnodes 2\"\nsrun bash -c \"$LAUNCHER a.py\"", [(True, "")]),
        ("export A='accelerate launch --same_network'", [(True, "--same_network is ignored.")]),
        ("pip install deepspeed accelerate torchrun", []),
        ("echo 'deepspeed a.py'", []),
        ("cat > a.py <<END\ndeepspeed a\nEND", []),
        ("python train.py --launcher torchrun", []),
        ("accelerate config default", []),
        ("python -m pytest\npython", []),
    ],
)  # fmt: skip
def test_what_comes_of_a_launcher_is_said_beforehand(body: str, expected: list[tuple[bool, str]]) -> None:
    remarks = list(notes(script(f"{body}\n"), 2, 2))
    assert [is_kept for _, is_kept, _ in remarks] == [is_kept for is_kept, _ in expected]
    for (number, _, sentence), (_, part) in zip(remarks, expected, strict=True):
        assert number == 3
        assert part in sentence


def test_no_option_is_both_left_out_and_kept() -> None:
    for launcher in LAUNCHERS:
        assert launcher.not_kept.keys() <= launcher.left_out
        assert not launcher.counted & launcher.left_out
        assert all("-" not in name for name in launcher.left_out | launcher.alone | launcher.counted)


def document(head: str, body: str) -> dict[str, object]:
    request = ask(text := script(body, head), ["worker", "gpu", "cpu"])
    assert isinstance(request, ScriptRequest), request
    content = script_document(text, request, "train")
    assert isinstance(content, dict), content
    return content


def test_a_launcher_starts_the_processes_that_slurm_has_room_for(tmp_path: Path) -> None:
    """A script with several tasks and a launcher runs once on a worker, and hears of as many tasks as under Slurm."""
    head = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --time=10\n"
    body = "torchrun --nproc_per_node=$SLURM_NTASKS_PER_NODE a.py $SLURM_NTASKS\n"
    content = document(head, body)
    assert content["processes_per_worker"] == "one"
    without = document(head, "srun python a.py\n")
    assert (without["processes_per_worker"], without["shape"]) == ("each_gpu", "all_reduce")
    lines = "\n".join(beginning(script(body, head), "train", "INDEX", 4, 4))
    assert "export SLURM_NTASKS_PER_NODE=4" in lines
    assert "export SLURM_NTASKS=$((${WORLD_SIZE:-1} * 4))" in lines
    eight = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=1 --time=10\n"
    assert document(eight, body)["shape"] == "independent"


def test_processes_of_a_single_worker_are_told_of_each_other() -> None:
    head = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=4 --gpus-per-node=4 --time=10\n"
    assert document(head, "srun python a.py\n")["shape"] == "all_reduce"
    assert document(head.replace("--ntasks-per-node=4 ", ""), "python a.py\n")["shape"] == "independent"


@pytest.mark.one_case
@pytest.mark.parametrize(
    "piece", ["exec ", "xargs ", ";a=b", "srun ", "a=b ", "(a=b ", "torchrun --x ", "$(a=", "'", "-m "]
)
def test_a_script_of_one_long_line_is_read_in_time(piece: str) -> None:
    """Each of a script's 1,048,576 characters is looked at so many times as there are things to look for."""
    answer = read(f"{HEAD}{piece * ((MOST_CHARACTERS - 100) // len(piece))}\n")
    assert not isinstance(answer, tuple)
    before = time.process_time()
    assert len([*notes(answer, 2, 2), *steps(answer, {}), *calls(answer), *files_missing(answer, FileNames())]) < 10
    assert beginning(answer, "train", "INDEX", 2) is not None
    assert time.process_time() - before < 20

"""A script of PyTorch's that was written for torchrun runs unchanged, and is resized in the middle."""

from __future__ import annotations

import importlib.util
import os
import time
from dataclasses import replace

import pytest

from scheduling.engines.base import FINISHED, Handle
from scheduling.engines.launcher.confine import landlock_version
from scheduling.engines.launcher.limits import ProcessLimits
from scheduling.engines.local.accounts import Rights
from scheduling.engines.local.engine import LocalEngine
from scheduling.engines.local.surroundings import code_for, ours
from scheduling.jobs.script_program import script_document
from scheduling.programs.sbatch import Script, read
from scheduling.programs.sbatch.request import ScriptRequest, ask
from tests.conftest import FOLDER
from tests.engines.local import ROOT, ended, engine_in, start, story, text_of
from tests.engines.own import HERE, RING, archive, own, resized, with_environment, workers
from tests.patience import PATIENCE

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="PyTorch is not installed here (its build without CUDA is enough), so no script of PyTorch has been run",
)
DDP = RING | {"name": "ddp", "command": ["python3", "-u", "ddp_train.py", "{steps}"], "grace_seconds": 10}


def here() -> Rights:
    """Under the account that runs the tests: a copy of PyTorch for others would be large."""
    usual = ours(code_for([], ROOT, FOLDER / "torch-code"), [])
    walled = usual.readable if landlock_version() else ()
    return Rights(usual.python, usual.environment, own=False, bare=os.geteuid() == 0, readable=walled)


def test_distributed_data_parallel_ends_with_the_loss_of_an_undisturbed_run() -> None:
    files = archive(ddp_train__py=(HERE / "ddp_train.py").read_bytes())
    with engine_in(limits=ProcessLimits(), rights=here()) as engine:

        def loss(handle: Handle) -> tuple[float, str]:
            assert ended(engine, handle, patience=2 * PATIENCE).end == FINISHED, story(engine, handle)
            line = next(line for line in text_of(engine, handle).splitlines() if line.startswith("loss"))
            return float(line.split()[1]), line.partition(" on ")[2]

        two = (time.time(), workers(2))
        undisturbed, _ = loss(start(engine, own(DDP, two, packed=files, home="job-1", seconds=3 * PATIENCE, steps=30)))
        gang = own(DDP, two, packed=files, home="job-2", seconds=3 * PATIENCE, slot_seconds=30.0, steps=30)
        gang = replace(gang, own=with_environment(gang, PAUSE="0.5"))
        four = workers(2) | workers(2, "s2")
        end_loss, sizes = loss(resized(engine, gang, four, lambda handle: "epoch 3" in text_of(engine, handle)))
    world, _, first = sizes.split()
    assert world == "4"
    assert 3 <= int(first) < 30
    assert end_loss == pytest.approx(undisturbed, rel=1e-3, abs=1e-9)


# As PyTorch's guide for Slurm has it, on two nodes with two processes each.
TUTORIAL = """\
#!/bin/bash
#SBATCH --job-name=multinode --nodes=2 --ntasks-per-node=1 --gpus-per-node=1 --time=10
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
nodes_array=($nodes)
head_node=${nodes_array[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
srun torchrun \\
--nnodes 2 \\
--nproc_per_node 2 \\
--rdzv_id $RANDOM \\
--rdzv_backend c10d \\
--rdzv_endpoint $head_node_ip:29500 \\
meet.py
"""
MEET = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
numbers = torch.ones(1) * dist.get_rank()
dist.all_reduce(numbers)
print(f"together {dist.get_world_size()} {numbers.item()}\\n", end="", flush=True)  # in one piece, also with -u
dist.destroy_process_group()
"""


# The same by other launchers, with ports and machines of another cluster. DeepSpeed without GPUs reads its own size
# from /proc, which a gang may not.
HEAD = TUTORIAL[: TUTORIAL.index("nodes=(")] + "export MASTER_ADDR=$(hostname) MASTER_PORT=29500\n"
LAUNCHERS = {
    "torch.distributed.run": 'LAUNCHER="python3 -u -m torch.distributed.run --nnodes 9 --nproc_per_node 2"\n'
    'srun bash -c "$LAUNCHER --master_addr $MASTER_ADDR --master_port $MASTER_PORT meet.py"\n',
    "torch.distributed.launch": "python3 -m torch.distributed.launch --use_env --nnodes=9 --nproc_per_node=2 meet.py\n",
    "accelerate": "srun accelerate launch --cpu --num_machines 9 --main_process_port 29500 meet.py\n",
}


def torchs(text: str, engine: LocalEngine) -> str:
    """What a script prints that is read as one for Slurm, on two workers."""
    script = read(text)
    assert isinstance(script, Script), script
    request = ask(script, ["worker", "ps"])
    assert isinstance(request, ScriptRequest), request
    document = script_document(script, request, "multinode")
    assert isinstance(document, dict), document
    two = (time.time(), workers(2))
    handle = start(engine, own(document, two, packed=archive(meet__py=MEET), seconds=3 * PATIENCE))
    assert ended(engine, handle, patience=2 * PATIENCE).end == FINISHED, story(engine, handle)
    return text_of(engine, handle)


def test_torchrun_of_a_script_for_slurm_meets_on_one_machine() -> None:
    with engine_in(limits=ProcessLimits(), rights=here()) as engine:
        assert torchs(TUTORIAL, engine).count("together 4 6.0") == 4


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_other_launchers_meet_there_as_well(launcher: str) -> None:
    package = launcher.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed here")
    processes = 2 if launcher == "accelerate" else 4  # without GPUs it begins one process on each worker
    with engine_in(limits=ProcessLimits(), rights=here()) as engine:
        sums = sum(range(processes))
        assert torchs(HEAD + LAUNCHERS[launcher], engine).count(f"together {processes} {sums}.0") == processes

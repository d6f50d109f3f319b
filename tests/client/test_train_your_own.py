"""The guide's page about one's own model: its scripts run, and its commands answer as it says, from the text itself."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from django.utils import timezone

from scheduling.models import TrainingJob
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope
from tests.api.builders import program_of
from tests.catalogue.builders import allow
from tests.client.conftest import Bourse
from tests.patience import PATIENCE
from tests.ports import free_port
from tests.scheduling.builders import make_server
from tests.scheduling.live import SPEC, fund, make_live_pool
from tests.tenants.builders import make_tenant

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "train-your-own.md"
BLOCKS = re.findall(
    r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)
FILES = {name: text for _, name, text in BLOCKS if name}
SCOPE_LIST = PAGE.read_text(encoding="utf-8").partition("A token with the scopes")[2].partition(": on the page")[0]
SCOPES = re.findall(r"`(\w+:\w+)`", SCOPE_LIST)
COMMANDS = [text for kind, _, text in BLOCKS if kind == "text"]


def write_files(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text)
    refused = FILES["train.sbatch"].replace("#SBATCH --gpus=1\n", "#SBATCH --exclusive\n")
    (folder / "refused.sbatch").write_text(refused)


@pytest.mark.django_db(transaction=True)
def test_commands_of_the_page_answer_as_it_says(
    web: str, bourse: Bourse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_server(make_live_pool(epoch_at=timezone.now(), slot_seconds=300), worker=8, ps=1)
    tenant: Tenant = make_tenant("lumen")
    fund(tenant)
    allow(tenant)
    options = {"url": web, "token": program_of(OWNER, tenant, SCOPES).secret, "tenant": "lumen"}
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) == 7
    for text in COMMANDS:
        command, *lines = text.splitlines()
        ended = bourse(*shlex.split(command.removeprefix("$ bourse ")), **options)
        output = (ended.err + ended.out).splitlines()
        assert [line for line in lines if line not in output] == [], output
        assert ended.status == (1 if "refused.sbatch" in command else 0), ended.err
        assert ended.err.count("cannot be kept") == ("refused.sbatch" in command), ended.err  # said once
    (tmp_path / "job.json").write_text(json.dumps(SPEC))
    quoted = bourse("quote", "job.json", "--pool", "main", **options)
    assert "lane " in quoted.out, f"the first hour asks for a quote with the same token: {quoted.err}"
    with scope(tenant):
        job = TrainingJob.objects.get()
    assert job.spec["program"] == {"name": "fit-a-line-sbatch", "version": 1, "parameters": {}}


def test_script_of_the_page_runs_keeps_its_state_and_tells_its_loss(tmp_path: Path) -> None:
    write_files(tmp_path)
    progress = tmp_path / "progress.jsonl"
    environment = {"PATH": os.environ["PATH"], "BOURSE_CHECKPOINT": str(tmp_path), "BOURSE_PROGRESS": str(progress)}
    for _ in range(2):  # started again, it finds that it is done
        command = ["bash", "-eu", "train.sbatch"]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == "w = 3.000 after 200 steps\n"
    rows = [json.loads(line) for line in progress.read_text().splitlines()]
    assert len(rows) == 200
    assert rows[-1]["loss"] < rows[0]["loss"]


def test_pytorch_script_of_the_page_trains_on_two_workers(tmp_path: Path) -> None:
    write_files(tmp_path)
    program = FILES["ddp.sbatch"].partition("<<'PYTHON'\n")[2].partition("\nPYTHON\n")[0]
    compile(program, "train.py", "exec")
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed here: the DistributedDataParallel script was compiled, and not run")
    ring = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the python3 of which it was just asked
    environment = {"PATH": path, "BOURSE_CHECKPOINT": str(tmp_path), "OMP_NUM_THREADS": "1"} | ring
    folders = [tmp_path / str(rank) for rank in range(2)]
    processes = []
    for rank, folder in enumerate(folders):
        folder.mkdir()
        command, own = ["bash", "-eu", str(tmp_path / "ddp.sbatch")], environment | {"RANK": str(rank)}
        processes.append(subprocess.Popen(command, cwd=folder, env=own, stdout=subprocess.PIPE, text=True))
    try:
        outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0]
    assert "step 100" in outputs[0]

"""What processes are told: each variable of each shape, and scripts that read them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduling.programs.catalogue import Program, ProgramOwner, command_of, read
from scheduling.programs.starting import GangMember, ProcessStart, Start
from scheduling.programs.starting import processes as processes_of
from scheduling.programs.templates import TEMPLATES
from tests.patience import PATIENCE

EVERYBODY = {
    "BOURSE_JOB", "BOURSE_TENANT", "BOURSE_SLOT_SECONDS", "BOURSE_ENDS_AT", "BOURSE_CHECKPOINT", "BOURSE_PROGRESS",
    "BOURSE_ROLE", "BOURSE_RANK", "BOURSE_RESTART", "BOURSE_HOSTS", "BOURSE_PORT",
}  # fmt: skip
RING = {
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK",
}  # fmt: skip
GPUS = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}


def program(shape: str = "all_reduce", **fields: Any) -> Program:
    answer = read({"name": "p", "shape": shape, "command": ["python3", "train.py"]} | fields, ProgramOwner())
    assert isinstance(answer, Program), answer
    return answer


def start(*members: GangMember, **fields: Any) -> Start:
    facts: dict[str, Any] = {
        "job": 17, "tenant": "physics", "slot_seconds": 300.0, "ends_at": 1_800_000_000, "checkpoint": "/job/kept",
        "progress": "/job/progress", "restart": 2,
    }  # fmt: skip
    return Start(members=members, **facts | fields)


def processes(of: Program, values: dict[str, Any], gang: Start, script_file: str = "") -> tuple[ProcessStart, ...]:
    return processes_of(command_of(of, values, script_file), gang)


def worker(rank: int, *gpus: str, host: str = "n1") -> GangMember:
    return GangMember("worker", rank, host, 29_500 + rank, gpus)


def values_of(starts: tuple[ProcessStart, ...], name: str) -> list[str]:
    return [process.environment[name] for process in starts]


def test_one_process_for_each_gpu_is_told_what_pytorch_reads() -> None:
    gang = start(worker(0, "0", "1"), worker(1, "0", "1", "2", host="n2"))
    alive = processes(program(processes_per_worker="each_gpu"), {}, gang)
    assert [set(process.environment) for process in alive] == [EVERYBODY | RING | GPUS] * 5
    assert values_of(alive, "RANK") == values_of(alive, "BOURSE_RANK") == ["0", "1", "2", "3", "4"]
    assert values_of(alive, "LOCAL_RANK") == ["0", "1", "0", "1", "2"]
    assert values_of(alive, "BOURSE_HOSTS") == ["n1,n2"] * 5
    assert values_of(alive, "LOCAL_WORLD_SIZE") == ["2", "2", "3", "3", "3"]
    assert values_of(alive, "GROUP_RANK") == values_of(alive, "NODE_RANK") == ["0", "0", "1", "1", "1"]
    assert set(values_of(alive, "WORLD_SIZE")) == {"5"}
    assert {*values_of(alive, "MASTER_ADDR"), *values_of(alive, "MASTER_PORT")} == {"n1", "29500"}
    assert values_of(alive, "CUDA_VISIBLE_DEVICES") == ["0,1", "0,1", "0,1,2", "0,1,2", "0,1,2"]
    assert len(set(values_of(alive, "BOURSE_PROGRESS"))) == 5
    assert all(process.words == ("python3", "train.py") for process in alive)


def test_one_process_for_each_worker_has_all_its_gpus() -> None:
    alive = processes(program(), {}, start(worker(1, "2", "3"), worker(0, "0", "1")))
    assert [process.member.rank for process in alive] == [0, 1]
    assert values_of(alive, "WORLD_SIZE") == ["2", "2"]
    assert values_of(alive, "ROCR_VISIBLE_DEVICES") == ["0,1", "2,3"]


def test_everybody_is_told_the_job_and_its_end() -> None:
    (process,) = processes(program("independent", environment={"SEED": "3"}), {}, start(worker(0)))
    assert dict(process.environment) == {
        "BOURSE_JOB": "17", "BOURSE_TENANT": "physics", "BOURSE_SLOT_SECONDS": "300", "BOURSE_ENDS_AT": "1800000000",
        "BOURSE_CHECKPOINT": "/job/kept", "BOURSE_PROGRESS": "/job/progress/worker-0.jsonl", "BOURSE_ROLE": "worker",
        "BOURSE_RANK": "0", "BOURSE_RESTART": "2", "BOURSE_HOSTS": "n1", "BOURSE_PORT": "29500",
            "SEED": "3",
    }  # fmt: skip


@pytest.mark.parametrize(("seconds", "text"), [(10, "10"), (0.5, "0.5"), (1_234_567.0, "1234567")])
def test_a_slots_length_is_told_with_all_its_digits(seconds: float, text: str) -> None:
    (process,) = processes(program("independent"), {}, start(worker(0), slot_seconds=seconds))
    assert process.environment["BOURSE_SLOT_SECONDS"] == text


def test_parameter_servers_and_workers_are_told_who_is_where() -> None:
    gang = start(worker(0), worker(1, host="n2"), GangMember("ps", 0, "n3", 4000))
    alive = processes(program("parameter_server"), {}, gang)
    assert [process.environment["BOURSE_ROLE"] for process in alive] == ["ps", "worker", "worker"]
    members = {"ps": [{"host": "n3", "port": 4000}],
               "worker": [{"host": "n1", "port": 29500}, {"host": "n2", "port": 29501}]}  # fmt: skip
    assert [json.loads(text) for text in values_of(alive, "BOURSE_MEMBERS")] == [members] * 3
    tf = [json.loads(text) for text in values_of(alive, "TF_CONFIG")]
    assert [each["cluster"] for each in tf] == [{"ps": ["n3:4000"], "worker": ["n1:29500", "n2:29501"]}] * 3
    assert [each["task"] for each in tf] == [
        {"type": "ps", "index": 0}, {"type": "worker", "index": 0}, {"type": "worker", "index": 1},
    ]  # fmt: skip
    assert not RING & set(alive[0].environment)


def test_secrets_are_names_alone_and_no_process_is_told_them_here() -> None:
    secret = program("independent", secrets={"TOKEN": "hub-token"})
    (process,) = processes(secret, {}, start(worker(0)))
    assert "TOKEN" not in process.environment
    assert "hub-token" not in str(process)


def test_the_script_template_runs_under_bash_with_what_it_is_told(tmp_path: Path) -> None:
    script = read(TEMPLATES["script"], ProgramOwner())
    assert isinstance(script, Program)
    file = tmp_path / "run.sh"
    file.write_text(script.script)
    gang = start(worker(0), worker(1))
    for rank, process in enumerate(processes(script, {}, gang, str(file))):
        answer = subprocess.run(
            process.words,
            env={"PATH": "/usr/bin:/bin"} | dict(process.environment),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.startswith(f"member {rank} of job 17, started 2 times before\nends in ")


@pytest.mark.parametrize("value", ["$(touch owned)", "; touch owned", "`touch owned`", "a b\tc", "'\"\\"])
def test_no_value_reaches_a_shell(value: str, tmp_path: Path) -> None:
    """As a word of a command, and as a variable of a script."""
    show = [sys.executable, "-c", "import sys; print(sys.argv[1:])", "--name={text}"]
    parameter = {"name": "text", "kind": "text", "default": ""}
    by_word = program("independent", command=show, parameters=[parameter])
    file = tmp_path / "run.sh"
    file.write_text('printf "%s" "$BOURSE_PARAMETER_TEXT"\n')
    by_script = program("independent", command=None, script=file.read_text(), parameters=[parameter])
    gang = start(worker(0))
    outputs = []
    for each in (by_word, by_script):
        (process,) = processes(each, {"text": value}, gang, str(file))
        environment = {"PATH": "/usr/bin:/bin"} | dict(process.environment)
        answer = subprocess.run(
            process.words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        outputs.append(answer.stdout)
    assert outputs == [f"{[f'--name={value}']}\n", value]
    assert [path.name for path in tmp_path.iterdir()] == ["run.sh"]

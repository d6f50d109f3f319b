"""A program that people brought, on a real Slurm: one launcher on each server, and one job together."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import replace

import pytest

from scheduling.engines.base import FINISHED, LOST, RUNNING, Gang, Generation
from tests.engines.own import HERE, RING, archive, script, told_to_engines
from tests.engines.slurm.cluster import Cluster
from tests.engines.slurm.gangs import ended, engine_on, log_of, look, nobody_is_left, start, story, until


@pytest.mark.beside
def test_an_all_reduce_over_two_servers_goes_on_on_three_and_a_missing_program_is_told(slurm: Cluster) -> None:
    files = archive(ring_train__py=(HERE / "ring_train.py").read_bytes())
    program = told_to_engines(RING, files, 60.0, {"steps": 60})
    program = replace(program, command=replace(program.command, variables={"PAUSE": "0.3"}), grace_seconds=4.0)
    at = time.time() + 3.0
    one = {"worker": 1, "ps": 0}
    first = Generation(1, at, at + 200.0, {"n1": one, "n2": {"worker": 2, "ps": 0}})
    amounts = {"worker": {"worker": 1.0}, "ps": {"ps": 1.0}}
    ring = Gang(secrets.token_hex(16), "job-ring", "ring", {}, (first,), at + 200.0, amounts=amounts, own=program)
    missing = replace(program, command=replace(program.command, words=("torchrun-9",)))
    alone = (Generation(1, at, at + 60.0, {"n3": one}),)
    lost = Gang(secrets.token_hex(16), "job-lost", "lost", {}, alone, at + 60.0, amounts=amounts, own=missing)
    with engine_on(slurm) as engine:
        handles = [start(engine, each) for each in (ring, lost)]
        status = ended(engine, handles[1])
        assert (status.end, status.detail) == (LOST, "torchrun-9 was not found on node n3")
        until(engine, handles[0], lambda status: status.progress.get("numbers", {}).get("step", 0) >= 2)
        begin = time.time() + 6.0
        second = Generation(2, begin, begin + 200.0, {"n1": one, "n2": one, "n3": one})
        engine.change(handles[0], begin + 200.0, [second])
        status = ended(engine, handles[0])
        assert (status.end, status.exit_code) == (FINISHED, 0), story(engine, handles[0])
        reports = [
            json.loads(line[line.index("{") :]) for line in log_of(engine, handles[0]).splitlines() if "{" in line
        ]
        assert {each["rank"] for each in reports} == {0, 1, 2}
        assert {(each["world"], each["restart"]) for each in reports} == {(3, 1)}
        assert {0 < each["resumed"] < 60 for each in reports} == {True}
        assert len({each["w"] for each in reports}) == 1
        assert reports[0]["w"] == pytest.approx(fitted(60), rel=1e-12)
        assert status.progress["numbers"]["step"] == 60
        assert {each.server for each in status.delivered} == {"n1", "n2", "n3"}
        for handle in handles:
            nobody_is_left(handle)


def fitted(steps: int) -> float:
    """Where the same descent ends in one process."""
    points, w = [(k / 64, 3 * k / 64) for k in range(64)], 0.0
    for _ in range(steps):
        w -= 0.5 * sum(2 * (w * x - y) * x for x, y in points) / len(points)
    return w


ORDERS = """
export SLURM_CONF=%s
for words in "squeue -h" "scancel %s" "sbatch -N1 --wrap=true"; do
  if $words > said 2>&1; then echo "obeyed: $words"; else echo "refused: ${words%%%% *}"; fi
done
ls %s | wc -l
"""


def test_a_program_can_order_nothing_of_slurm(slurm: Cluster) -> None:
    """All jobs may run under one account: it would cancel other tenants' jobs, and have its own run for nothing."""

    def gang_of(text: str) -> Gang:
        key, at = secrets.token_hex(16), time.time() + 1.0
        own = told_to_engines(script(text), None, 60.0, {})
        part = Generation(1, at, at + 60.0, {"n1": {"worker": 1, "ps": 0}})
        amounts = {"worker": {"worker": 1.0}}
        return Gang(key, f"job-{key[:6]}", "orders", {}, (part,), at + 60.0, amounts=amounts, own=own)

    with engine_on(slurm) as engine:
        other = start(engine, gang_of("sleep 60"))

        def own_jobs() -> list[int]:
            """It may run, as its launcher writes, before the engine has asked Slurm for its list again."""
            return [job.id for job in engine.jobs.listing.jobs.values() if job.key == other.key]

        until(engine, other, lambda status: status.state == RUNNING and own_jobs())
        (job,) = own_jobs()
        handle = start(engine, gang_of(ORDERS % (slurm.conf, job, slurm.folder / "spool" / "n1")))
        status = ended(engine, handle)
        log = log_of(engine, handle)
        assert (status.end, status.exit_code) == (FINISHED, 0), story(engine, handle)
        assert [line for line in log.splitlines() if "obeyed" in line] == [], log
        assert [line.split()[-1] for line in log.splitlines() if "refused" in line] == ["squeue", "scancel", "sbatch"]
        assert "worker 0 0" in log.splitlines(), log  # the folder in which steps listen is empty
        assert look(engine, other).state == RUNNING
        engine.stop(other)

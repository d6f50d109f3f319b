"""`engine --check`: what breaks our promises is said, and nothing else is."""

from __future__ import annotations

import re
import time

import pytest

from scheduling.engines.base import LOST, RUNNING
from scheduling.engines.slurm.nodes import nodes_of
from tests.engines.slurm.cluster import Cluster, cluster
from tests.engines.slurm.gangs import ended, engine_on, gang, nobody_is_left, start, until


def test_cluster_that_is_set_up_as_we_need_it_breaks_no_promise(slurm: Cluster) -> None:
    with engine_on(slurm, resources={"worker": "gres:gpu", "ps": "cpus"}) as engine:
        sold = {name: {"worker": 2, "ps": 16} for name in ("n1", "n2", "n3")}
        assert [finding.sentence for finding in engine.check(sold) if finding.breaks] == []
        assert not list((engine.shared / "probes").iterdir())
        nodes = nodes_of(engine.commands)[1]
        assert [(node.name, node.cpus, node.memory_mb, node.amount("gres:gpu")) for node in nodes] == [
            ("n1", 16, 1024, 2), ("n2", 16, 1024, 2), ("n3", 16, 1024, 2),
        ]  # fmt: skip


def test_everything_that_is_wrong_is_said(slurm: Cluster) -> None:
    with engine_on(slurm, reservation="other", user="nobody", resources={"worker": "gres:gpu", "ps": "cpus"}) as engine:
        slurm.reserve("other", ["n1"], "60", "IGNORE_JOBS,OVERLAP")
        try:
            sold = {"n1": {"worker": 3, "ps": 17}, "n2": {"worker": 1}, "n9": {"worker": 1}}
            sentences = {finding.sentence for finding in engine.check(sold) if finding.breaks}
        finally:
            slurm.call("scontrol", "delete", "ReservationName=other")
        assert "The server n1 has 2 of gres:gpu, and its pools sell 3." in sentences
        assert "The server n1 has 16 of cpus, and its pools sell 17." in sentences
        assert "The partition main has no server n9." in sentences
        assert "The reservation other does not have the servers n2, n9." in sentences
        assert "The reservation other is not for the account nobody." in sentences
        assert "The reservation other ends in 0 days, not in 30 or more." in sentences
        assert any(sentence.startswith("A probe on n2 was refused") for sentence in sentences)


def test_partition_reservation_or_resource_that_is_not_there_is_said(slurm: Cluster) -> None:
    wrong = {"partition": "nowhere", "reservation": "nothing", "resources": {"worker": "gres:unheard"}}
    with engine_on(slurm, **wrong) as engine:
        sentences = [finding.sentence for finding in engine.check({"n1": {"worker": 1}}) if finding.breaks]
    for sentence in (
        "The partition nowhere cannot be shown",
        "The reservation nothing cannot be shown",
        "There is no partition nowhere, or it has no servers",
        "The server n1 has 0 of gres:unheard, and its pools sell 1",
    ):
        assert any(each.startswith(sentence) for each in sentences), sentences


@pytest.mark.wide
def test_configuration_against_us_is_said() -> None:
    wrong = {"EnforcePartLimits": "NO", "SlurmdTimeout": 300, "MinJobAge": 30, "OverSubscribe": "FORCE:2",
             "MaxTime": "12:00:00", "SelectTypeParameters": "CR_Core_Memory"}  # fmt: skip
    with cluster(("n1",), **wrong) as slurm, engine_on(slurm, reservation="") as engine:
        sentences = {finding.sentence.partition(":")[0] for finding in engine.check({}) if finding.breaks}
        assert sentences == {
            "EnforcePartLimits is not ALL",
            "SlurmdTimeout is 300 s, not at most 60",
            "MinJobAge is 30 s, not at least 300",
            "OverSubscribe of the partition main is FORCE",
            "MaxTime of the partition main is 12",
            "Slurm counts memory, and neither the partition nor the cluster says how much a job has that asks for none",
            "There is no reservation",
        }
        slurm.kill("slurmctld")
        [finding] = engine.check({})
        assert finding.sentence.startswith("Slurm does not answer: ")


@pytest.mark.wide
def test_server_has_as_many_units_as_gangs_can_run_there_at_the_same_time() -> None:
    """Its cores have two threads each, and one of them is kept for the system: Slurm gives no core to two jobs. A job
    has what the site says of the memory that Slurm counts, and not all of it."""
    threads = "Sockets=1 CoresPerSocket=4 ThreadsPerCore=2 CoreSpecCount=1 MemSpecLimit=24"
    counted = {"SelectTypeParameters": "CR_Core_Memory", "DefMemPerCPU": 100}
    with cluster(("Node_A.1",), shape=threads, **counted) as slurm:
        slurm.reserve()
        with engine_on(slurm) as engine:
            [node] = nodes_of(engine.commands)[1]
            assert (node.name, node.cpus, node.memory_mb) == ("Node_A.1", 3, 1000)
            assert [each.sentence for each in engine.check({node.name: {"worker": 3}}) if each.breaks] == []
            [finding] = [each for each in engine.check({node.name: {"worker": 4}}) if each.breaks]
            assert finding.sentence == "The server Node_A.1 has 3 of cpus, and its pools sell 4."
            handles = [start(engine, gang({node.name: {"worker": 1, "ps": 0}})) for _ in range(node.cpus)]
            for handle in handles:
                assert until(engine, handle, lambda status: status.started_at or status.end).state == RUNNING


@pytest.mark.wide
@pytest.mark.beside
def test_clock_that_differs_is_said(slurm: Cluster) -> None:
    with engine_on(slurm, clock=lambda: time.time() + 5.0) as engine:
        sentences = [finding.sentence for finding in engine.check({}) if finding.breaks]
    assert len(sentences) == 3
    assert re.fullmatch(r"The clock of n1 differs by -[45]\.\d s from ours\.", sentences[0])


@pytest.mark.wide
@pytest.mark.beside
def test_gang_on_a_server_whose_clock_differs_does_not_begin(slurm: Cluster) -> None:
    with engine_on(slurm, clock=lambda: time.time() + 5.0, lead=60.0) as engine:
        handle = start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=50.0))
        status = ended(engine, handle)
        assert (status.end, status.started_at) == (LOST, None)
        assert re.fullmatch(r"the clock of n1 differs by -[5-9]\.\d s from ours", status.detail)
        nobody_is_left(handle)

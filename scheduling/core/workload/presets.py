"""Draw one job, and the machines that it runs on, from the parameter ranges of each paper.

Where a paper leaves a range open, we chose it; decision 0061 lists these ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scheduling.core.types import FloatArray
from scheduling.core.workload.document import MACHINE, Document, amounts, decimals, short
from scheduling.core.workload.model_jobs import RESOURCES, model_job, model_machines

GBPS = 1024  # Mbit/s in a Gbit/s, as in Astraea's [100, 5 * 1024]
VALUES = ("linear", "convex", "sigmoid")
VECTOR = ("gpu", "cpu", "memory_gb", "storage_gb")

# Machine types, after the families that OASiS names: GPU instances for workers, and compute instances for parameter
# servers.
GPU_MACHINES = ((16, 64, 732, 500), (8, 32, 488, 500), (4, 64, 488, 500))
CPU_MACHINE = (0, 36, 60, 500)
COLOCATED_MACHINE = (36, 99, 306, 135)  # 18 times the mean demand of a worker


@dataclass(frozen=True)
class WorkloadPreset:
    """The workload of one paper. `job` draws all fields of a job but its name, tenant, arrival and value."""

    resources: tuple[str, ...]
    value: str
    slots: int
    span: float  # slots in which jobs arrive
    longest: int | None  # a job that cannot end within this many slots is drawn again
    machines: Callable[[np.random.Generator, int], FloatArray]  # (resources, servers)
    job: Callable[[np.random.Generator, float], Document]
    shortest: Callable[[Document, float], int]  # slots of a job with all workers on an empty cluster
    split: bool = False  # every other server hosts workers only, the rest parameter servers only
    bursts: bool = False  # twice as many arrivals in every second slot


def unit_machines(dice: np.random.Generator, servers: int) -> FloatArray:
    """Return machines of 2, 4 or 8 workers and one parameter server each."""
    return np.stack([dice.choice([2.0, 4.0, 8.0], servers), np.ones(servers)])


def split_machines(dice: np.random.Generator, servers: int) -> FloatArray:
    """Return GPU machines for workers and compute machines for parameter servers in turn, with 20 to 50 Gbit/s each."""
    kinds = np.array([(*GPU_MACHINES[k], 0) for k in dice.integers(len(GPU_MACHINES), size=servers)], float)
    kinds[1::2] = (*CPU_MACHINE, 0)
    kinds[:, -1] = dice.integers(20, 51, servers) * 1000
    return kinds.T


def colocated_machines(dice: np.random.Generator, servers: int) -> FloatArray:
    """Return machines that are all alike and have room for about 18 workers."""
    return np.repeat(np.array(COLOCATED_MACHINE, float)[:, None], servers, axis=1)


def astraea_job(dice: np.random.Generator, slot_seconds: float) -> Document:
    """Draw a job as in Astraea, section 5.1. Times are in hours and milliseconds there, independent of the slot."""
    return {
        "epochs": int(dice.integers(50, 101)),
        "chunks": int(dice.integers(20, 51)),
        "minibatches": int(dice.integers(10, 51)),
        "minibatch_seconds": decimals(dice.uniform(0.001, 0.05) * 3600, 1),
        "update_seconds": decimals(dice.uniform(0.01, 0.1), 3),
        "gradient_mb": int(dice.integers(30, 576)),
        "worker_mbps": int(dice.integers(100, 5 * GBPS + 1)),
        "ps_mbps": int(dice.integers(5 * GBPS, 20 * GBPS + 1)),
        "worker_demand": {"worker": 1},
        "ps_demand": {"ps": 1},
    }


def oasis_job(dice: np.random.Generator, slot_seconds: float) -> Document:
    """Draw a job as in OASiS, section V. A unit's bandwidth is one of its demands."""
    worker_mbps, ps_mbps = int(dice.integers(100, 5001)), int(dice.integers(5000, 20001))
    resources = (*VECTOR, "mbps")
    return {
        "epochs": int(dice.integers(50, 201)),
        "chunks": int(dice.integers(5, 101)),
        "minibatches": int(dice.integers(10, 101)),
        "minibatch_seconds": short(dice.uniform(0.001, 0.1) * slot_seconds),
        "gradient_mb": int(dice.integers(30, 576)),
        "worker_mbps": worker_mbps,
        "ps_mbps": ps_mbps,
        "worker_demand": amounts(resources, (*_unit(dice, gpus=True), worker_mbps)),
        "ps_demand": amounts(resources, (*_unit(dice, gpus=False), ps_mbps)),
    }


def pdors_job(dice: np.random.Generator, slot_seconds: float) -> Document:
    """Draw a job as in PD-ORS, section 5, with the same work counted both in samples and in mini-batches.

    One worker exchanges gradients once in batch_size / ps_ratio samples: that is the mini-batch here. The samples of
    an epoch are rounded up to whole mini-batches in every chunk, so that both counts agree.
    """
    batch, ratio = int(dice.integers(1, 201)), decimals(dice.uniform(1, 10), 1)
    each = batch / ratio  # samples in a mini-batch
    minibatches = math.ceil(dice.integers(20_000, 500_001) / (batch * each))
    sample_seconds = short(10 ** dice.uniform(-5, -4) * slot_seconds)
    worker_mbps = int(dice.integers(100, 5001))
    return {
        "epochs": int(dice.integers(50, 201)),
        "chunks": batch,
        "minibatches": minibatches,
        "minibatch_seconds": short(sample_seconds * each, 6),
        "gradient_mb": int(dice.integers(30, 576)),
        "worker_mbps": worker_mbps,
        "ps_mbps": decimals(worker_mbps * ratio, 3),
        "internal_mbps": int(dice.integers(20, 51)) * 1000,
        "batch_size": batch,
        "samples": short(minibatches * batch * each, 8),
        "sample_seconds": sample_seconds,
        "ps_ratio": ratio,
        "worker_demand": amounts(VECTOR, _unit(dice, gpus=True)),
        "ps_demand": amounts(VECTOR, _unit(dice, gpus=False)),
    }


def distributed_slots(row: Document, slot_seconds: float) -> int:
    """Return the slots of a job with a worker for every chunk and gradients that cross the network."""
    exchange = 16.0 * row["gradient_mb"] / row["worker_mbps"]
    seconds = row["minibatch_seconds"] + row.get("update_seconds", 0.0) + exchange
    return math.ceil(float(row["epochs"] * row["minibatches"] * seconds) / slot_seconds)


def internal_slots(row: Document, slot_seconds: float) -> int:
    """Return the slots of a PD-ORS job with all workers on one machine."""
    exchange = 16.0 * row["gradient_mb"] * row["ps_ratio"] / (row["internal_mbps"] * row["batch_size"])
    samples = row["epochs"] * row["samples"] / row["batch_size"]
    return math.ceil(float(samples * (row["sample_seconds"] + exchange)) / slot_seconds)


def draw_value(dice: np.random.Generator, kind: str) -> Document:
    """Draw a value function: linear or convex in Astraea's ranges, or one of three kinds of sigmoid as in OASiS and
    PD-ORS."""
    if kind == "linear":
        return {
            "kind": kind,
            "slope": decimals(dice.uniform(-2.0, -0.1), 3),
            "base": decimals(dice.uniform(100, 1000), 1),
        }
    if kind == "convex":
        return {
            "kind": kind,
            "scale": decimals(dice.uniform(100, 1000), 1),
            "power": decimals(dice.uniform(1, 2), 3),
        }
    patience = dice.choice(3, p=[0.10, 0.55, 0.35])  # insensitive, sensitive, critical
    decay = (0.0, dice.uniform(0.01, 1.0), dice.uniform(4.0, 6.0))[patience]
    return {
        "kind": "sigmoid",
        "priority": decimals(dice.uniform(1, 100), 2),
        "decay": decimals(decay, 3),
        "target": decimals(dice.uniform(1, 15), 2),
    }


def _unit(dice: np.random.Generator, *, gpus: bool) -> tuple[int, ...]:
    """Draw GPUs, virtual processors, memory and storage of a worker, or of a parameter server, which has no GPU."""
    gpu = int(dice.integers(0, 5)) if gpus else 0
    return gpu, int(dice.integers(1, 11)), int(dice.integers(2, 33)), int(dice.integers(5, 11))


PRESETS = {
    "astraea": WorkloadPreset(
        resources=MACHINE,
        value="linear",
        slots=256,
        span=24,
        longest=None,
        machines=unit_machines,
        job=astraea_job,
        shortest=distributed_slots,
    ),
    "oasis": WorkloadPreset(
        resources=(*VECTOR, "mbps"),
        value="sigmoid",
        slots=300,
        span=270,
        longest=30,
        machines=split_machines,
        job=oasis_job,
        shortest=distributed_slots,
        split=True,
    ),
    "pdors": WorkloadPreset(
        resources=VECTOR,
        value="sigmoid",
        slots=20,
        span=15,
        longest=15,
        machines=colocated_machines,
        job=pdors_job,
        shortest=internal_slots,
        bursts=True,
    ),
    "dl2": WorkloadPreset(
        resources=RESOURCES,
        value="linear",
        slots=400,
        span=30,
        longest=None,
        machines=model_machines,
        job=model_job,
        shortest=distributed_slots,
    ),
}

"""Draw DL2's workload: jobs of eight well-known models, each a type of its own, on machines of two GPUs.

The paper names the models and the machines, and says that epochs vary by the tens and hundreds. Sizes of gradients are
those of the published networks with four bytes for a parameter. The durations of epochs are our choice, spread as
widely as the durations of the paper's trace (decision 0157).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduling.core.types import FloatArray
from scheduling.core.workload.document import Document, amounts

RESOURCES = ("gpu", "cpu")
MACHINE = (2.0, 8.0)
MBPS = 10_000
CHUNKS = 16  # the most workers of a job
EPOCHS = (30, 150)


@dataclass(frozen=True)
class JobKind:
    """One type of job. `epoch` is the time that one epoch takes a single worker, in slots."""

    name: str
    gradient_mb: int
    minibatch_seconds: float
    epoch: float
    worker: tuple[int, int]  # GPUs and processors
    ps: int  # processors


MODELS = (
    JobKind("resnet-50", 102, 0.30, 0.60, (2, 3), 3),
    JobKind("vgg-16", 553, 0.60, 1.60, (2, 4), 4),
    JobKind("resnext-110", 7, 0.20, 0.20, (1, 2), 1),
    JobKind("inception-bn", 45, 0.25, 0.30, (1, 3), 2),
    JobKind("seq2seq", 148, 0.40, 0.80, (2, 2), 3),
    JobKind("ctc", 24, 0.10, 0.02, (1, 1), 1),
    JobKind("dssm", 6, 0.05, 0.05, (1, 4), 1),
    JobKind("wlm", 80, 0.15, 0.04, (1, 2), 2),
)


def model_machines(dice: np.random.Generator, servers: int) -> FloatArray:
    """Return machines of two GPUs and eight processors each."""
    return np.repeat(np.array(MACHINE)[:, None], servers, axis=1)


def model_job(dice: np.random.Generator, slot_seconds: float) -> Document:
    """Draw a job of one of the models."""
    model = MODELS[int(dice.integers(len(MODELS)))]
    seconds = model.minibatch_seconds + 16.0 * model.gradient_mb / MBPS
    return {
        "model": model.name,
        "epochs": int(dice.integers(EPOCHS[0], EPOCHS[1] + 1)),
        "chunks": CHUNKS,
        "minibatches": max(1, round(model.epoch * slot_seconds / seconds / CHUNKS)),
        "minibatch_seconds": model.minibatch_seconds,
        "gradient_mb": model.gradient_mb,
        "worker_mbps": MBPS,
        "ps_mbps": MBPS,
        "worker_demand": amounts(RESOURCES, model.worker),
        "ps_demand": amounts(RESOURCES, (0, model.ps)),
    }

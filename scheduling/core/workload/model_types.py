"""The presets of a form: round numbers for well-known kinds of models that a person can begin with. It is no workload.

Sizes are those of the usual published networks with four bytes for a parameter. A mini-batch's time is that of one
current accelerator; the number of mini-batches is chosen so that an epoch of one chunk takes about one slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WORKER_MBPS, PS_MBPS = 10_000.0, 60_000.0  # one parameter server carries six workers


@dataclass(frozen=True)
class ModelType:
    code: str
    label: str
    like: str
    gradient_mb: float
    minibatch_seconds: float
    epochs: int
    chunks: int
    min_workers: int

    def fields(self, slot_seconds: float) -> Mapping[str, float | int]:
        """Return the numbers as the fields of a scenario file, for a pool with slots of `slot_seconds`."""
        return {
            "epochs": self.epochs,
            "chunks": self.chunks,
            "minibatches": max(1, round(slot_seconds / self.minibatch_seconds)),
            "minibatch_seconds": self.minibatch_seconds,
            "gradient_mb": self.gradient_mb,
            "worker_mbps": WORKER_MBPS,
            "ps_mbps": PS_MBPS,
            "min_workers": self.min_workers,
            "max_workers": self.chunks,
        }


MODEL_TYPES = (
    ModelType("test", "Short test", "one worker, one slot", 0.0, 1.0, 1, 1, 1),
    ModelType("image", "Image model", "like ResNet-50", 102.0, 0.25, 4, 6, 2),
    ModelType("language", "Language model", "like BERT base", 440.0, 0.5, 6, 12, 4),
    ModelType("speech", "Speech model", "like Deep Speech 2", 152.0, 0.4, 5, 8, 2),
    ModelType("ranking", "Ranking model", "like Wide & Deep", 40.0, 0.05, 3, 4, 1),
)

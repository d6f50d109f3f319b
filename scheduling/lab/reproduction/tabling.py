"""Figures that need no market: how the parameters of a network are dealt out to parameter servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from scheduling.core.parameter_blocks import assign, assign_as_mxnet, balance
from scheduling.lab.comparison import Figures
from scheduling.lab.reproduction.measured import FITS

MILLION = 1e6
WORKERS = 10
STAGES = ((64, 64, 256, 3), (256, 128, 512, 4), (512, 256, 1024, 6), (1024, 512, 2048, 3))  # in, narrow, out, units


def resnet_50_blocks() -> list[int]:
    """Return the sizes of what each layer of a ResNet-50 learns, which normalises before each convolution, for 1,000
    classes."""
    blocks = [3, 3, 64 * 3 * 7 * 7, 64, 64]
    for first, narrow, outputs, units in STAGES:
        for unit in range(units):
            inputs = first if unit == 0 else outputs
            blocks += [inputs, inputs, inputs * narrow, narrow, narrow, narrow * narrow * 9]
            blocks += [narrow, narrow, narrow * outputs]
            blocks += [inputs * outputs] if unit == 0 else []
    return [*blocks, 2048, 2048, 2048 * 1000, 1000]


def parameter_blocks(line: str, servers: float, seed: int) -> Figures:
    """Return how evenly a ResNet-50 is spread over `servers` servers, by Optimus' assignment or by MXNet's."""
    blocks, count = resnet_50_blocks(), int(servers)
    dealt = assign(blocks, count) if line == "optimus" else assign_as_mxnet(blocks, count, np.random.default_rng(seed))
    even = balance(dealt, count)
    held = [0] * count
    for piece in dealt:
        held[piece.server] += piece.size
    return {
        "relative_speed": _speed(WORKERS, count, max(held) / sum(blocks)),
        "size_difference": even.size_difference / MILLION,
        "request_difference": float(even.request_difference),
        "requests": float(even.requests),
    }


def _speed(workers: int, ps: int, largest: float) -> float:
    """Return the speed of a synchronous ResNet-50 whose fullest parameter server holds the part `largest` of all
    parameters."""
    a0, a1, a2, a3, a4 = FITS["resnet-50"]
    return 1.0 / (a0 / workers + a1 + a2 * workers * largest + a3 * workers + a4 * ps)


TABLES: Mapping[str, Callable[[str, float, int], Figures]] = {"parameter_blocks": parameter_blocks}

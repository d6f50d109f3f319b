"""Figures that need no market: parameters of a network dealt to parameter servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from scheduling.core.parameter_blocks import assign, assign_as_mxnet, balance
from scheduling.management.comparison import Figures

MILLION = 1e6
STAGES = ((64, 64, 256, 3), (256, 128, 512, 4), (512, 256, 1024, 6), (1024, 512, 2048, 3))  # in, narrow, out, units


def resnet_50_blocks() -> list[int]:
    """Sizes of what each layer of a ResNet-50 learns, which normalises before each convolution, for 1,000 classes."""
    blocks = [3, 3, 64 * 3 * 7 * 7, 64, 64]
    for first, narrow, outputs, units in STAGES:
        for unit in range(units):
            inputs = first if unit == 0 else outputs
            blocks += [inputs, inputs, inputs * narrow, narrow, narrow, narrow * narrow * 9]
            blocks += [narrow, narrow, narrow * outputs]
            blocks += [inputs * outputs] if unit == 0 else []
    return [*blocks, 2048, 2048, 2048 * 1000, 1000]


def parameter_blocks(line: str, servers: float, seed: int) -> Figures:
    """How even a ResNet-50 lies on so many servers, by Optimus' assignment or by MXNet's."""
    blocks, count = resnet_50_blocks(), int(servers)
    dealt = assign(blocks, count) if line == "optimus" else assign_as_mxnet(blocks, count, np.random.default_rng(seed))
    even = balance(dealt, count)
    return {
        "size_difference": even.size_difference / MILLION,
        "request_difference": float(even.request_difference),
        "requests": float(even.requests),
    }


TABLES: Mapping[str, Callable[[str, float, int], Figures]] = {"parameter_blocks": parameter_blocks}

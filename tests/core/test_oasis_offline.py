"""OASiS against the offline optimum, which knows the future: never above it, and not far below it on average."""

from __future__ import annotations

from scheduling.core.offline.oasis import optimum
from tests.core.offline_oasis import online, small_sequence


def test_never_beats_the_offline_optimum_and_stays_near_it_on_average() -> None:
    ratios = []
    for seed in range(6):
        world, jobs = small_sequence(seed)
        best, reached = optimum(world.cluster, jobs, world.slots, gap=1e-4), online(world, jobs)
        assert reached > 0
        assert reached <= best + 1e-6
        ratios.append(best / reached)
    assert sum(ratios) / len(ratios) <= 1.6

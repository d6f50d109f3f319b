"""One Slurm of three servers for all tests that leave it as it was; where it is not installed, they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.slurm.cluster import MISSING, WHY_NOT, Cluster, cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if MISSING and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=WHY_NOT))


@pytest.fixture(scope="session")
def slurm() -> Iterator[Cluster]:
    with cluster(gpus=2) as made:
        made.reserve()
        yield made

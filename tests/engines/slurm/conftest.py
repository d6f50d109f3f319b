"""One Slurm of three servers for all tests that leave it as it was; where it is not installed, they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.slurm.beside import Cases, is_beside
from tests.engines.slurm.cluster import MISSING, WHY_NOT, Cluster, cluster
from tests.engines.slurm.gangs import engine_on

CASES = pytest.StashKey[Cases]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that run beside each other come first, one after the other."""
    here = Path(__file__).parent
    places = [place for place, item in enumerate(items) if here in item.path.parents]
    ours = sorted((items[place] for place in places), key=lambda item: not is_beside(item))
    for place, item in zip(places, ours, strict=True):
        items[place] = item
        if MISSING:
            item.add_marker(pytest.mark.skip(reason=WHY_NOT))


@pytest.fixture(scope="session")
def slurm(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with cluster(gpus=2) as made:
        made.reserve()
        with engine_on(made) as engine:
            for program in ("", "trainer", "naughty"):
                engine._files_of(program)  # once: two who run beside each other would be in each other's way
        request.session.stash[CASES] = cases = Cases(request.session.items)
        yield made
        cases.end()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not is_beside(item) and CASES in item.session.stash:
        item.session.stash[CASES].end()


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not is_beside(pyfuncitem):
        return None
    pyfuncitem.session.stash[CASES].run(pyfuncitem, pyfuncitem.funcargs["slurm"])
    return True

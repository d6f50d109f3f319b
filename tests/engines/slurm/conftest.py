"""One Slurm of three servers for all tests that leave it as it was; where it is not installed, they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.slurm.beside import Cases, is_beside, is_meanwhile, turn_of
from tests.engines.slurm.cluster import MISSING, WHY_NOT, Cluster, cluster
from tests.engines.slurm.gangs import engine_on

CASES, NOW = pytest.StashKey[Cases](), pytest.StashKey[pytest.Item]()
CPUS = 16  # of a server: those who run at the same time fit on any one


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever wants to be alone comes last."""
    here = Path(__file__).parent
    places = [place for place, item in enumerate(items) if here in item.path.parents]
    ours = sorted((items[place] for place in places), key=turn_of)
    for place, item in zip(places, ours, strict=True):
        items[place] = item
        if MISSING:
            item.add_marker(pytest.mark.skip(reason=WHY_NOT))


@pytest.fixture(scope="session")
def slurm(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with cluster(cpus=CPUS, gpus=2) as own_cluster:
        own_cluster.reserve()
        with engine_on(own_cluster) as engine:
            for program in ("", "trainer", "naughty"):
                engine._files_of(program)  # once: two who run beside each other would be in each other's way
        request.session.stash[CASES] = cases = Cases(request.session.items, own_cluster)
        cases.begin(request.session.stash[NOW])  # they go on while the first test that needs a database makes it
        yield own_cluster
        cases.end()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.session.stash[NOW] = item
    if (cases := item.session.stash.get(CASES, None)) is None:
        return
    if is_meanwhile(item):
        cases.begin(item)
    elif not is_beside(item):
        cases.end()


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not is_beside(pyfuncitem):
        return None
    pyfuncitem.session.stash[CASES].run(pyfuncitem)
    return True

"""Cases that wait more than they work share the cluster: some run at the same time, and each is a test of its own.

A test marked `beside` takes nothing but the cluster, brings its own engine, and compares no time with a bound. When its
turn comes, the next ones like it begin as well; their own turns only fetch what came of them. Any other test has the
cluster to itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from tests.engines.slurm.cluster import Cluster

# Of any that follow each other, so many fit into the cluster: a gang that waited for another would be lost. And where
# tests are spread over processes, another one may take what began here: few are done twice.
MOST_AT_ONCE = 5


def is_beside(item: pytest.Item) -> bool:
    return item.get_closest_marker("beside") is not None


class Cases:
    """Of all tests of this process, in their order."""

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        self._items = list(items)
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE)
        self._begun: dict[pytest.Item, Future[None]] = {}

    def run(self, item: pytest.Function, slurm: Cluster) -> None:
        """Until this one has ended, as it ended."""
        ahead = itertools.takewhile(is_beside, self._items[self._items.index(item) :])
        for each in itertools.islice(ahead, MOST_AT_ONCE):
            if each not in self._begun:
                assert isinstance(each, pytest.Function)
                numbers = each.callspec.params if hasattr(each, "callspec") else {}
                self._begun[each] = self._pool.submit(each.obj, slurm, **numbers)
        self._begun[item].result()

    def end(self) -> None:
        """Nobody runs any more."""
        wait(self._begun.values())

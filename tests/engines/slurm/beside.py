"""Cases that wait more than they work share the cluster: some run at the same time, and each is a test of its own.

A test marked `beside` takes nothing but the cluster, brings its own engine, and compares no time with a bound. A few of
them run at once, in threads; the turn of each only fetches what came of it. A test marked `meanwhile` needs the main
thread, for Django's database or for what it patches there, and leaves to the others their room on the cluster: they go
on while it runs. Any other test has the cluster to itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from tests.engines.slurm.cluster import Cluster

# The cluster has room for so many, whichever they are, and for the test in the main thread: a gang that waited for
# another would be lost.
MOST_AT_ONCE = 5
# So many are handed out and have not ended. Where tests are spread over processes, another one may take what was handed
# out here: few are done twice.
MOST_AHEAD = 8
BESIDE, MEANWHILE = "beside", "meanwhile"


def is_beside(item: pytest.Item) -> bool:
    return item.get_closest_marker(BESIDE) is not None


def is_meanwhile(item: pytest.Item) -> bool:
    return item.get_closest_marker(MEANWHILE) is not None


def turn_of(item: pytest.Item) -> int:
    """Those while which others run come first, then those others, then whoever wants to be alone."""
    return 0 if is_meanwhile(item) else 1 if is_beside(item) else 2


class Cases:
    """Of all tests of this process, in their order."""

    def __init__(self, items: Sequence[pytest.Item], slurm: Cluster) -> None:
        self._items, self._slurm = list(items), slurm
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE)
        self._begun: dict[pytest.Item, Future[None]] = {}

    def begin(self, item: pytest.Item) -> None:
        """Those that come next, from this one on, as many as may run ahead of their turn."""
        later = self._items[self._items.index(item) :]
        ahead = itertools.takewhile(is_beside, itertools.dropwhile(is_meanwhile, later))
        room = MOST_AHEAD - sum(not case.done() for case in self._begun.values())
        for each in itertools.islice((each for each in ahead if each not in self._begun), max(1, room)):
            assert isinstance(each, pytest.Function)
            numbers = each.callspec.params if hasattr(each, "callspec") else {}
            self._begun[each] = self._pool.submit(each.obj, self._slurm, **numbers)

    def run(self, item: pytest.Function) -> None:
        """Until this one has ended, as it ended."""
        self.begin(item)
        self._begun[item].result()

    def end(self) -> None:
        """Nobody runs any more."""
        wait(self._begun.values())

"""Who could ever run, as policies ask in every slot."""

from __future__ import annotations

import gc
import weakref

from scheduling.core.empty import possible_types
from tests.core.builders import make_cluster, make_job, make_unit_type


def test_types_on_which_the_least_gang_fits_an_empty_cluster_in_their_order() -> None:
    small, large = make_unit_type((1, 0)), make_unit_type((9, 0))
    job = make_job(worker_types=[large, small], ps_types=[make_unit_type((0, 1)), make_unit_type((0, 3))])
    assert possible_types(job, make_cluster(((4,), (2,)))) == ((1, 0),)
    assert possible_types(job, make_cluster(((9,), (3,)))) == ((0, 0), (0, 1), (1, 0), (1, 1))


def test_clusters_that_nobody_asks_about_any_more_are_let_go() -> None:
    job, clusters = make_job(), [make_cluster() for _ in range(40)]
    first = weakref.ref(clusters[0])
    while clusters:
        possible_types(job, clusters.pop(0))
    gc.collect()
    assert first() is None

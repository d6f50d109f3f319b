"""The collector of garbage rests within a step, and is as it was afterwards, however the step ends."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from scheduling.common.collector import collector_resting


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    gc.enable()


def test_rests_and_is_back_at_work() -> None:
    with collector_resting():
        assert not gc.isenabled()
        with collector_resting():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_is_back_at_work_after_a_failure() -> None:
    with pytest.raises(ZeroDivisionError), collector_resting():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_stays_at_rest_where_somebody_else_put_it() -> None:
    gc.disable()
    with collector_resting():
        pass
    assert not gc.isenabled()

"""Benchmarks name parts of the product by words: whoever renames one learns of it here, and not when it is measured."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.bench import bench_elastic, bench_interval, bench_scale, bench_settle

FILES = sorted((Path(__file__).parent / "bench").glob("bench_*.py"))


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_benchmark_can_be_begun(name: str) -> None:
    module = importlib.import_module(f"tests.bench.{name}")
    assert callable(module.measure)


@pytest.mark.parametrize("row", bench_scale.ROWS)
def test_row_at_scale_can_be_begun(row: str) -> None:
    module = importlib.import_module(f"tests.bench.scale.{row}")
    small, full = module.SIZES
    assert full == 10 * small
    assert callable(module.measure)


@pytest.mark.parametrize("parts", [bench_elastic.PARTS, bench_interval.PARTS])
def test_timed_parts_are_there(parts: dict[tuple[object, str], str]) -> None:
    assert [(owner, name) for owner, name in parts if not hasattr(owner, name)] == []


def test_timed_parts_of_a_settlement_are_there() -> None:
    assert [name for name in bench_settle.PARTS if not hasattr(bench_settle.settlement, name)] == []

"""The page about cases on Slurm names tests that there are, and says of each whether it is a wide one."""

from __future__ import annotations

import ast
import re

from tests.engines.local import ROOT

PAGE = (ROOT / "docs" / "slurm-cases.md").read_text()
HERE = ROOT / "tests" / "engines"
NAMED = re.compile(r"`([a-z_/]+\.py)::(test_\w+)`( \(wide\))?")


def marks_of(file: str) -> dict[str, bool]:
    """Each test of a file, and whether all of it is marked as wide."""
    functions = [node for node in ast.parse((HERE / file).read_text()).body if isinstance(node, ast.FunctionDef)]
    marks = {node.name: [ast.unparse(mark) for mark in node.decorator_list] for node in functions}
    return {name: "pytest.mark.wide" in own_marks for name, own_marks in marks.items() if name.startswith("test_")}


def test_every_row_names_tests_that_exist() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 21
    for row in rows:
        assert NAMED.search(row) or "make soak-cluster" in row, row
    for file, name, wide in NAMED.findall(PAGE):
        there = marks_of(file)
        assert name in there, f"{file} has no {name}"
        assert there[name] == bool(wide), f"{name} is {'' if there[name] else 'not '}a wide one"

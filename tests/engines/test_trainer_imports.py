"""The trainer starts fast: it may import numpy, the standard library, itself and the core."""

import ast
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "scheduling" / "engines" / "trainer"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.name)
def test_trainer_imports_only_numpy_the_standard_library_and_the_core(file: Path) -> None:
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    ours = ("scheduling.core.", "scheduling.engines.trainer.", "numpy.")
    others = [name for name in names if name.split(".")[0] not in sys.stdlib_module_names]
    assert all(f"{name}.".startswith(ours) for name in others), others

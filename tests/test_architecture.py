"""The rules of the house that a machine can check: who may import whom, and what the core may touch."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent
CORE = ROOT / "scheduling" / "core"

# Nothing here reads a clock, throws a die, or opens a file. `io`, `csv`, `json` and `zipfile` parse what the caller
# opened; `pkgutil` gives what is shipped beside the code, which is as constant as the code.
PURE = frozenset({
    "__future__", "abc", "bisect", "collections", "contextlib", "copy", "csv", "dataclasses", "decimal", "difflib",
    "enum", "fractions", "functools", "hashlib", "heapq", "io", "itertools", "json", "keyword", "math", "numbers",
    "operator", "pkgutil", "re", "statistics", "string", "textwrap", "types", "typing", "warnings", "weakref",
    "zipfile", "zlib",
})  # fmt: skip
LIBRARIES = frozenset({"numpy", "scipy"})


def imports_of(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield ("." * node.level) + (node.module or "")


def is_allowed_in_core(module: str) -> bool:
    return module.split(".")[0] in PURE | LIBRARIES or f"{module}.".startswith("scheduling.core.")


def forbidden_in_core(source: str) -> list[str]:
    return [module for module in imports_of(source) if not is_allowed_in_core(module)]


@pytest.mark.parametrize("file", sorted(CORE.rglob("*.py")), ids=lambda file: str(file.relative_to(CORE)))
def test_core_imports_only_mathematics_and_pure_standard_modules(file: Path) -> None:
    assert forbidden_in_core(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "import subprocess",
        "import os.path",
        "from time import monotonic",
        "import random",
        "from django.db import models",
        "from scheduling.models import Server",
        "import scheduling.corer",
        "from .. import models",
        "def late():\n    import socket",
    ],
)
def test_walk_catches_a_planted_violation(line: str) -> None:
    assert forbidden_in_core(line) != []


@pytest.mark.parametrize("package", ["scheduling", "scheduling/core", "tenants"])
def test_package_that_everybody_passes_through_imports_nothing(package: str) -> None:
    assert list(imports_of((ROOT / package / "__init__.py").read_text(encoding="utf-8"))) == []


def test_import_contracts_of_pyproject_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.path", [*sys.path])  # the linter adds to it
    # On a broken contract its report, with the chain of imports, is in the captured output.
    assert lint_imports(no_cache=True, no_logo=True) == 0

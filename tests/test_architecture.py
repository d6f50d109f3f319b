"""The rules of the house that a machine can check: who may import whom, and what the core may touch."""

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from tests.sources import trees

ROOT = Path(__file__).parent.parent
CORE = ROOT / "scheduling" / "core"
PROGRAMS = ROOT / "scheduling" / "programs"

# Nothing here reads a clock, throws a die, or opens a file. `io`, `csv`, `json` and `zipfile` parse what the caller
# opened; `pkgutil` gives what is shipped beside the code, which is as constant as the code; `gc` and `threading`
# (of `collector`) change no result.
PURE = frozenset({
    "__future__", "abc", "bisect", "collections", "contextlib", "copy", "csv", "dataclasses", "decimal", "difflib",
    "enum", "fractions", "functools", "gc", "hashlib", "heapq", "io", "itertools", "json", "keyword", "math", "numbers",
    "operator", "pkgutil", "re", "statistics", "string", "textwrap", "threading", "types", "typing", "warnings",
    "weakref", "zipfile", "zlib",
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


@pytest.mark.parametrize("file", sorted(PROGRAMS.rglob("*.py")), ids=lambda file: str(file.relative_to(PROGRAMS)))
def test_programs_import_the_core_and_pure_standard_modules_alone(file: Path) -> None:
    modules = imports_of(file.read_text(encoding="utf-8"))
    allowed: tuple[str, ...] = ("scheduling.core.", "scheduling.programs.")
    if file.name == "stored.py":  # rows become values there, for the engines and the market
        allowed += ("scheduling.models.", "tenants.models.", "django.db.models.")
    assert [m for m in modules if m.split(".")[0] not in PURE and not f"{m}.".startswith(allowed)] == []


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
    monkeypatch.setattr("logging.config.dictConfig", lambda _: None)  # and would silence every logger that there is
    # On a broken contract its report, with the chain of imports, is in the captured output.
    assert lint_imports(no_cache=True, no_logo=True) == 0


def test_nobody_else_answers_with_a_stream() -> None:
    """The asynchronous server reads a stream that is none of its own whole, before it sends the first byte of it."""
    answers = ("StreamingHttpResponse", "FileResponse")
    makers = {
        path
        for path, tree in trees("marketplace", "scheduling", "tenants", naming=answers)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name | ast.Attribute)
        and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr) in answers
    }
    assert makers == {"scheduling/feed/api/events.py", "tenants/common/downloads.py"}


def test_every_rule_that_the_code_names_stands_on_a_page() -> None:
    """A docstring or comment that says R17 is worth something only if R17 can be read."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "rules").glob("*.md"))
    rules = set(re.findall(r"\*\*([A-Z]\d+)\*\*", pages))
    rule = re.compile(r"\b[RLGOCAPBK][1-9]\d?\b")
    named: dict[str, str] = {}
    for file in sorted((ROOT / "scheduling").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(StringIO(text).readline) if rule.search(text) else ():
            if token.type == tokenize.COMMENT or token.string.startswith('"""'):
                place = f"{file.name}:{token.start[0]}"
                named |= dict.fromkeys(rule.findall(token.string), place)
    assert len(named) > 40
    assert {tag: place for tag, place in named.items() if tag not in rules} == {}


def test_every_decision_stands_in_the_index_once() -> None:
    folder = ROOT / "docs" / "decisions"
    index_titles = re.findall(
        r"^- \[(\d{4})\]\((\S+)\) (.+)$", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    titles = {
        (
            page.name[:4],
            page.name,
            page.read_text(encoding="utf-8").partition("\n")[0].removeprefix(f"# {page.name[:4]} "),
        )
        for page in folder.glob("0*.md")
    }
    assert len(index_titles) == len(set(index_titles))
    assert set(index_titles) == titles


APPS = ("tenants", "marketplace")  # they have what concerns no market
PLUMBING = {f"tenants/{name}" for name in ("migrations", "management", "templatetags")} | {
    f"marketplace/{name}" for name in ("management", "pooled")
}


def test_the_map_names_every_room_and_no_other() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Map")[2].partition("\n## ")[0]
    text, _, beside = text.partition("\n`tenants` and `marketplace`")
    rows, others = (re.findall(r"^\| (`.+?`) \| .+ \| (`.+?`) \|$", each, re.MULTILINE) for each in (text, beside))
    folders = [folder for places, _ in rows for folder in re.findall(r"`([a-z_/]+)`", places)]
    insides = {"models", "core", "programs", "engines", "migrations", "management"}
    there = {place.parent.name for place in (ROOT / "scheduling").glob("*/__init__.py")} - insides - {"market"}
    parts = {f"market/{place.parent.name}" for place in (ROOT / "scheduling" / "market").glob("*/__init__.py")}
    assert sorted(folders) == sorted(there | parts - {"market/pages", "market/api"})
    for places, begin in rows:
        first = re.findall(r"`([a-z_/]+)`", places)
        for name in re.findall(r"`([a-z_/]+)`", begin):
            module = ROOT / "scheduling" / ("market" if len(first) > 1 else first[0]) / name.rstrip("/")
            assert module.is_dir() or module.with_suffix(".py").is_file(), f"{places}: {name}"
    named = [folder for places, _ in others for folder in re.findall(r"`([a-z_/]+)`", places)]
    packages = {f"{app}/{place.parent.name}" for app in APPS for place in (ROOT / app).glob("*/__init__.py")}
    assert sorted(named) == sorted(packages - PLUMBING)
    for places, begin in others:
        of = [ROOT / folder for folder in re.findall(r"`([a-z_/]+)`", places)]
        for name in re.findall(r"`([a-z_]+)`", begin):
            assert any((folder / f"{name}.py").is_file() for folder in of), f"{places}: {name}"


def test_files_where_a_change_begins_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("## Where a change begins")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    files = {file for row in rows for file in re.findall(r"`([a-z_/]+/[a-z_]+\.(?:py|html))`", row)}
    assert len(rows) > 10
    assert len(files) > 25
    assert {file for file in files if not (ROOT / file).is_file()} == set()

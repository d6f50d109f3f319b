"""A class has a name of its own, so that a search for it ends in one place."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APPS = ("marketplace", "scheduling", "tenants")
# Django finds commands by this name; a tenant, and its fairness, are one thing as a row and as the core's value.
SHARED = {"Command", "Tenant", "TenantFairness"}


def test_each_class_has_a_name_of_its_own() -> None:
    """Addresses and bodies of the interface are called as what they show, and are left out."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(file for app in APPS for file in (ROOT / app).rglob("*.py")):
        if "migrations" in file.parts or "api" in file.relative_to(ROOT).parts[:-1] or file.name == "api.py":
            continue
        for statement in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ClassDef) and statement.name not in SHARED:
                places[statement.name].append(file.relative_to(ROOT).as_posix())
    assert not {name: files for name, files in places.items() if len(files) > 1}


NAMED = (*APPS, "client/bourse_client", "tests")
# They say what happened to a value, and not what it is.
PARTICIPLES = {
    "asked", "chosen", "drawn", "found", "given", "gone", "heard", "kept", "known",
    "listed", "made", "said", "seen", "sent", "shown", "taken", "told", "written",
}  # fmt: skip
# Of values that are serialized by their fields' names, of forms that are open in browsers, and of columns of published
# tables; and methods with many callers.
EXCEPTIONS = {
    "client/bourse_client/client.py": {"listed", "said", "shown"},
    "scheduling/books/read_statements.py": {"kept"},
    "scheduling/core/metrics/fairness.py": {"kept"},
    "scheduling/fairness/pages/picture.py": {"kept"},
    "scheduling/fairness/read_values.py": {"kept"},
    "scheduling/jobs/cancel_preview.py": {"kept"},
    "scheduling/jobs/read_slots.py": {"kept"},
    "scheduling/lab/pages/form.py": {"written"},
    "scheduling/market/reads/forgone.py": {"kept"},
    "scheduling/market/reads/use.py": {"taken"},
    "scheduling/money/credits.py": {"asked"},
    "scheduling/operator/cells.py": {"asked"},
    "scheduling/operator/pages/cluster_import.py": {"shown"},
    "scheduling/operator/servers.py": {"asked"},
    "scheduling/programs/fields.py": {"shown"},
    "scheduling/quotes/plans.py": {"chosen"},
    "scheduling/what_if/seen.py": {"said"},
    "tenants/ledger/amounts.py": {"shown"},
}


def test_no_name_is_a_bare_participle() -> None:
    """Variables, parameters, functions and classes, those of tests too. Columns of the database and fields of the
    interface keep theirs, and what is imported keeps its own."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    for file in sorted(file for folder in NAMED for file in (ROOT / folder).rglob("*.py")):
        path = file.relative_to(ROOT)
        if path.parts[0] != "tests" and ({"migrations", "models", "api"} & set(path.parts) or path.name == "shapes.py"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            name = _bound_by(node)
            if name.strip("_").lower() in PARTICIPLES:
                names[path.as_posix()].add(name)
    assert dict(names) == EXCEPTIONS


def _bound_by(node: ast.AST) -> str:
    """Return the name that a node binds; it is empty where it binds none."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.alias | ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return (node.asname if isinstance(node, ast.alias) else node.name) or ""
    return node.arg if isinstance(node, ast.arg) else ""

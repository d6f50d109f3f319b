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

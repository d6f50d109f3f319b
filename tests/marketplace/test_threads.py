"""Sums do not depend on how many threads add them up: every process has one for linear algebra. And the solver of
integer programs, a third of a process's start, is loaded by those who solve one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.conf import settings

SCRIPT = "import json, os, sys; print(json.dumps([os.environ['OPENBLAS_NUM_THREADS'], '{package}' in sys.modules]))"


def settings_of(module: str, package: str = "numpy", **environment: str) -> list[object]:
    """How many threads numpy will have, and whether the package is loaded already, once a process imported that."""
    bare = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    run = subprocess.run(
        [sys.executable, "-c", f"import {module}; {SCRIPT.format(package=package)}"],
        cwd=settings.BASE_DIR,
        env=bare | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    document: list[object] = json.loads(run.stdout)
    return document


@pytest.mark.parametrize("module", ["manage", "marketplace.processes.product", "marketplace.web"])
def test_processes_say_so_before_numpy_is_loaded(module: str) -> None:
    assert settings_of(module) == ["1", False]


def test_who_sets_another_number_keeps_it() -> None:
    assert settings_of("manage", OPENBLAS_NUM_THREADS="4") == ["4", False]


def test_nobody_loads_the_solver_who_does_not_solve() -> None:
    assert settings_of(
        "marketplace.processes.product, django; django.setup()", "scipy", DJANGO_SETTINGS_MODULE="marketplace.settings"
    ) == ["1", False]

"""Sums do not depend on how many threads add them up: every process has one for linear algebra."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.conf import settings

TOLD = "import json, os, sys; print(json.dumps([os.environ['OPENBLAS_NUM_THREADS'], 'numpy' in sys.modules]))"


def told(first: str, **environment: str) -> list[object]:
    """How many threads numpy will have, and whether it is too late to say so, once a process imported that."""
    bare = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    run = subprocess.run(
        [sys.executable, "-c", f"import {first}; {TOLD}"],
        cwd=settings.BASE_DIR,
        env=bare | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[object] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("first", ["manage", "marketplace.product", "marketplace.web"])
def test_processes_say_so_before_numpy_is_loaded(first: str) -> None:
    assert told(first) == ["1", False]


def test_who_sets_another_number_keeps_it() -> None:
    assert told("manage", OPENBLAS_NUM_THREADS="4") == ["4", False]

"""Scenario files in a folder, and the command line run for real."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def put(folder: Path, document: object, name: str = "S.json") -> Path:
    """A scenario file; a text is written as it stands."""
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def result_of(path: Path) -> dict[str, Any]:
    """A result file."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def output_of(name: str, *arguments: object) -> str:
    """What a command prints."""
    out = io.StringIO()
    call_command(name, *map(str, arguments), stdout=out)
    return out.getvalue()


def refused(name: str, *arguments: object) -> str:
    """What a command refuses with, and that its status is 2."""
    with pytest.raises(CommandError) as refusal:
        call_command(name, *map(str, arguments), stdout=io.StringIO())
    assert refusal.value.returncode == 2
    return str(refusal.value)


def manage(
    *arguments: object, cwd: Path = ROOT, into: TextIO | int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """`manage.py` in a process of its own, on a machine where nothing is set up. `into`: where its output goes."""
    bare = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    command = [sys.executable, str(ROOT / "manage.py"), *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=bare, stdout=into, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False
    )

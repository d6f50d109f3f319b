"""A learner's step gives way to everybody from its first line on: not even reading the program keeps a slot waiting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from tests.patience import PATIENCE

LOADED = "import sys; {}; print([name for name in sys.modules if name.split('.')[0] in ('django', 'numpy', 'celery')])"
AUTOGROUP = Path("/proc/self/autogroup")
# What `main` does before it reads the program: a process that gives way to all takes long to read it on a busy machine.
BEGIN = "from scheduling.learner import idle; import os; idle.begin({parent}); {then}"
PRIORITY = "print(os.sched_getscheduler(0) == os.SCHED_IDLE, os.nice(0), os.getsid(0) == os.getpid())"


def python(code: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", code]
    return subprocess.run(words, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=PATIENCE)


def begun(then: str, parent: int | None = None) -> subprocess.CompletedProcess[str]:
    return python(BEGIN.format(parent=parent or os.getpid(), then=then))


def test_nothing_large_is_read_before() -> None:
    told = python(LOADED.format("import scheduling.learner.idle"))
    assert told.stdout.strip() == "[]", told.stderr
    assert "django" in python(LOADED.format("import django")).stdout


def test_it_runs_where_nobody_else_wants_to() -> None:
    told = begun(PRIORITY)
    assert told.stdout.split() == ["True", "19", "True"], told.stderr


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel shares processors out among processes alone")
def test_its_session_has_the_least_weight_and_that_of_its_parent_stays() -> None:
    before = AUTOGROUP.read_text()
    told = begun(f"print(open('{AUTOGROUP}').read())")
    assert told.stdout.strip().endswith(" nice 19"), told.stderr
    assert AUTOGROUP.read_text() == before


def test_step_whose_parent_is_gone_does_not_begin() -> None:
    told = begun(PRIORITY, parent=1)
    assert (told.returncode, told.stdout) == (1, "")
    assert "The process that began this step is gone." in told.stderr

"""A learner's step is at the lowest priority from its beginning: not even reading the program keeps a slot waiting."""

from __future__ import annotations

import os
import subprocess
import sys

from django.conf import settings

from tests.patience import PATIENCE

LOADED = "import sys; {}; print([name for name in sys.modules if name.split('.')[0] in ('django', 'numpy', 'celery')])"
PRIORITY = "import os; print(os.sched_getscheduler(0) == os.SCHED_IDLE, os.nice(0))"


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=PATIENCE
    )


def test_nothing_large_is_read_before_the_priority_is_lowered() -> None:
    told = python("-c", LOADED.format("import scheduling.learner.idle"))
    assert told.stdout.strip() == "[]", told.stderr
    assert "django" in python("-c", LOADED.format("import django")).stdout


def test_command_runs_where_nobody_else_wants_to() -> None:
    told = python("-m", "scheduling.learner.idle", str(os.getpid()), "shell", "--no-imports", "--command", PRIORITY)
    assert told.stdout.split() == ["True", "19"], told.stderr


def test_step_whose_parent_is_gone_does_not_begin() -> None:
    told = python("-m", "scheduling.learner.idle", "1", "shell", "--no-imports", "--command", PRIORITY)
    assert (told.returncode, told.stdout) == (1, "")
    assert "The process that began this step is gone." in told.stderr

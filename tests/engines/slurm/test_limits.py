"""What programs write without measure, and a shared folder that takes nothing any more."""

from __future__ import annotations

import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scheduling.engines.base import FINISHED, Fault, Gang, Generation
from scheduling.engines.slurm.engine import SlurmEngine
from tests.engines.local import people_of
from tests.engines.own import script, told_to_engines
from tests.engines.slurm.cluster import Cluster
from tests.engines.slurm.gangs import (
    PATIENCE,
    ended,
    engine_on,
    gang,
    log_of,
    runs,
    start,
    story,
)  # fmt: skip

THREE = {"n3": {"worker": 1, "ps": 1}}
FLOOD = """
echo 'no number at all' >> "$BOURSE_PROGRESS"
echo '{"step": 1, "loss": NaN}' >> "$BOURSE_PROGRESS"
echo '{"step": 2, "lo' >> "$BOURSE_PROGRESS"
head -c "${MEGABYTES}000000" /dev/zero | tr '\\0' x | fold -w 999
echo '{"step": 5, "of": 5, "loss": 0.5}' >> "$BOURSE_PROGRESS"
sleep 2
"""


@contextmanager
def small_disk(slurm: Cluster) -> Iterator[Path]:
    """A disk of a few kilobytes below the folder that all servers see."""
    place = slurm.shared / f"small-{secrets.token_hex(4)}"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "bourse", place], check=False)
    if mounted.returncode:
        pytest.skip("this account may not mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.wide
@pytest.mark.beside
@pytest.mark.parametrize("megabytes", [100, 1_000])
def test_log_without_end_and_broken_progress_are_cut_and_told_and_the_job_goes_on(
    slurm: Cluster, megabytes: int
) -> None:
    document = script(FLOOD, environment={"MEGABYTES": str(megabytes)})
    program, at = told_to_engines(document, None, 60.0, {}), time.time() + 3.0
    amounts = {"worker": {"worker": 1.0}}
    part = Generation(1, at, at + 600.0, {"n2": {"worker": 1, "ps": 0}})
    key = secrets.token_hex(16)
    flood = Gang(key, f"job-{key[:6]}", "flood", {}, (part,), at + 600.0, amounts=amounts, own=program)
    with engine_on(slurm) as engine:
        handle = start(engine, flood)
        status = ended(engine, handle, 600.0)
        assert (status.end, status.exit_code) == (FINISHED, 0), story(engine, handle)
        assert status.progress["numbers"] == {"step": 5, "of": 5, "loss": 0.5}
        assert status.progress["bad_lines"] == 3
        cut = "writes (faster|more) than it may: its lines are left out"  # more: who is that slow, fills the whole log
        assert re.search(cut, log_of(engine, handle))
        assert sum(path.stat().st_size for path in (engine.root / handle.home).rglob("log")) < 2 * 2**20


@pytest.mark.wide
@pytest.mark.beside
def test_shared_folder_that_is_full_refuses_gangs_with_that_sentence_and_ends_who_runs(slurm: Cluster) -> None:
    with small_disk(slurm) as small, engine_on(slurm, shared=str(small), lease=8.0, patience=30.0) as engine:
        handle = start(engine, gang(THREE))
        runs(engine, handle)
        with pytest.raises(OSError, match="No space left"):
            (small / "ballast").write_bytes(b"x" * 4 * 2**20)
        assert what_is_said(engine) == (
            "The gang could not be started: the shared folder says No space left on device.",
            f"The shared folder {small} cannot be written here: No space left on device.",
        )
        deadline = time.monotonic() + PATIENCE
        while people_of(handle.key):  # nobody goes on unseen, although the engine is there
            engine.touch()
            assert time.monotonic() < deadline, story(engine, handle)
            time.sleep(0.1)
        (small / "ballast").unlink()
        ended(engine, handle)


def test_shared_folder_that_is_read_only_refuses_gangs_with_that_sentence(slurm: Cluster) -> None:
    with small_disk(slurm) as small, engine_on(slurm) as engine:
        subprocess.run(["mount", "-o", "remount,ro", small], check=True)
        engine.shared = small
        assert what_is_said(engine) == (
            "The gang could not be started: the shared folder says Read-only file system.",
            f"The shared folder {small} cannot be written here: Read-only file system.",
        )


def what_is_said(engine: SlurmEngine) -> tuple[str, str]:
    """At a start, and by the check."""
    order = gang({"n2": {"worker": 1, "ps": 1}})
    answer = engine.submit([order])[order.key]
    assert isinstance(answer, Fault)
    (sentence,) = [each.sentence for each in engine.check({}) if each.sentence.startswith("The shared folder")]
    return answer.sentence, sentence

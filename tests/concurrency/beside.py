"""Another process that works on the market, and may die of it.

Starting one costs a second of imports. So one process has everything imported and forks for each piece of work: whoever
dies at a step is a process of its own, with its own connection to the database, as a worker would be.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SECONDS = 300  # that one piece of work may take


@dataclass(frozen=True)
class Ended:
    """`status`: as of a shell's child, or minus the number of the signal that killed it."""

    status: int
    out: str
    errors: str


@dataclass(frozen=True)
class Beside:
    process: subprocess.Popen[str]

    def work(self, work: str, *step: str, victim: int = 0) -> Ended:
        """`tests.concurrency.faulty` with these words; `victim` dies at the step in place of the one who works."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([[work, *step], victim]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the process that forks has ended"
        return Ended(*json.loads(answer))

    def done(self, work: str) -> str:
        """What it printed. It must succeed."""
        ended = self.work(work)
        assert ended.status == 0, ended.errors
        return ended.out


@contextmanager
def beside(environment: Mapping[str, str]) -> Iterator[Beside]:
    """It lives as long as the block."""
    command = [sys.executable, "-m", "tests.concurrency.beside"]
    single = {"OPENBLAS_NUM_THREADS": "1"}  # threads would not outlive a fork
    with subprocess.Popen(
        command, cwd=ROOT, env={**environment, **single}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Beside(process)
        # Leaving closes its input, at which it ends.


def serve() -> None:
    for line in sys.stdin:
        words, victim = json.loads(line)
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
            if (child := os.fork()) == 0:
                os.dup2(out.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                _alone(words, victim)
            _, status = os.waitpid(child, 0)
            texts = [text.seek(0) or text.read() for text in (out, errors)]
        print(json.dumps([os.waitstatus_to_exitcode(status), *texts]), flush=True)


def _alone(words: Sequence[str], victim: int) -> None:
    """In the forked process, which never returns."""
    from tests.concurrency.faulty import main

    signal.alarm(SECONDS)
    status = 1
    try:
        main(words, victim)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    from tests.concurrency.faulty import prepare_to_work

    prepare_to_work()
    serve()

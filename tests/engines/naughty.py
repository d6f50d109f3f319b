"""`python -m tests.engines.naughty`: a program that does what a program may not, as its parameter says."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("--parameters", "--folder", "--progress"):
        parser.add_argument(option, default="")
    parser.add_argument("--outlive-parent", action="store_true")
    options = parser.parse_args()
    sin = json.loads(options.parameters)["sin"]
    if os.environ["ROLE"] != "worker" and sin != "deaf":
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        time.sleep(120)
    SINS[sin]()
    time.sleep(120)


def fork() -> None:
    """Children in sessions of their own, which nobody waits for."""
    for _ in range(200):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(120)
            os._exit(0)


def eat() -> None:
    """More memory than there is, in several processes, so that no single one is large."""
    for _ in range(4):
        if os.fork() == 0:
            hoard = [bytearray(os.urandom(1024) * 1024) for _ in range(60)]
            time.sleep(120)
            print(len(hoard))


def swell() -> None:
    """One process that asks for too much."""
    hoard = bytearray(10 * 2**30)
    print(len(hoard))


def flood() -> None:
    """A log without an end."""
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        sys.stdout.write("x" * 99 + "\n")


def deaf() -> None:
    """SIGTERM means nothing, to nobody of the gang."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("deaf", flush=True)


def outside() -> None:
    """Files where it has no business."""
    for path in (os.environ["HOME"] + "/../escaped", "/tmp/bourse-escaped", "/var/tmp/bourse-escaped"):  # noqa: S108
        try:
            with open(path, "w") as file:
                file.write("mine")
            print("wrote", path, flush=True)
        except OSError as error:
            print("could not:", error.strerror, flush=True)
    with open(os.environ["HOME"] + "/inside", "w") as file:
        file.write("mine")
    subprocess.run(["touch", "/tmp/bourse-escaped-too"], check=False)  # noqa: S108


def spin() -> None:
    """Processor time, in several processes at once, so that no single one uses much."""
    for _ in range(4):
        if os.fork() == 0:
            while True:
                pass


def fill() -> None:
    """Many files, none of them large."""
    for number in range(30):
        with open(f"{os.environ['HOME']}/{number}", "wb") as file:
            file.write(os.urandom(2**20))
    print("filled", flush=True)


def suicide() -> None:
    """The signal that looks as if somebody else had sent it."""
    os.kill(os.getpid(), signal.SIGKILL)


def peek() -> None:
    """What is not its own: who it is, whom it can see into, and whom it can reach."""
    print("account", os.getuid(), flush=True)
    home, watcher = os.environ["HOME"], os.getppid()
    run = os.environ["BOURSE_RUN"]
    for name, attempt in (
        ("plan", lambda: Path(f"{home}/../{run}/plan.json").read_text()),
        ("list", lambda: os.listdir(f"{home}/..")),
        ("environment", lambda: Path(f"/proc/{watcher}/environ").read_text()),
        ("signal", lambda: os.kill(watcher, signal.SIGTERM)),
        ("root", lambda: os.setuid(0)),
    ):
        try:
            attempt()
            print(name, "worked", flush=True)
        except OSError as error:
            print(name, "refused:", error.strerror, flush=True)


def die() -> None:
    """Before the job has begun."""
    sys.exit(7)


SINS = {each.__name__: each for each in (fork, eat, swell, flood, deaf, outside, spin, fill, suicide, peek, die)}

if __name__ == "__main__":
    main()

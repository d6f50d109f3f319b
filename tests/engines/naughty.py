"""`python -m tests.engines.naughty`: a program that does what a program may not, as its parameter says."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
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
    """Children in sessions of their own, which nobody waits for; as many as the kernel lets an account have."""
    with suppress(BlockingIOError):
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
    subprocess.run(["touch", "/tmp/bourse-escaped-too"], check=False)  # noqa: S108
    with open(os.environ["HOME"] + "/inside", "w") as file:
        file.write("mine")


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
    """What is not its own: whom it can see into, whom it can reach, and the files and ports that the test names."""
    print("account", os.getuid(), flush=True)
    home, watcher = Path(os.environ["HOME"]), os.getppid()
    run = os.environ["BOURSE_RUN"]
    named = json.loads((home / "named.json").read_text())
    for name, attempt in (
        ("plan", lambda: (home / f"../{run}/plan.json").read_text()),
        ("list", lambda: os.listdir(home / "..")),
        ("environment", lambda: Path(f"/proc/{watcher}/environ").read_text()),
        ("signal", lambda: os.kill(watcher, signal.SIGTERM)),
        ("account of root", lambda: os.setresuid(0, 0, 0) if os.getuid() else os.setuid(1)),
        *((path, Path(path).read_bytes) for path in named["files"]),
        *((f"port {port}", partial(listen, port)) for port in named["ports"]),
    ):
        try:
            attempt()
            print(name, "worked", flush=True)
        except OSError as error:
            print(name, "refused:", error.strerror, flush=True)
    print("peeked", flush=True)


def listen(port: int) -> None:
    """As a web process does, which shares its port with others of its account."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind(("127.0.0.1", port))


def die() -> None:
    """Before the job has begun."""
    sys.exit(7)


SINS = {each.__name__: each for each in (fork, eat, swell, flood, deaf, outside, spin, fill, suicide, peek, die)}

if __name__ == "__main__":
    main()

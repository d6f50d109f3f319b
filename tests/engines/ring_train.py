"""A training script as people have it, without torch: gradients are summed round a ring of plain sockets.

    ring_train.py STEPS

It reads what `env://` reads, fits w in y = w x by gradient descent over 64 points, each process on its own part, and
saves after each step, as it is ended by SIGTERM where its job goes on at another size.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

RATE, POINTS = 0.5, [(k / 64, 3 * k / 64) for k in range(64)]
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STATE = Path(os.environ["BOURSE_CHECKPOINT"]) / "state.json"


def lines(peer: socket.socket) -> object:
    return peer.makefile("rw", newline="\n")


def neighbours() -> tuple[object, object]:
    """From whom it hears and to whom it speaks: rank 0 tells everybody where the others listen."""
    with socket.create_server(("127.0.0.1", 0)) as own:
        own.settimeout(30)
        mine = own.getsockname()[1]
        master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if RANK == 0:
            with socket.create_server(master, backlog=WORLD) as server:
                server.settimeout(30)
                peers = [lines(server.accept()[0]) for _ in range(WORLD - 1)]
            ports = {0: mine} | dict(json.loads(peer.readline()) for peer in peers)
            for peer in peers:
                print(json.dumps(ports), file=peer, flush=True)
        else:
            peer = lines(reach(master))
            print(json.dumps([RANK, mine]), file=peer, flush=True)
            ports = {int(rank): port for rank, port in json.loads(peer.readline()).items()}
        onward = lines(reach(("127.0.0.1", ports[(RANK + 1) % WORLD])))
        return lines(own.accept()[0]), onward


def reach(address: tuple[str, int]) -> socket.socket:
    """Whoever comes first waits for the other, as with torch."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(address, timeout=30)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def summed(value: float, before: object, onward: object) -> float:
    """Each value goes round once; all sum them in the order of ranks, so all have the same sum."""
    values = {RANK: value}
    passing = (RANK, value)
    for _ in range(WORLD - 1):
        print(json.dumps(passing), file=onward, flush=True)
        passing = json.loads(before.readline())
        values[passing[0]] = passing[1]
    return sum(values[rank] for rank in sorted(values))


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # each step is saved
    last, pause = int(sys.argv[1]), float(os.environ.get("PAUSE", 0)) / (1 + int(os.environ["BOURSE_RESTART"]) * 10)
    step, w = json.loads(STATE.read_text()) if STATE.exists() else (0, 0.0)
    resumed, mine = step, POINTS[RANK::WORLD]
    before, onward = neighbours()
    while step < last:
        w -= RATE * summed(sum(2 * (w * x - y) * x for x, y in mine), before, onward) / len(POINTS)
        step += 1
        if RANK == 0:
            draft = STATE.with_suffix(".new")
            draft.write_text(json.dumps([step, w]))
            draft.replace(STATE)
        with open(os.environ["BOURSE_PROGRESS"], "a") as file:
            file.write(json.dumps({"step": step, "of": last, "w": w}) + "\n")
        time.sleep(pause)
    about = {"rank": RANK, "w": w, "world": WORLD, "resumed": resumed, "restart": int(os.environ["BOURSE_RESTART"])}
    print(json.dumps(about), flush=True)


main()

"""A training script as people have it: written for torchrun's variables, all-reduce over plain sockets, no Bourse in it
but for the two lines that tell the loss and keep the state.

    plain_train.py STEPS

It fits w in y = w x by gradient descent over 64 points, each process on its own part, up to so many steps.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import bourse_progress

RATE, POINTS = 0.5, [(k / 64, 3 * k / 64) for k in range(64)]


def ring(rank: int, world: int) -> list[socket.socket]:
    """The sockets to all others for rank 0, to rank 0 for all others."""
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank:
        return [socket.create_connection(address, timeout=30)]
    with socket.create_server(address, backlog=world) as server:
        server.settimeout(30)
        print("listening", flush=True)
        return [server.accept()[0] for _ in range(world - 1)]


def summed(value: float, rank: int, peers: list[socket.socket]) -> float:
    """The sum over all processes, told to all of them."""
    if rank:
        peers[0].sendall(f"{value.hex()}\n".encode())
        return received(peers[0])
    total = value + sum(received(peer) for peer in peers)
    for peer in peers:
        peer.sendall(f"{total.hex()}\n".encode())
    return total


def received(peer: socket.socket) -> float:
    line = b""
    while not line.endswith(b"\n"):
        part = peer.recv(1)
        if not part:
            raise ConnectionError("the other process is gone")
        line += part
    return float.fromhex(line.decode())


def main() -> None:
    rank, world, last = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(sys.argv[1])
    folder = bourse_progress.checkpoint_folder() or Path(".")
    state = folder / "state.json"
    step, w = json.loads(state.read_text()) if state.exists() else (0, 0.0)
    mine = POINTS[rank::world]
    peers = ring(rank, world)
    while step < last:
        gradient = summed(sum(2 * (w * x - y) * x for x, y in mine), rank, peers) / len(POINTS)
        loss = summed(sum((w * x - y) ** 2 for x, y in mine), rank, peers) / len(POINTS)
        w, step = w - RATE * gradient, step + 1
        bourse_progress.report(step=step, of=last, loss=loss)
    if rank == 0:
        state.write_text(json.dumps([step, w]))
    print(json.dumps({"rank": rank, "w": w}), flush=True)


main()

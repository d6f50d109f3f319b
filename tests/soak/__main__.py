"""`python -m tests.soak SEED MINUTES [PROCESSES [KIND]]`: one seed after the other, until the time is over.

A seed of the kind `chance` is a world of 400 steps; of the kind `machine` it is 30 markets (BOURSE_SOAK_EXAMPLES) of up
to 60 steps, which hypothesis chooses. Ends with 0 where nothing broke. What broke is printed with its seed, and how to
repeat just that one: MINUTES=0 runs one seed.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import secrets
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import django

from marketplace.embedded import FORGETFUL, Servers, State, announce

MARKETS = int(os.environ.get("BOURSE_SOAK_EXAMPLES", "30"))  # of one seed of the state machine


@dataclass(frozen=True)
class Outcome:
    """One seed: how many steps were taken, what they did, and what broke."""

    seed: int
    events: int
    digest: str
    broken: str


def main(seed: str = "1", minutes: str = "60", processes: str = "2", kind: str = "chance") -> None:
    run, command = KINDS[kind]
    events, seeds, broken = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="bourse-soak-") as folder:
        Path(folder).chmod(0o711)  # root's servers run under another account
        state = State(Path(folder))
        announced(state)
        with Servers(state, settings=FORGETFUL), multiprocessing.get_context("fork").Pool(int(processes)) as pool:
            pool.apply(migrated)
            began = time.monotonic()
            until = began + 60 * float(minutes)
            # The pool takes as many seeds as it is given: each waits until a world is free to begin.
            free = threading.Semaphore(int(processes))
            for outcome in pool.imap_unordered(run, _seeds(int(seed), until, free)):
                free.release()
                events, seeds = events + outcome.events, seeds + 1
                if outcome.broken:
                    broken += 1
                    print(f"{outcome.broken}\nRepeat it with: make {command} SEED={outcome.seed} MINUTES=0", flush=True)
                rate = events / (time.monotonic() - began) * 3600
                print(
                    json.dumps({**asdict(outcome), "broken": bool(outcome.broken), "per_hour": round(rate)}), flush=True
                )
    print(f"{seeds} seeds from {seed} on, {events} events, {broken} broken")
    sys.exit(bool(broken))


def _seeds(seed: int, until: float, free: threading.Semaphore) -> Iterator[int]:
    free.acquire()
    yield seed
    while free.acquire() and time.monotonic() < until:
        seed += 1
        yield seed


def announced(state: State) -> None:
    for name in ("DATABASE_URL", "REDIS_URL"):
        os.environ.pop(name, None)
    announce(state)
    os.environ |= {"DJANGO_SETTINGS_MODULE": "marketplace.settings", "DEBUG": "true"}
    os.environ |= {"SECRET_KEY": secrets.token_urlsafe(50), "BOURSE_VAR": str(state.folder / "var")}


def ready() -> None:
    django.setup()
    from django.conf import settings

    from scheduling.common.steps import STEPS_LOG

    settings.DEBUG = False  # with it on, Django keeps every query in memory
    logging.getLogger(STEPS_LOG).setLevel(logging.WARNING)  # of worlds that end well nobody reads a line each


def migrated() -> None:
    ready()
    from django.core.management import call_command
    from django.db import connections

    call_command("migrate", verbosity=0)
    connections.close_all()


def _world(seed: int) -> Outcome:
    ready()
    from tests.database import undone
    from tests.soak.chance import world_of
    from tests.soak.world import Broken

    with undone():
        try:
            world = world_of(seed)
        except Broken as broken:
            why = "" if broken.__cause__ is None else "".join(traceback.format_exception(broken.__cause__))
            return Outcome(seed, 0, "", f"{why}{broken}")
    return Outcome(seed, len(world.steps), world.trace.hexdigest(), "")


def _machine(seed: int) -> Outcome:
    ready()
    from tests.soak.machine import Market, machine_run

    before = Market.steps
    try:
        machine_run(MARKETS, seed)
    except Exception:
        return Outcome(seed, Market.steps - before, "", traceback.format_exc())
    return Outcome(seed, Market.steps - before, "", "")


KINDS = {"chance": (_world, "soak"), "machine": (_machine, "soak-machine")}

if __name__ == "__main__":
    main(*sys.argv[1:])

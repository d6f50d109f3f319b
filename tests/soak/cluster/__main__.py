"""`python -m tests.soak.cluster [SLOTS] [SEED] [PROCESSES]`: so many slots of simulated clusters, 250 in each world.

Ends with 0 where nothing broke. What broke is printed with the seed of its world, and how to repeat just that one.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from marketplace.embedded import FORGETFUL, Servers, State
from tests.soak.__main__ import announced, migrated, ready

SLOTS = 250  # of one world


@dataclass(frozen=True)
class Outcome:
    """One world: what happened in it, its seconds, and what broke."""

    seed: int
    slots: int
    events: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    broken: str = ""


def main(slots: str = "10000", seed: str = "1", processes: str = "2") -> None:
    began, wanted = time.monotonic(), int(slots)
    worlds = [(int(seed) + number, min(SLOTS, wanted - number * SLOTS)) for number in range(-(-wanted // SLOTS))]
    events: Counter[str] = Counter()
    done, broken, worst = 0, 0, 0.0
    seconds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="bourse-soak-") as folder:
        Path(folder).chmod(0o711)  # root's servers run under another account
        state = State(Path(folder))
        announced(state)
        with Servers(state, settings=FORGETFUL), multiprocessing.get_context("fork").Pool(int(processes)) as pool:
            pool.apply(migrated)
            for outcome in pool.imap_unordered(_world, worlds):
                done, broken = done + outcome.slots, broken + bool(outcome.broken)
                events.update(outcome.events)
                worst = max(worst, outcome.seconds.get("worst", 0.0))
                seconds.update({name: round(number) for name, number in outcome.seconds.items() if name != "worst"})
                if outcome.broken:
                    print(f"{outcome.broken}\nRepeat it with: python -m tests.soak.cluster {SLOTS} {outcome.seed}")
                brief = {"seed": outcome.seed, "slots": outcome.slots, "broken": bool(outcome.broken)}
                print(json.dumps(brief | {"all": done, "took": round(time.monotonic() - began)}), flush=True)
    print(json.dumps(dict(events)))
    print(json.dumps({"gang seconds": dict(seconds), "most seconds late in a paid slot": worst}))
    print(f"{done} slots in {len(worlds)} worlds from seed {seed} on, {broken} worlds broken")
    sys.exit(bool(broken))


def _world(about: tuple[int, int]) -> Outcome:
    ready()
    logging.disable(logging.WARNING)
    from tests.database import undone
    from tests.soak.cluster.world import Broken, World

    seed, slots = about
    with undone():
        try:
            world = World(seed).run(slots)
        except Broken as error:
            return Outcome(seed, slots, broken=str(error))
        except Exception:
            return Outcome(seed, slots, broken=f"{traceback.format_exc()}in world {seed}")
        return Outcome(seed, slots, dict(world.events + world.engine.events), asdict(world.account))


if __name__ == "__main__":
    main(*sys.argv[1:])

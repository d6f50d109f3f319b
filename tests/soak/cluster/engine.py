"""The engine's contract on a simulated cluster, and all that can go wrong between the two.

The engine keeps its plans in a folder of its own, copies them into a shared one, and starts parts by commands to a
controller. Each of these three can fail by itself, and so can the engine's process, between any two of its steps.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from scheduling.engines.base import (
    ACCEPTED,
    DOWN,
    ENDED,
    LOST,
    PAUSED,
    RUNNING,
    STOPPED,
    UNKNOWN,
    UP,
    WAITING,
    ClusterFinding,
    Counts,
    Fault,
    Gang,
    Generation,
    Handle,
    Report,
    ServerHealth,
    Status,
)
from scheduling.engines.slurm.settings import TIMINGS
from tests.soak.cluster.room import ENDS_BY_ITSELF, EPOCH, EPOCHS, GATHER, SILENT, Living, Room

FENCE, LAST_WORD = 2.0, 3.0
# Of a hundred submissions of a part: how many the controller takes without an answer, never hears of, and refuses.
TAKEN_IN_SILENCE, NEVER_HEARD, REFUSED = 3, 3, 1
DIES = 0.01  # of the engine's process, over a step
Place = tuple[str, int, str]  # key, generation, server


class Died(BaseException):
    """The engine's process is gone."""


@dataclass
class Plan:
    """As the engine's own folder has it; `behind`: the shared one has not got it yet."""

    gang: Gang
    generations: tuple[Generation, ...]
    end_at: float
    stop: str = ""
    behind: bool = True


@dataclass
class Cluster:
    """`until`: by trouble ("controller", "folder"), to what moment it lasts."""

    room: Room
    dice: random.Random
    seed: int
    name: str = "cluster"
    timings = TIMINGS
    plans: dict[str, Plan] = field(default_factory=dict)
    ends: dict[str, Status] = field(default_factory=dict)  # last words, in its own folder
    queue: dict[Place, float] = field(default_factory=dict)  # jobs of the controller that wait for their launcher
    until: dict[str, float] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    _own_keys: set[str] | None = None
    _doubt: dict[Place, float] = field(default_factory=dict)
    _send_times: dict[Place, float] = field(default_factory=dict)

    # The contract.

    def touch(self) -> None:
        if self._is_away("folder"):
            raise OSError("the shared folder does not answer")
        self.room.touched = self.room.now

    def submit(self, gangs: Sequence[Gang]) -> dict[str, Handle | Fault]:
        answers: dict[str, Handle | Fault] = {}
        for gang in gangs:
            self._may_die()
            handle = Handle(gang.key, gang.home, {"engine": self.name})
            if gang.key not in self.plans:
                if self._is_away("folder"):
                    answers[gang.key] = Fault("The gang could not be started: the shared folder does not answer.")
                    continue
                self.plans[gang.key] = Plan(gang, gang.generations, gang.end_at)
                self._copy(gang.key)
            answers[gang.key] = handle
            if sentence := self._send(gang.key):
                self._end(gang.key, LOST, sentence, stop=True)
                answers[gang.key] = Fault(sentence)
        return answers

    def observe(self, handles: Sequence[Handle]) -> dict[str, Status]:
        keys = {handle.key for handle in handles}
        for key in self.plans:
            self._copy(key)
        if not self._is_away("controller"):
            self._end_strangers((self._own_keys or set()) | keys)
        for key in [key for key in self.plans if key in keys and key not in self.ends]:
            self._may_die()
            if sentence := self._send(key):
                self._end(key, LOST, sentence, stop=True)
        statuses = {handle.key: self._observe(handle.key) for handle in handles}
        self._fence(keys)
        return statuses

    def change(self, handle: Handle, end_at: float, generations: Sequence[Generation] = (), *, why: str = "") -> None:
        if plan := self.plans.get(handle.key):
            first = generations[0].number if generations else 0
            before = tuple(each for each in plan.generations if each.number < first)
            plan.generations = (*before, *generations) if generations else plan.generations
            plan.end_at, plan.behind = end_at, True
            self._copy(handle.key)

    def stop(self, handle: Handle, *, pause: bool = False, why: str = "") -> None:
        if (plan := self.plans.get(handle.key)) and not plan.stop:
            plan.stop, plan.behind = PAUSED if pause else STOPPED, True
            self._copy(handle.key)

    def find(self, home: str, key: str) -> Handle | None:
        return Handle(key, home, {"engine": self.name}) if key in self.plans else None

    def reconcile(self, handles: Sequence[Handle]) -> None:
        self._own_keys = {handle.key for handle in handles}
        if not self._is_away("controller"):
            self._end_strangers(self._own_keys)

    def pause_all(self) -> int:
        return 0

    def servers(self) -> dict[str, ServerHealth]:
        now, away = self.room.now, self._is_away("controller")
        states = {}
        for name in self.room.capacity:
            since = self.room.down.get(name)
            states[name] = ServerHealth(UNKNOWN if away else UP if since is None else DOWN, since or now)
        return states

    def report(self) -> Report:
        return Report()

    def check(self, sold: Counts) -> list[ClusterFinding]:
        return []

    # What goes wrong.

    def happens(self, what: str, seconds: float) -> None:
        """The controller or the shared folder is away for so long."""
        self.until[what] = max(self.until.get(what, 0.0), self.room.now + seconds)
        self.events[f"{what} away"] += 1

    def process_dies(self) -> None:
        """Memory is gone; what lies in the folder is not."""
        self._own_keys, self._doubt, self._send_times = None, {}, {}
        self.events["engine died"] += 1

    def folder_is_lost(self) -> None:
        """Its own: plans and last words."""
        self.plans, self.ends = {}, {}
        self.events["plans lost"] += 1

    def controller_forgets(self) -> None:
        """It comes back without its state, and every server ends the jobs that it does not know."""
        self.queue.clear()
        for key in list(self.room.gangs):
            self.room.cancel(key, "the cluster forgot it")
        self.events["controller forgot"] += 1

    def launchers_come(self) -> None:
        """Jobs whose turn it is start on their servers."""
        for place, moment in list(self.queue.items()):
            key, number, server = place
            living = self.room.gangs.get(key)
            if living is None or living.is_over:
                del self.queue[place]
            elif moment <= self.room.now and server not in self.room.down:
                del self.queue[place]
                for generation in living.generations:
                    if generation.number == number and server in generation.servers and not living.stop:
                        self.room.part_comes(living, generation, server)

    # How.

    def _is_away(self, what: str) -> bool:
        return self.room.now < self.until.get(what, 0.0)

    def _may_die(self) -> None:
        if self.dice.random() < DIES:
            raise Died

    def _copy(self, key: str) -> None:
        """The plan comes to where launchers read it."""
        plan = self.plans[key]
        if not plan.behind or self._is_away("folder"):
            return
        plan.behind = False
        living = self.room.gangs.get(key)
        if living is None:
            dice = random.Random(f"{self.seed} {len(self.room.gangs)}")
            how = ENDS_BY_ITSELF[dice.random() < 0.2]
            program = how, dice.choice((20.0, 90.0, 10_000.0, 10_000.0, 10_000.0))
            living = self.room.gangs[key] = Living(plan.gang, plan.generations, plan.end_at, program)
        living.generations, living.end_at, living.stop = plan.generations, plan.end_at, plan.stop

    def _due(self, plan: Plan) -> Iterator[tuple[Generation, str]]:
        now = self.room.now
        for each in () if plan.stop else plan.generations:
            if each.at - self.timings.lead <= now < min(each.end, plan.end_at) - 1.0:
                yield from ((each, server) for server in each.servers)

    def _send(self, key: str) -> str:
        """What is due of this gang and not known to the controller goes there; why it refuses it."""
        living, away = self.room.gangs.get(key), self._is_away("controller")
        if living is None or living.is_over:
            return ""
        for generation, server in self._due(self.plans[key]):
            place = key, generation.number, server
            in_queue = not away and (place in self.queue or place[1:] in living.parts)
            if (
                place in self._send_times
                or in_queue
                or (place in self._doubt and (away or self._doubt[place] > self.room.now))
            ):
                continue
            draw = self.dice.randrange(100)
            if not away and draw < REFUSED:
                self.events["part refused"] += 1
                return "Slurm refused it: Requested node configuration is not available."
            lost = away or draw < REFUSED + NEVER_HEARD
            silent = lost or draw < REFUSED + NEVER_HEARD + TAKEN_IN_SILENCE
            if not lost:
                self.queue[place] = self.room.now + self.dice.choice((0.0, 1.0, 1.0, 3.0))
            if silent:
                self.events["part in doubt"] += 1
                self._doubt[place] = self.room.now + 2.0
            else:
                self._send_times[place] = self.room.now
        return ""

    def _observe(self, key: str) -> Status:
        now, plan, living = self.room.now, self.plans.get(key), self.room.gangs.get(key)
        if key in self.ends:
            return self.ends[key]
        if plan is None:  # whoever lives of it is ordered to end, and is a stranger from now on
            if self._is_away("folder"):
                return Status(UNKNOWN, detail="its plan is gone, and the shared folder cannot be written")
            if living is not None:
                living.stop = living.stop or STOPPED
            self._own_keys = (self._own_keys or set()) - {key}
            return Status(ENDED, ended_at=now, end=LOST, detail="its plan is gone")
        if self._is_away("folder"):
            return Status(UNKNOWN, detail="the shared folder cannot be read")
        if living is None:
            return Status(UNKNOWN, detail="its plan has not come to the shared folder")
        starts = [part.began for part in living.parts.values() if part.began is not None]
        done = self.room.epochs_done(living.gang.home) if living.ran >= EPOCH else 0
        status = Status(
            RUNNING if starts else WAITING if living.parts else ACCEPTED,
            min(starts, default=None),
            progress={"epoch": done, "epochs": EPOCHS} if done else {},
            delivered=self.room.delivered(living),
        )
        if living.end:
            how, why, at = living.end
            return self._end(key, how, why, at=at, status=status)
        if living.parts and living.is_over and living.hurt_at is not None and now - living.hurt_at >= SILENT:
            return self._end(key, LOST, "nothing is heard of it any more", at=living.hurt_at, status=status)
        if plan.stop and not living.parts and not self._is_away("controller"):
            return self._end(key, plan.stop, "it was taken back before it began", status=status)
        current = living.current(now)
        if current and not self._is_away("controller"):
            for server in current.servers:
                place = key, current.number, server
                send_time = self._send_times.get(place, self._doubt.get(place, now))
                came = place[1:] in living.parts
                if not came and now > max(current.at, send_time) + GATHER + LAST_WORD:
                    return self._end(key, LOST, f"not all parts came: {server}", status=status, stop=True)
        if current and not starts and self._is_away("controller"):
            return replace(status, state=UNKNOWN, detail="Slurm does not answer")
        return status

    def _end(
        self, key: str, how: str, why: str, *, at: float | None = None, status: Status | None = None, stop: bool = False
    ) -> Status:
        """Its last word, as the engine has it; `stop`: launchers of it may still be there."""
        moment = self.room.now if at is None else at
        self.ends[key] = replace(status or Status(ENDED), state=ENDED, end=how, detail=why, ended_at=moment)
        if (plan := self.plans[key]) and stop:
            plan.stop, plan.behind = plan.stop or STOPPED, True
            self._copy(key)
            self._cancel(key)
        return self.ends[key]

    def _cancel(self, key: str) -> None:
        if self._is_away("controller"):
            return
        for place in [place for place in self.queue if place[0] == key]:
            del self.queue[place]
        self.room.cancel(key, "it was ended by Slurm or an operator")

    def _fence(self, keys: set[str]) -> None:
        for key in keys & set(self.plans):
            if self.room.now > self.plans[key].end_at + FENCE:
                self._cancel(key)

    def _end_strangers(self, own_keys: set[str]) -> None:
        for key, living in self.room.gangs.items():
            if key not in own_keys and not living.is_over:
                self._cancel(key)

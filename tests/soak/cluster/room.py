"""What really runs on a cluster, in whole seconds: launchers with the rules of `engines/launcher`, and no processes.

Nothing here knows the market. A part is one generation of a gang on one server. Launchers see the plan and the engine's
sign of life as they lie in the shared folder, and only while that can be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduling.engines.base import FAILED, FINISHED, LOST, PAUSED, STOPPED, Delivered, Gang, Generation

EPOCH, EPOCHS = 10.0, 12  # seconds of one, and how many a program reports in all
GATHER, SILENT = 15.0, 10.0  # seconds, of `SlurmSettings.gather_seconds` and the launchers' `SILENT_SECONDS`
Units = dict[str, float]


@dataclass
class Part:
    """Of one generation on one server; it came, began and ended at these moments."""

    key: str
    home: str
    server: str
    number: int
    units: Units  # that its members take of the server
    came: float
    began: float | None = None
    ended: float | None = None

    @property
    def runs(self) -> bool:
        return self.began is not None and self.ended is None


@dataclass
class Living:
    """A gang and its plan as its launchers last read it. `program`: how it ends by itself, after so many seconds."""

    gang: Gang
    generations: tuple[Generation, ...]
    end_at: float
    program: tuple[str, float]
    stop: str = ""
    parts: dict[tuple[int, str], Part] = field(default_factory=dict)
    ran: float = 0.0
    stop_at: float | None = None  # when it will have saved
    hurt_at: float | None = None  # a part of it is gone without a word since then
    end: tuple[str, str, float] | None = None  # how, why and when, as somebody was left to write down

    def current(self, now: float) -> Generation | None:
        begun = [each for each in self.generations if each.at <= now]
        return begun[-1] if begun else None

    @property
    def is_over(self) -> bool:
        """Nothing of it runs, or ever will."""
        return self.end is not None or (
            bool(self.parts) and all(part.ended is not None for part in self.parts.values())
        )


@dataclass
class Room:
    """`capacity`: of each server, in units of each resource. `lease`: how long gangs go on without the engine."""

    capacity: dict[str, Units]
    lease: float
    now: float
    touched: float = 0.0
    down: dict[str, float] = field(default_factory=dict)  # servers, and since when
    gangs: dict[str, Living] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)  # all there ever were
    waited: int = 0  # seconds in which a part waited for units that another one had

    def part_comes(self, living: Living, generation: Generation, server: str) -> None:
        """A job of the cluster starts a launcher. The second one of a part ends at once."""
        if (generation.number, server) in living.parts or server in self.down or living.end:
            return
        roles, amounts = generation.servers.get(server, {}), living.gang.amounts
        units: Units = {}
        for role, count in roles.items():
            for resource, amount in amounts.get(role, {}).items():
                units[resource] = units.get(resource, 0.0) + count * amount
        gang = living.gang
        part = Part(gang.key, gang.home, server, generation.number, units, self.now)
        living.parts[generation.number, server] = part
        self.parts.append(part)

    def cancel(self, key: str, why: str) -> None:
        """The cluster ends what it has of this gang; its launchers say so where they can."""
        living = self.gangs.get(key)
        if living and not living.is_over:
            self._ends(living, LOST if not living.stop else living.stop, why)

    def server_fails(self, server: str) -> None:
        self.down[server] = self.now
        for living in self.gangs.values():
            for part in living.parts.values():
                if part.server == server and part.ended is None:
                    part.ended, living.hurt_at = self.now, living.hurt_at or self.now

    def pass_second(self) -> None:
        """What runs in the second from now on, and then that second."""
        for living in self.gangs.values():
            if living.end is None:
                self._look(living)
        self.now += 1.0

    def _look(self, living: Living) -> None:
        now, current = self.now, living.current(self.now)
        for part in living.parts.values():  # of another generation: they left at its end; who came early waits
            if part.ended is None and current is not None and part.number < current.number:
                part.ended = now
        if living.stop and living.stop_at is None:
            living.stop_at = now + 2.0
        if why := self._end(living, now):
            self._ends(living, *why)
            return
        if current is None or not current.servers:
            return
        there = {part.server: part for part in living.parts.values() if part.number == current.number}
        if any(part.runs for part in there.values()):
            living.ran += 1.0
        elif set(there) == set(current.servers) and all(part.ended is None for part in there.values()):
            if all(self._fits(part) for part in there.values()):
                for part in there.values():
                    part.began = now
            else:
                self.waited += 1

    def _end(self, living: Living, now: float) -> tuple[str, str] | None:
        """How it ends in this moment, and why. Who is left says so; where nobody is, nobody does."""
        current = living.current(now)
        here = [part for part in living.parts.values() if part.ended is None]
        if not here:
            return None
        waits = [part.came for part in here if current and part.number == current.number and part.began is None]
        how, seconds = living.program
        if now >= living.end_at:
            return STOPPED, "its reservation ends"
        if living.stop_at is not None and now >= living.stop_at:
            return living.stop, "the engine asked for it"
        if now - self.touched > self.lease:
            return PAUSED, "the engine was silent for too long"
        if living.hurt_at is not None and now - living.hurt_at >= SILENT:
            return LOST, "nothing is heard of a part any more"
        if waits and current and now > max(current.at, min(waits)) + GATHER:
            return LOST, "not all parts came"
        if living.ran >= seconds:
            return how, "the program ended"
        return None

    def _ends(self, living: Living, how: str, why: str) -> None:
        here = [part for part in living.parts.values() if part.ended is None]
        for part in here:
            part.ended = self.now
        if here or not living.parts:
            living.end = how, why, self.now

    def _fits(self, part: Part) -> bool:
        """Slurm gives no unit twice."""
        sums: Units = {}
        for living in self.gangs.values():
            for other in living.parts.values():
                if other.runs and other.server == part.server:
                    for name, amount in other.units.items():
                        sums[name] = sums.get(name, 0.0) + amount
        capacity = self.capacity[part.server]
        return all(sums.get(name, 0.0) + amount <= capacity[name] + 1e-9 for name, amount in part.units.items())

    def epochs_done(self, home: str) -> int:
        """By all gangs of a job so far: each goes on from what the last one saved."""
        ran = sum(living.ran for living in self.gangs.values() if living.gang.home == home)
        return min(int(ran // EPOCH), EPOCHS)

    def delivered(self, living: Living) -> tuple[Delivered, ...]:
        spans = [(part.server, part.began, part.ended or self.now) for part in living.parts.values() if part.began]
        return tuple(Delivered(server, began, ended) for server, began, ended in spans if began is not None)


ENDS_BY_ITSELF = (FINISHED, FAILED)

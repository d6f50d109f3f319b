"""What must hold of what really ran, against what was sold and paid. Plain loops, and no code of the market."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scheduling.engines.base import FAILED, FINISHED
from tests.soak.cluster.room import Part, Room

SLOT = 60.0
REACH = 2.0  # seconds in which an order comes through where nothing is away: the fence after an end


@dataclass
class Sold:
    """An award, followed through time: which servers it has in which slot, and since when it has them no more."""

    job: int
    slots: dict[int, set[str]]
    revoked: dict[int, float] = field(default_factory=dict)  # by slot
    paid_until: int = 0
    given_up: bool = False  # by its tenant: what it reserved is paid to its end

    def sees(self, now: float, slots: Mapping[int, set[str]], paid_until: int) -> None:
        for slot in self.slots.keys() - slots.keys():
            self.revoked.setdefault(slot, now)
        self.paid_until = paid_until


@dataclass
class Account:
    """In seconds of gangs, by what became of them."""

    charged: float = 0.0
    ran: float = 0.0
    late: float = 0.0  # charged, and not run through no fault of the program, in slots that did run
    worst: float = 0.0  # the most of it in one slot
    beyond: float = 0.0  # run after the award was taken back, while nothing could reach the gang


def outside_slots(room: Room, awards: Sequence[Sold], account: Account) -> Iterator[str]:
    """No part runs where its job has nothing. Where it had something that was taken back, it is gone when the order
    reaches it, or else when the lease is over."""
    by_job: defaultdict[int, list[Sold]] = defaultdict(list)
    for award in awards:
        by_job[award.job].append(award)
    most = room.lease + REACH
    for part, slot, began, ended in _by_slot(room.parts, room.now):
        mine = [award for award in by_job[_job(part)] if part.server in award.slots.get(slot, ())]
        ends = [award.revoked.get(slot, float("inf")) for award in mine]
        beyond = ended - max([began, *ends]) if not ends or max(ends) < ended else 0.0
        account.beyond += beyond
        allowed = most if ends or _held_before(by_job[_job(part)], part.server, slot) else 0.0
        if beyond > allowed:
            yield (
                f"{part.home}, part {part.number} on {part.server}: {beyond:g} s in slot {slot}"
                f" ({began:g} to {ended:g}) are nobody's; its award was taken back at {max(ends, default=None)}"
            )


def _held_before(awards: Sequence[Sold], server: str, slot: int) -> bool:
    """Its end was moved to before this slot, and it may not have heard of that."""
    return any(server in award.slots.get(slot - 1, ()) and award.revoked for award in awards)


def twice(room: Room) -> Iterator[str]:
    """A job has one gang at a time, and each of its parts starts once."""
    by_home: defaultdict[str, list[Part]] = defaultdict(list)
    places: set[tuple[str, int, str]] = set()
    for part in room.parts:
        if (place := (part.key, part.number, part.server)) in places:
            yield f"{part.home}: part {part.number} on {part.server} of one gang was started twice"
        places.add(place)
        if part.began is not None:
            by_home[part.home].append(part)
    for home, parts in by_home.items():
        parts.sort(key=lambda part: part.began or 0.0)
        for number, one in enumerate(parts):
            for other in parts[number + 1 :]:
                if other.key != one.key and (other.began or 0.0) < (one.ended or room.now):
                    yield f"{home}: two gangs at once from {other.began:g} to {one.ended or room.now:g}"


def beyond_capacity(room: Room) -> Iterator[str]:
    """No server runs more than it has."""
    moves: defaultdict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for part in room.parts:
        for name, amount in part.units.items() if part.began is not None else ():
            moves[part.server, name] += [(part.began or 0.0, amount), (part.ended or room.now, -amount)]
    for (server, name), steps in moves.items():
        total = 0.0
        for moment, amount in sorted(steps):
            total += amount
            if total > room.capacity[server][name] + 1e-9:
                yield f"{server}: {total:g} {name} at {moment:g}"


def unrefunded(room: Room, awards: Sequence[Sold], account: Account) -> Iterator[str]:
    """In a slot that is paid all parts ran; or the program had ended, or its tenant had given it up."""
    ran: defaultdict[tuple[int, int, str], float] = defaultdict(float)
    for part, slot, began, ended in _by_slot(room.parts, room.now):
        ran[_job(part), slot, part.server] += ended - began
    ended_by_itself: dict[int, float] = {}
    for living in room.gangs.values():
        if living.end and living.end[0] in (FINISHED, FAILED):
            ended_by_itself.setdefault(int(living.gang.home.removeprefix("job-")), living.end[2])
    for award in awards:
        for slot, servers in award.slots.items():
            if slot >= award.paid_until or (slot + 1) * SLOT > room.now or not servers:
                continue
            account.charged += SLOT
            seconds = min(ran[award.job, slot, server] for server in servers)
            account.ran += seconds
            given_up = award.given_up and slot in award.revoked
            if given_up or ended_by_itself.get(award.job, float("inf")) <= (slot + 1) * SLOT:
                continue
            missing = SLOT - seconds
            account.late += missing
            account.worst = max(account.worst, missing)
            if missing >= SLOT:
                gangs = [living for living in room.gangs.values() if living.gang.home == f"job-{award.job}"]
                ends = [(living.generations[0].number, living.end) for living in gangs]
                yield f"job-{award.job}: slot {slot} is paid, and nothing ran on {sorted(servers)}; its gangs: {ends}"


def _by_slot(parts: Sequence[Part], now: float) -> Iterator[tuple[Part, int, float, float]]:
    """Each part's seconds, cut at the boundaries of slots."""
    for part in parts:
        if part.began is None:
            continue
        began, ended = part.began, now if part.ended is None else part.ended
        while began < ended:
            slot = int(began // SLOT)
            until = min(ended, (slot + 1) * SLOT)
            yield part, slot, began, until
            began = until


def _job(part: Part) -> int:
    return int(part.home.removeprefix("job-"))

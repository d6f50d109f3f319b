"""Following the seals of the feed from one to the next, and checking that every event that they close over is there and
unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduling.audit.feed_seals import MEMBER, EventRow, event_digests, events_between, seal_link
from scheduling.audit.verification.findings import BEFORE_THE_FIRST, Finding, differences
from scheduling.feed import EventKind
from scheduling.market.decide import START
from scheduling.models import Event, FeedSeal, TrainingJob
from tenants.scoping import scope_disabled


@dataclass
class FeedWalk:
    """The state of a walk along the seals: how far they were followed, and what was found."""

    number: int = 0
    digest: str = START
    last_event_id: int = 0
    findings: list[Finding] = field(default_factory=list)


def feed_walk_from(number: int) -> FeedWalk:
    """Return the walk after seal `number`, which was verified already."""
    seal = FeedSeal.objects.filter(number=number).first()
    return FeedWalk() if seal is None else FeedWalk(seal.number, seal.digest, seal.last_event_id)


def feed_walk(walk: FeedWalk, *, upto: int) -> bool:
    """Verify the next seal. Return False where there are no more up to number `upto`."""
    seal = FeedSeal.objects.filter(number__gt=walk.number, number__lte=upto).order_by("number").first()
    if seal is None:
        return False
    where = str(seal)
    walk.findings += differences(
        where,
        {
            "its number": (seal.number, walk.number + 1),
            "what it follows": (seal.previous, walk.digest),
            "the digest": (seal.digest, seal_link(seal)),
        },
    )
    walk.findings += _members_verify(seal, events_between(walk.last_event_id, seal.last_event_id))
    walk.number, walk.digest, walk.last_event_id = seal.number, seal.digest, seal.last_event_id
    return True


def feed_beside() -> list[Finding]:
    """Name what stands before number 1, with which the walk begins: no seal closes over such an event."""
    with scope_disabled("events of all tenants are sealed together"):
        events = list(Event.objects.filter(pk__lt=1).order_by("pk").values_list("pk", "kind", "subject"))
    seals = FeedSeal.objects.filter(number__lt=1).order_by("number")
    return [
        *(Finding(_name_of_event(*event), BEFORE_THE_FIRST) for event in events),
        *(Finding(str(seal), BEFORE_THE_FIRST) for seal in seals),
    ]


def _name_of_event(number: int, kind: str, subject: str) -> str:
    return f"event {number} ({kind}{subject and ' of '}{subject})"


def _members_verify(seal: FeedSeal, rows: list[EventRow]) -> Iterator[Finding]:
    present, digests = {row.id: row for row in rows}, event_digests(rows)
    sealed = dict(_members(bytes(seal.members)))
    if max(sealed, default=0) != seal.last_event_id:
        yield Finding(str(seal), f"it does not end at event {seal.last_event_id}")
    for number in sorted(sealed.keys() | digests.keys()):
        if sealed.get(number) == digests.get(number):
            continue
        row = present.get(number)
        about = f"event {number}" if row is None else _name_of_event(number, row.kind, row.subject)
        story = (
            "was added" if number not in sealed else "was removed" if row is None else "or what it tells of was changed"
        )
        yield Finding(about, f"it {story} after seal {seal.number} closed over it")
    yield from _jobs_gone(rows)


def _members(packed: bytes) -> Iterator[tuple[int, bytes]]:
    for start in range(0, len(packed), MEMBER):
        piece = packed[start : start + MEMBER]
        yield int.from_bytes(piece[:8], "big"), piece[8:]


def _jobs_gone(rows: list[EventRow]) -> Iterator[Finding]:
    """Name each job that was submitted, and is not there in its pool."""
    pools_by_job = {row.subject[4:]: row.pool for row in rows if row.kind == EventKind.JOB_SUBMITTED}
    jobs = {(int(number), pool) for number, pool in pools_by_job.items() if number.isdecimal()}
    with scope_disabled("jobs of all tenants are told of in one feed"):
        there = TrainingJob.objects.filter(pk__in=[number for number, _ in jobs])
        absent = jobs - set(there.values_list("pk", "pool_id"))
    for number, pool in sorted(absent):
        yield Finding(f"job {number}", f"it was submitted to pool {pool}, and is gone")

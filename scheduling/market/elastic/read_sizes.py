"""Put together the awards of an elastic pool's job, which are for single slots, as if they were one award."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.core.stored_charges import matrix_of, packed
from scheduling.models import Award, AwardState, Pool

MOST_SLOTS = 2_000  # of the newest slots, on a page
MOST_SIZES = 40  # spans of the same size that a page lists


@dataclass(frozen=True)
class Sized:
    """The slots [start, end), in all of which a job had the same size. `paid` is in micro-credits."""

    starts_at: datetime
    ends_at: datetime
    start: int
    end: int
    workers: int
    ps: int
    paid: int

    @property
    def slots(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class SoFar:
    """What a job has had so far. `paid` is for all slots, including the running one and those that are not listed any
    more. `lost` is the number of slots that the platform did not deliver and whose price was returned."""

    newest: Award
    paid: int
    slots: int
    lost: int
    sizes: tuple[Sized, ...]


def so_far(pool: Pool, awards: Sequence[Award]) -> SoFar:
    """Sum up a job's awards. `awards` are as read from the database: at least one, the oldest first."""
    newest, delivered = awards[-1], _delivered(awards)
    paid = newest.paid_before + newest.paid - newest.returned
    return SoFar(newest, paid, len(delivered), len(awards) - len(delivered), _sizes(pool, delivered)[-MOST_SIZES:])


def award_of_slots(awards: Sequence[Award]) -> Award:
    """Return one award, not saved, with all slots of these awards that were not lost; slots in which the job waited are
    empty. Its numbers of workers and parameter servers are the largest that the job had."""
    last, delivered = awards[-1], _delivered(awards)
    begin, end = awards[0].start, last.end
    charges = {award.start: award.charges[0] for award in delivered if award.charges}
    owners, amounts = packed(*matrix_of([charges.get(slot, []) for slot in range(begin, end)]))
    return Award(
        tenant_id=last.tenant_id,
        job_id=last.job_id,
        attempt=last.attempt,
        pool_id=last.pool_id,
        lane=last.lane,
        interval=last.interval,
        awarded_at=awards[0].awarded_at,
        state=AwardState.DONE if last.state == AwardState.VOID else last.state,
        phase=last.phase,
        start=begin,
        end=end,
        workers=max((award.workers for award in delivered), default=last.workers),
        ps=max((award.ps for award in delivered), default=last.ps),
        allocation=[row for award in delivered for row in award.allocation],
        value=last.value,
        cost=sum(award.cost for award in delivered),
        paid=sum(award.paid for award in delivered),
        owners=owners,
        amounts=amounts,
    )


def _delivered(awards: Sequence[Award]) -> list[Award]:
    return [award for award in awards if award.state != AwardState.VOID]


def _sizes(pool: Pool, awards: Sequence[Award]) -> tuple[Sized, ...]:
    sizes: list[list[int]] = []  # start, end, workers, parameter servers, paid
    for award in awards:
        if sizes and sizes[-1][1:4] == [award.start, award.workers, award.ps]:
            sizes[-1][1] = award.end
            sizes[-1][4] += award.paid
        else:
            sizes.append([award.start, award.end, award.workers, award.ps, award.paid])
    return tuple(Sized(pool.slot_start(row[0]), pool.slot_start(row[1]), *row) for row in sizes)

"""Read a job that goes on in pieces for its page: what each piece did and cost, and what is left (D1 to D10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.core.stored_charges import matrix_of, packed
from scheduling.market.view import SpecReader, left_of, pieces_so_far
from scheduling.models import ALIVE, Award, AwardState, Pool, RentState, TrainingJob
from tenants.ledger.amounts import adding_up, micro


@dataclass(frozen=True)
class JobPiece:
    """One of the job's awards. `share` is in per cent of all its work; `saving` is the slots of it that a save and a
    load take. Amounts are micro-credits."""

    where: str
    starts_at: datetime
    ends_at: datetime
    start: int
    end: int
    state: str
    share: float
    saving: float
    paid: int
    at_home: bool
    lost: bool
    done_again: bool  # it was lost, and the job waited again


@dataclass(frozen=True)
class PiecesOfJob:
    """All pieces of a job. `share` is the work that is done or planned, in per cent. `worth` is what that is worth to
    its owner, or None where its end at home says so."""

    rows: tuple[JobPiece, ...]
    share: float
    paid: int
    worth: int | None
    all_came_back: bool = False  # as the job was never done (D16)

    @property
    def now(self) -> JobPiece:
        """Return the piece that runs, or else the one that begins next; the last one where none is to come."""
        alive = [row for row in self.rows if row.state in (AwardState.RUNNING, AwardState.BOOKED)]
        return min(alive, key=lambda row: row.start, default=self.rows[-1])

    @property
    def digits(self) -> int:
        """Return with how many digits the costs of the pieces add up as they are shown."""
        return adding_up((*(row.paid for row in self.rows), -self.paid))


def pieces_among(job: TrainingJob, awards: Sequence[Award]) -> list[Award]:
    """Return those of a job's awards that are pieces of it. Return none where one award does all of its work: the job
    may rent in pieces, and was sold whole."""
    pieces = [award for award in awards if award.work is not None]
    whole = len(pieces) == 1 and pieces[0].state != AwardState.VOID and (pieces[0].work or 0) >= work_of(job)
    return [] if whole else pieces


def pieces_of(pool: Pool, job: TrainingJob, awards: Sequence[Award], where: Mapping[int, str]) -> PiecesOfJob | None:
    """Return the pieces of a job from its awards, oldest first; None where it is not in pieces. `where` names the
    servers of each award."""
    pieces = pieces_among(job, awards)
    if not pieces:
        return None
    work = work_of(job)
    rows = tuple(_piece(pool, job, award, work, where[award.pk]) for award in pieces)
    worth = None if job.worth is None else micro(job.worth)
    came_back = any(award.adjusted for award in pieces) and not any(row.paid for row in rows if not row.lost)
    share, paid = sum(row.share for row in rows if not row.lost), sum(row.paid for row in rows)
    if share > 100.0:  # its program is behind, so some of the work was bought again
        left = left_of(SpecReader(pool).read(job), pieces_so_far([job]).get(job.pk))
        booked = sum(row.share for row in rows if row.state in ALIVE)
        share = min(100.0 * (1.0 - left / work) + booked, 100.0)
    return PiecesOfJob(rows, share, paid, worth, came_back)


def _price(award: Award) -> int:
    """Return what one of its pieces costs; of a lost one, what was delivered of it costs."""
    return award.paid - (award.returned if award.state == AwardState.VOID else award.adjusted)


def work_of(job: TrainingJob) -> int:
    """Return how many mini-batches the job has in all."""
    return int(job.spec["epochs"]) * int(job.spec["chunks"]) * int(job.spec.get("minibatches", 1))


def _piece(pool: Pool, job: TrainingJob, award: Award, work: int, where: str) -> JobPiece:
    lost, at_home = award.state == AwardState.VOID, award.phase == "own"
    end = award.used_until
    return JobPiece(
        where=where,
        starts_at=pool.slot_start(award.start),
        ends_at=pool.slot_start(end),
        start=award.start,
        end=end,
        state=award.state,
        share=100.0 * (award.work or 0) / work,
        saving=0.0 if at_home or lost else float(job.spec.get("save_slots", 0.0)),
        paid=award.paid - award.returned,
        at_home=at_home,
        lost=lost,
        done_again=lost and award.attempt < job.attempt,
    )


def award_of_pieces(awards: Sequence[Award]) -> Award:
    """Return one award, not saved, with the slots of all pieces that were not lost, and nothing in slots in which the
    job waited.

    What came back at a settlement, or of a lost piece, is no part of its payment. `awards` has at least one, the oldest
    first.
    """
    last, delivered = awards[-1], [award for award in awards if award.state != AwardState.VOID]
    begin, end = awards[0].start, max(award.end for award in awards)
    charges: dict[int, list[list[int]]] = {}
    for award in delivered:
        charges |= dict(zip(range(award.start, award.end), award.owed, strict=False))
    owners, amounts = packed(*matrix_of([charges.get(slot, []) for slot in range(begin, end)]))
    now = next((award for award in delivered if award.state == AwardState.RUNNING), last)
    return Award(
        tenant_id=last.tenant_id,
        job_id=last.job_id,
        attempt=last.attempt,
        pool_id=last.pool_id,
        lane=last.lane,
        interval=now.interval,
        awarded_at=awards[0].awarded_at,
        state=AwardState.DONE if now.state == AwardState.VOID else now.state,
        phase="shared" if any(award.phase == "shared" for award in delivered) else last.phase,
        start=begin,
        end=end,
        workers=max((award.workers for award in delivered), default=last.workers),
        ps=max((award.ps for award in delivered), default=last.ps),
        allocation=[row for award in delivered for row in award.allocation],
        value=max((award.value for award in delivered), default=last.value),
        cost=sum(award.cost for award in delivered),
        paid=sum(_price(award) for award in awards),
        returned=sum(award.returned - award.adjusted for award in delivered),
        dividend=sum(award.dividend for award in delivered),
        work=sum(award.work or 0 for award in delivered),
        rent=RentState.OPEN if any(award.rent == RentState.OPEN for award in awards) else RentState.NONE,
        owners=owners,
        amounts=amounts,
    )

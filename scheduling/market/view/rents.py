"""Open rents: rented awards of jobs whose plan at home is still a draft (K4), or whose outcome is still open (D16)."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from scheduling.core.policies.astraea.rules.settings import NOTHING
from scheduling.models import Award, AwardState, JobState, Pool, RentState, TrainingJob
from tenants.common.repeated import RepeatedRead, Whose

GIVEN_UP = "given_up"  # the reason of a failed job that the platform lost too often
# Where parts are worth nothing: the states of jobs that ended without being done, though nobody wanted that.
UNDONE = (JobState.EXPIRED, JobState.REJECTED, JobState.FAILED)
IS_PIECE = Q(work__isnull=False)
# Awards that were given up before their start: their money went back, or to the owners, at once.
GIVEN_UP_BEFORE = Q(state=AwardState.ENDED, cut_at__lte=F("start"), pays_from=None)


def jobs_undone() -> QuerySet[TrainingJob]:
    """Return the jobs, in pools where parts are worth nothing, that paid for parts and ended without being done. Jobs
    that were cancelled or failed by themselves are not among them (D16)."""
    paid_for = Award.objects.filter(job=OuterRef("pk"), work__isnull=False, rent=RentState.CLOSED)
    jobs = TrainingJob.objects.filter(Exists(paid_for), pool__batch_policy__parts=NOTHING, state__in=UNDONE)
    return jobs.exclude(~Q(reason_code=GIVEN_UP), state=JobState.FAILED)


def cut_short(parts_worth_nothing: bool) -> Q:
    """Return a filter for awards that were cut short, or whose jobs ended early: the same happens in the owner's world.
    Once a piece of a job is lost, all earlier pieces belong to an earlier attempt and match too. A piece that was given
    up before its start matches, as nothing is held for it; and so does one that was given up and pays on after slots
    that the platform did not deliver.

    Where parts are worth nothing, rents before a lost piece stay open, and so do those of a job that the platform gave
    up. For the lost piece itself the delivered slots are paid (D13).
    """
    ended = Q(state=AwardState.VOID) | GIVEN_UP_BEFORE | Q(job__state=JobState.CANCELLED) | Q(pays_from__isnull=False)
    before = Q(attempt__lt=F("job__attempt"))
    if not parts_worth_nothing:
        return ended | Q(job__state=JobState.FAILED) | before
    by_itself = Q(job__state=JobState.FAILED) & ~Q(job__reason_code=GIVEN_UP)
    return ended | by_itself | (~IS_PIECE & (Q(job__state=JobState.FAILED) | before))


def rents_open(pool: Pool, slot: int) -> dict[int, list[Award]]:
    """Return the open rents by job, in order: awards of jobs that have neither started nor been dropped in their
    owner's world alone (K4), or that may still be done (D16). A job that rents in pieces has several. Awards that were
    cut short are left out, since they are cut in both worlds. A job that the platform failed, and that pauses in this
    slot (`not_before`), is left out too."""
    rents: dict[int, list[Award]] = {}
    for award in _open_rents[pool.parts_worth_nothing](pool_id=pool.pk, slot=slot):
        rents.setdefault(award.job_id, []).append(award)
    return rents


def rent_open(pool: Pool, slot: int) -> Award | None:
    """Return the first of the open rents, with its job; None where there is none."""
    return next(iter(_first_open_rent[pool.parts_worth_nothing](pool_id=pool.pk, slot=slot)), None)


def _open_rows(pool_id: int, slot: int, *, parts_worth_nothing: bool) -> QuerySet[Award]:
    rows = Award.objects.filter(~cut_short(parts_worth_nothing), pool=pool_id, rent=RentState.OPEN)
    rows = rows.exclude(IS_PIECE, job__state=JobState.QUEUED, job__not_before__gt=slot)
    return rows.select_related("job").order_by("job_id", "pk")


def _first_open_row(pool_id: int, slot: int, *, parts_worth_nothing: bool) -> QuerySet[Award]:
    return _open_rows(pool_id, slot, parts_worth_nothing=parts_worth_nothing)[:1]


def _of_both_kinds(rows: Callable[..., QuerySet[Award]]) -> Mapping[bool, RepeatedRead[Award]]:
    """Return the read for pools where parts are worth something (False), and where they are not (True)."""
    return {
        nothing: RepeatedRead(partial(rows, parts_worth_nothing=nothing), of=Whose.ALL, pool_id=-1, slot=-2)
        for nothing in (False, True)
    }


_open_rents, _first_open_rent = _of_both_kinds(_open_rows), _of_both_kinds(_first_open_row)


def values_given_up(rents: Mapping[int, Sequence[Award]]) -> dict[int, float]:
    """Map finished jobs to the value of their last piece, where it was given up before its start. The program had done
    all of the job in the pieces before it, so the job is worth at least that much. It takes no query where no such job
    has an open rent."""
    finished = [number for number, awards in rents.items() if awards[-1].job.state == JobState.FINISHED]
    if not finished:
        return {}
    pieces = Award.objects.filter(GIVEN_UP_BEFORE, IS_PIECE, job__in=finished, attempt=F("job__attempt"))
    return dict(pieces.order_by("start").values_list("job_id", "value"))


def undone(pool: Pool, rents: Mapping[int, Sequence[Award]], unfit: Container[int]) -> frozenset[int]:
    """Return the jobs of open rents that ended without being done, in a pool where that matters (D16). `unfit` are jobs
    that are refused for good now, without a plan."""
    if not pool.parts_worth_nothing:
        return frozenset()
    return frozenset(n for n, awards in rents.items() if n in unfit or awards[0].job.state in UNDONE)

"""Stuck credits: they are held for an award, but not owed for any of its slots to come.

The market leaves none behind. An older version did: where a gang was lost while the settlement lagged, the slots
delivered before the loss were neither paid nor refunded. `manage.py settle_stuck` pays for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from scheduling.common import one_moment
from scheduling.feed import job_subject
from scheduling.market.calendar.lanes import lane_lock
from scheduling.market.reads.missed_slots import slots_missed
from scheduling.market.settle.payments import settle_key, slot_posting
from scheduling.models import CHARGES, Award, Lane, LaneClock, Pool, RentState, unsettled_from
from tenants import history
from tenants.access import Access, Refused
from tenants.ledger.findings import MOST, LedgerFinding
from tenants.ledger.postings import InsufficientFunds, held
from tenants.ledger.selectors import balances, transactions_about_all
from tenants.ledger.services import post_many
from tenants.ledger.sums import held_by_award
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.scoping import scope_disabled
from tenants.services.members import NO_REASON, NOT_ALLOWED


@dataclass(frozen=True)
class Stuck:
    """An award for which the wrong amount is held. `held` is the micro-credits in the book for it, `owed` those for its
    slots that are still to be settled.

    `unpaid` are past slots that were delivered and never paid for. They explain the difference, or a part of it.
    """

    award: Award
    held: int
    owed: int
    unpaid: tuple[int, ...]

    @property
    def payable(self) -> int:
        """The micro-credits for the unpaid slots."""
        return sum(amount for slot in self.unpaid for _, amount in self.award.owed[slot - self.award.start])

    @property
    def explained(self) -> bool:
        return self.held - self.owed == self.payable

    def __str__(self) -> str:
        award = self.award
        slots = f", slots {', '.join(map(str, self.unpaid))} were delivered and not paid for" if self.unpaid else ""
        return (
            f"award {award.pk} of job {award.job_id} ({award.state}): {self.held} micro-credits are held, "
            f"{self.owed} are owed for slots to come{slots}"
        )


@dataclass(frozen=True)
class Paid:
    """How many awards were settled, and the micro-credits that went to the owners of the units."""

    awards: int
    amount: int


def stuck_awards() -> list[Stuck]:
    """Return every award for which more or less is held than it still owes, in the order of ids, as of one moment."""
    return _held_wrongly()[0]


def _held_wrongly() -> tuple[list[Stuck], dict[int, int]]:
    """Return the stuck awards; and tenant -> what is held for none of its awards, or was taken from there."""
    with one_moment(), scope_disabled("credits may be held for any tenant's award"):
        return _held_compared()


def _held_compared() -> tuple[list[Stuck], dict[int, int]]:
    """Compare the held balance of each tenant with what its awards owe; entries are read only where these differ."""
    settled = _settled_slots()
    owed: dict[int, int] = {}
    by_tenant: defaultdict[int, int] = defaultdict(int)
    for pool_id, slot in settled.items():
        owing = unsettled_from(slot + 1) | Q(rent=RentState.OPEN)
        open_awards = Award.objects.filter(owing, pool=pool_id, paid__gt=0).order_by()
        for award in open_awards.only(
            "tenant", "start", "end", "state", "cut_at", "pays_from", *CHARGES, "rent", "adjusted"
        ):
            owed[award.pk] = award.owed_after(slot)
            by_tenant[award.tenant_id] += owed[award.pk]
    tenant_ids = list(Tenant.objects.order_by("pk").values_list("pk", flat=True))
    amounts = balances(accounts=[held(tenant_id) for tenant_id in tenant_ids])
    wrong = [tenant_id for tenant_id in tenant_ids if amounts[held(tenant_id)] != by_tenant[tenant_id]]
    if not wrong:
        return [], {}
    amount, of_no_award = defaultdict[int, int](int), dict[int, int]()
    for (tenant_id, award_id), sum_held in held_by_award(tenant_ids=wrong).items():
        if award_id is None:
            of_no_award[tenant_id] = sum_held
        else:
            amount[award_id] += sum_held
    numbers = [pk for pk in amount.keys() | owed.keys() if amount.get(pk, 0) != owed.get(pk, 0)]
    awards = list(Award.objects.filter(pk__in=numbers, tenant__in=wrong).order_by("pk"))
    about = transactions_about_all(subjects={job_subject(award.job_id) for award in awards})
    posted = {transaction.key for transaction in about}
    stuck = [_stuck(award, amount.get(award.pk, 0), settled[award.pool_id], posted) for award in awards]
    return stuck, of_no_award


def held_findings() -> Iterator[LedgerFinding]:
    """Yield findings for the audit of the book: awards with stuck credits, and tenants with credits held for none."""
    stuck, of_no_award = _held_wrongly()
    for each in stuck[:MOST]:
        yield LedgerFinding("held", f"award {each.award.pk}", str(each))
    slugs = dict(Tenant.objects.filter(pk__in=of_no_award).values_list("pk", "slug"))
    for tenant_id, amount in of_no_award.items():
        yield LedgerFinding("held", f"tenant {slugs[tenant_id]}", f"{amount} micro-credits are held for no award")


def stuck_settle(*, by: Access, reason: str, at: datetime) -> Paid | Refused:
    """Pay the owners for slots that were delivered and never paid for. The history has it as an operator's action.

    Held credits that unpaid slots do not explain stay where they are: a person has to look into them.
    """
    if not by.allows(Permission.CREDITS_CHANGE):
        return NOT_ALLOWED
    if not reason.strip():
        return NO_REASON
    with scope_disabled("awards of several tenants wait for their settlement"):
        paid = [_pool_settle(pool_id, by, reason, at) for pool_id in sorted(_settled_slots())]
    return Paid(sum(each.awards for each in paid), sum(each.amount for each in paid))


@transaction.atomic
def _pool_settle(pool_id: int, by: Access, reason: str, at: datetime) -> Paid:
    for lane in (Lane.BATCH, Lane.INSTANT):  # in the order of the locks
        lane_lock(pool_id=pool_id, lane=lane)
    stuck = [each for each in stuck_awards() if each.award.pool_id == pool_id and each.unpaid]
    if not stuck:
        return Paid(0, 0)
    # The postings are dated now, so that statements of past periods stay as they are.
    postings = [
        slot_posting(award.pool_id, award.pk, award.tenant_id, award.job_id, slot, award.owed[slot - award.start], at)
        for award, slots in ((each.award, each.unpaid) for each in stuck)
        for slot in slots
    ]
    answer = post_many(postings=postings)
    if isinstance(answer, InsufficientFunds):
        raise RuntimeError(f"pool {pool_id}: what is held does not cover what was delivered: {answer}")
    paid = Paid(len(stuck), sum(each.payable for each in stuck))
    after = {"awards": [each.award.pk for each in stuck], "amount": paid.amount}
    subject = f"awards of pool {stuck[0].award.pool.slug}"
    history.append(at=at, by=by, action="settle_stuck", subject=subject, reason=reason, after=after)
    return paid


def _settled_slots() -> Mapping[int, int]:
    """Map each pool to its last settled slot; -1 where the market's clock never ran, as in a new pool."""
    settled = dict(LaneClock.objects.filter(lane=Lane.BATCH).values_list("pool_id", "settled_slot"))
    return {pool_id: settled.get(pool_id, -1) for pool_id in Pool.objects.values_list("pk", flat=True)}


def _stuck(award: Award, amount: int, settled: int, posted: Container[str]) -> Stuck:
    """Return the award with what is held and owed for it. `posted` are the keys of all postings about its job."""
    if award.rent == RentState.OPEN:  # none of its slots is due yet
        return Stuck(award, amount, award.owed_after(settled), ())
    missed = slots_missed([award]).get(award.pk, frozenset())
    unpaid = [
        slot
        for slot, parts in zip(range(award.start, min(award.paid_until, settled + 1)), award.owed, strict=False)
        if any(part for _, part in parts)
        and slot not in missed
        and settle_key(award.pool_id, slot, award.pk) not in posted
    ]
    return Stuck(award, amount, award.owed_after(settled), tuple(unpaid))

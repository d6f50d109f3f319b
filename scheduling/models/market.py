"""What was decided: clocks, intervals with everything needed to decide them again, and awards with their terms."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.postgres.fields import BigIntegerRangeField
from django.contrib.postgres.indexes import GistIndex
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.expressions import RawSQL

from scheduling.core.settlement import Amounts
from scheduling.core.stored_charges import SlotPairs, UnreadableCharges, charges_listed, matrix_of, packed, unpacked
from scheduling.models.calendar import Part
from scheduling.models.cluster import Pool, ResourceKind, Server
from scheduling.models.jobs import Lane, TrainingJob
from tenants.ledger.split import split
from tenants.scoping import TenantOwned


class LaneClock(models.Model):
    """How far one lane of a pool is. The row is also the lock of everything that the lane writes.

    In the batch lane, `decided_slot` and `settled_slot` are the last finished slots, so that a late tick catches up in
    order and a second tick finds nothing left. `memory` is what the policy wants to be given again at the next
    interval.
    """

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="clocks")
    lane = models.CharField(max_length=8, choices=Lane.choices)
    decided_slot = models.BigIntegerField(default=-1)
    settled_slot = models.BigIntegerField(default=-1)
    frontier = models.BigIntegerField(default=0)  # no later batch plan changes home cells before this slot
    memory = models.JSONField(default=dict, blank=True)
    held = models.BooleanField(default=False)  # an operator's hold: nothing new is decided
    draining = models.BooleanField(default=False)  # it is held, and accepts nothing new either
    head = models.CharField(max_length=64, blank=True)  # digest of the last interval, or instant answer

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pool", "lane"], name="clock_once_per_lane")]

    def __str__(self) -> str:
        return f"{self.lane} lane of {self.pool_id}"


class Interval(models.Model):
    """One decision of the batch lane: its whole input and its whole answer, chained to the interval before. Rows never
    change, except that the owning role removes the input and the answer once an archive has them. Only `contents_of`
    reads the two: where a `base` is named, the columns hold the differences from it."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    number = models.BigIntegerField()  # 1, 2, ... in each pool
    slot = models.BigIntegerField()  # decided at the boundary before this slot
    window_start = models.BigIntegerField(null=True, blank=True)  # null where only the clock or refusals changed
    window_end = models.BigIntegerField(null=True, blank=True)
    decided_at = models.DateTimeField()
    code_version = models.CharField(max_length=64)
    policy = models.BinaryField()  # canonical JSON of the policy's name and all its fields
    view = models.BinaryField()  # canonical JSON of the input, compressed
    plan = models.BinaryField()  # canonical JSON of the answer, compressed
    # An earlier interval that is stored whole: the input and the answer here are stored as differences from it. Null
    # where they are stored whole.
    base = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False)
    windows = models.BinaryField()  # canonical JSON of the plan's windows alone: each instant answer reads it
    # Canonical JSON of where the other chains ended when it was decided: the answers of the instant lane, and the seals
    # of the feed. So a noted digest of an interval fixes those too. It is empty in intervals older than these chains.
    heads = models.BinaryField(default=b"", db_default=b"")
    previous = models.CharField(max_length=64)  # digest of the interval before; 64 zeros for the first
    digest = models.CharField(max_length=64)
    jobs_waiting = models.PositiveIntegerField(default=0)
    jobs_awarded = models.PositiveIntegerField(default=0)
    paid = models.BigIntegerField(default=0)  # micro-credits, by all its awards

    class Meta:
        ordering = ["pool", "number"]
        indexes = [models.Index(fields=["pool", "window_end"], name="interval_to_end")]  # published windows still open
        constraints = [
            models.UniqueConstraint(fields=["pool", "number"], name="interval_number_once"),
            models.UniqueConstraint(fields=["pool", "slot"], name="interval_once_per_boundary"),
        ]

    def __str__(self) -> str:
        return f"interval {self.number} of pool {self.pool_id}"

    @property
    def is_archived(self) -> bool:
        """Return whether the input and the answer are in an archive (`audit.archiving`), and no longer here."""
        return not self.view and not self.plan


class AnswerFrame(models.Model):
    """A pool as answers of its instant lane used it, stored once for all answers that used the same. It is never
    changed."""

    digest = models.CharField(max_length=64, primary_key=True)  # SHA-256 of the content
    content = models.BinaryField()  # canonical JSON of the cluster, the policy and its limits, compressed

    def __str__(self) -> str:
        return f"frame {self.digest[:12]}"


class AwardState(models.TextChoices):
    BOOKED = "booked"
    RUNNING = "running"
    DONE = "done"
    ENDED = "ended"  # cut short by its tenant; what it reserved is still paid, or kept by the cancellation rule
    VOID = "void"  # cut short by the platform; what was delivered before the cut is paid, the rest is refunded


ALIVE = (AwardState.BOOKED, AwardState.RUNNING)


class RentState(models.TextChoices):
    """Whether the rent of an award is final. It is open where the job's plan at home is a draft, so that nobody knows
    yet what the job would have been worth alone (K4), and where parts are worth nothing, so that nobody knows yet
    whether the job will be done (D16)."""

    NONE = "", "none"
    OPEN = "open"  # none of its slots is paid for yet: the whole rent is held
    CLOSED = "closed"  # its owners are paid, without what was refunded


# Causes of the refund when such a rent is closed.
BETTER_ALONE = "better_alone"
NOT_DONE = "not_done"  # unfinished jobs are worth nothing there, and this one was never done (D16)
# Cause of the refund of a piece that was bought before anybody knew that its program had ended (D14).
NOT_NEEDED = "not_needed"


def span_of() -> Func:
    """Return the slots [start, end) as one range, which an index can search by overlap."""
    return Func(F("start"), F("end"), function="int8range", output_field=BigIntegerRangeField())


class Award(TenantOwned):
    """Resources given to a job, and the terms. `charges` says exactly what each slot costs and who earns it."""

    # An index below begins with each of these four, so that none needs an index of its own.
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    job = models.ForeignKey(TrainingJob, on_delete=models.PROTECT, related_name="+", db_index=False)
    attempt = models.PositiveSmallIntegerField(default=0)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    lane = models.CharField(max_length=8, choices=Lane.choices)
    interval = models.ForeignKey(
        Interval, on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    awarded_at = models.DateTimeField()  # budgets count it in the period of this moment
    state = models.CharField(max_length=8, choices=AwardState.choices, default=AwardState.BOOKED)
    phase = models.CharField(max_length=8, blank=True)  # own | shared
    placement = models.CharField(max_length=12, blank=True)
    start = models.BigIntegerField()
    end = models.BigIntegerField()
    workers = models.PositiveIntegerField()
    ps = models.PositiveIntegerField()
    worker_type = models.PositiveSmallIntegerField(default=0)
    ps_type = models.PositiveSmallIntegerField(default=0)
    allocation = models.JSONField()  # rows [server id, start, end, workers, parameter servers]
    # Those of these units that are the operator's, in rows of the same form; all others are in home cells.
    on_operator = models.JSONField(default=list, blank=True)
    value = models.FloatField()
    floor = models.FloatField(default=0.0)
    cost = models.FloatField(default=0.0)
    paid = models.BigIntegerField(default=0)  # micro-credits for the whole schedule, set aside at the award
    dividend = models.BigIntegerField(default=0, db_default=0)  # of it, a share of the gain, beside the price
    # What each slot costs and who earns it, which is read as `charges`: the owners who earn anything, by tenant id with
    # 0 for the operator, and the bytes of `core.stored_charges`. The amounts sum to `paid`.
    owners = models.JSONField(null=True, blank=True, default=list)
    amounts = models.BinaryField(null=True, blank=True, default=b"")
    # The same in awards of older versions, which have neither of the two: what `charges` says.
    lists = models.JSONField(db_column="charges", null=True, blank=True)
    # For an elastic pool, whose jobs have an award for each slot: mini-batches that the job has left after this slot as
    # planned, and micro-credits that it paid for earlier slots. Null means that the award is for the whole job.
    work_left = models.FloatField(null=True, blank=True)
    paid_before = models.BigIntegerField(default=0, db_default=0)
    # For a job that may be saved and continued later (D1): the mini-batches that this award does, of all or of what was
    # left. Such a job has an award for each of its pieces, and one at home for the rest. Null means that the award is
    # for the whole job.
    work = models.BigIntegerField(null=True, blank=True)
    # Slots from this one on were not delivered or not wanted. A running award that its tenant gave up stays `running`,
    # and is settled, to its end.
    cut_at = models.BigIntegerField(null=True, blank=True)
    # For an award that was given up, and that the platform had failed in a slot before that: the first slot that it
    # pays for again. Those from `cut_at` to it were not delivered, and came back. Null where there are none.
    pays_from = models.BigIntegerField(null=True, blank=True)
    returned = models.BigIntegerField(default=0)  # micro-credits of `paid` that went back to the tenant
    rent = models.CharField(max_length=8, blank=True, choices=RentState.choices, default="", db_default="")
    # The part of `returned` that was returned because the job would have been worth more alone, or was never done. The
    # owners are paid that much less.
    adjusted = models.BigIntegerField(default=0, db_default=0)

    begun: int | None = None  # the first slot of its job's attempt, where a read wrote it here

    class Meta(TenantOwned.Meta):
        indexes = [
            models.Index(
                fields=["pool", "start", "end"], condition=Q(state__in=["booked", "running"]), name="award_alive"
            ),
            # Awards that were cut short while the settlement lagged: very few among all awards.
            models.Index(fields=["pool", "cut_at"], condition=Q(state="void"), name="award_void_to_settle"),
            models.Index(fields=["interval"], name="award_of_interval"),
            models.Index(fields=["tenant", "-id"], name="award_newest_of_tenant"),
            # Finds awards that hold units in some slots, however old they are, by both ends of the span at once.
            GistIndex(span_of(), name="award_span"),
            models.Index(fields=["pool", "end"], name="award_to_end"),  # a chart shows what ended recently
            models.Index(fields=["tenant", "awarded_at"], condition=Q(paid__gt=0), name="award_paid_in_period"),
            models.Index(fields=["pool"], condition=Q(rent="open"), name="award_open_rent"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["job", "attempt"], condition=Q(work_left=None, work=None), name="award_once_per_attempt"
            ),
            models.UniqueConstraint(fields=["job", "attempt", "start"], name="award_once_per_slot"),
            models.CheckConstraint(condition=Q(end__gt=F("start"), paid__gte=0), name="award_possible"),
            models.CheckConstraint(
                condition=Q(dividend__gte=0, dividend__lte=F("paid")), name="award_dividend_in_paid"
            ),
            models.CheckConstraint(
                condition=Q(work_left=None, paid_before=0)
                | Q(work_left__gte=0, paid_before__gte=0, end=F("start") + 1),
                name="award_of_one_slot",
            ),
            models.CheckConstraint(
                condition=Q(work=None) | Q(work__gte=1, work_left=None), name="award_in_pieces_does_work"
            ),
            models.CheckConstraint(
                condition=Q(returned__gte=0, returned__lte=F("paid")), name="award_returns_what_was_paid"
            ),
            models.CheckConstraint(condition=Q(state__in=AwardState.values), name="award_state_known"),
            # Given up before its start, an award has ended: nothing pays for it, and no settlement looks at it.
            models.CheckConstraint(
                condition=~Q(state__in=["booked", "running"])
                | Q(cut_at__isnull=True)
                | Q(cut_at__gt=F("start"))
                | Q(pays_from__isnull=False),
                name="award_alive_is_cut_after_its_start",
            ),
            models.CheckConstraint(
                condition=Q(pays_from__isnull=True)
                | ~Q(state="void") & Q(cut_at__isnull=False, cut_at__lt=F("pays_from"), pays_from__lt=F("end")),
                name="award_pays_on_after_its_cut",
            ),
            models.CheckConstraint(condition=Q(rent__in=RentState.values), name="award_rent_known"),
            models.CheckConstraint(
                condition=Q(adjusted=0) | Q(adjusted__gt=0, adjusted__lte=F("returned"), rent="closed"),
                name="award_adjusted_once_closed",
            ),
        ]

    def __str__(self) -> str:
        return f"award of job {self.job_id}: [{self.start}, {self.end})"

    @property
    def charges(self) -> SlotPairs:
        """Return one list per slot from `start`: pairs [owner's tenant id, or 0 for the operator; micro-credits]. They
        sum to `paid`. The list is empty for an award that costs nothing."""
        if self.amounts is None:
            if self.lists is None:
                raise UnreadableCharges(f"award {self.pk} does not say what its slots cost")
            return self.lists
        of, charges = self.__dict__.get("_charges", (None, []))
        if of is not self.amounts:  # lists are made once: what a slot costs is asked for slot by slot
            charges = charges_listed(*self.charges_by_owner())
            self._charges = (self.amounts, charges)
        return charges

    @charges.setter
    def charges(self, by_slot: Sequence[Sequence[Sequence[int]]]) -> None:
        self.owners, self.amounts = packed(*matrix_of(by_slot))

    def charges_by_owner(self) -> tuple[list[int], Amounts]:
        """Return the same as the owners who earn anything, and amounts (slots, owners)."""
        if self.amounts is None:
            return matrix_of(self.charges)
        if not isinstance(self.owners, list):
            raise UnreadableCharges(f"award {self.pk} does not say who earns what its slots cost")
        return self.owners, unpacked(len(self.owners), self.amounts)

    @property
    def own_part(self) -> int:
        """Return the part of the payment that its tenant gets back slot by slot, as one of the owners."""
        return sum(self.parts_of(self.tenant_id))

    def parts_of(self, owner_id: int) -> list[int]:
        """Return the micro-credits that one owner gets in each slot, as `owed` has them; empty if it gets nothing."""
        owners, amounts = matrix_of(self.owed) if self.adjusted else self.charges_by_owner()
        return amounts[:, owners.index(owner_id)].tolist() if owner_id in owners else []

    def unpaid_since(self, settled_slot: int) -> int:
        """Return the first of its slots that is not paid for yet, if `settled_slot` is the pool's last settled one. An
        open rent has paid for none."""
        return self.start if self.rent == RentState.OPEN else max(settled_slot + 1, self.start)

    @property
    def owed(self) -> list[list[list[int]]]:
        """Return `charges` less what was refunded because the job would have been worth more alone, or was never done.
        The refund is divided among the owners in proportion to their totals, and for each owner in proportion to its
        slots."""
        return reduced(self.charges, self.adjusted) if self.adjusted else list(self.charges)

    @property
    def paid_until(self) -> int:
        """Return the first slot that it does not pay for.

        An award that is alive, or was given up while it ran, pays to its end, without `missed` and the slots of outages
        (`market.reads.slots_missed`). One that was given up before its start pays nothing. One that the platform cut
        short pays for what was delivered before the cut, settled or not. `unsettled_from` and `paying_for` are the same
        for queries.
        """
        if self.cut_at is None or self.state in ALIVE or self.pays_from is not None:
            return self.end
        given_up_before = self.state == AwardState.ENDED and self.cut_at <= self.start
        return min(self.cut_at, self.end) if self.state == AwardState.VOID or given_up_before else self.end

    def owed_after(self, settled_slot: int) -> int:
        """Return the micro-credits for the slots after `settled_slot`, the pool's last settled one: that much is held
        for the award then. An open rent has paid for no slot yet."""
        first, missed = self.unpaid_since(settled_slot), self.missed
        ahead = self.owed[first - self.start : max(self.paid_until - self.start, 0)]
        return sum(amount for slot, parts in enumerate(ahead, first) if slot not in missed for _, amount in parts)

    @property
    def missed(self) -> range:
        """Return the slots that the platform did not deliver before its tenant gave it up. It gets them back, and pays
        for the others to its end."""
        return range(self.cut_at or 0, self.pays_from) if self.pays_from is not None else range(0)

    @property
    def is_given_up(self) -> bool:
        """Return whether its tenant gave it up while it ran, or its program ended early: it pays on to its end."""
        if self.state == AwardState.VOID or self.cut_at is None or self.cut_at >= self.end:
            return False
        return self.cut_at > self.start or self.pays_from is not None

    @property
    def used_until(self) -> int:
        """Return the first slot in which it holds no units any more."""
        return self.end if self.cut_at is None else min(self.cut_at, self.end)


# The columns of what each slot costs, for queries that leave out columns or name them.
CHARGES = ("owners", "amounts", "lists")

_EARNS = """
CASE WHEN scheduling_award.amounts IS NULL
     THEN jsonb_path_exists(scheduling_award.charges, 'strict $[*][*] ? (@[0] == $owner && @[1] > 0)',
                            jsonb_build_object('owner', %s::bigint))
     ELSE scheduling_award.owners @> to_jsonb(%s::bigint) END
"""


def earns(owner_id: int) -> RawSQL:
    """Return the expression that says of an award whether this owner earns anything of it."""
    return RawSQL(_EARNS, [owner_id, owner_id], output_field=models.BooleanField())  # noqa: S611  a constant text


def reduced(charges: Sequence[Sequence[Sequence[int]]], amount: int) -> list[list[list[int]]]:
    """Return charges as `Award.charges` lists them, less `amount` micro-credits. They must hold at least as much."""
    by_owner: dict[int, list[int]] = {}
    for slot in charges:
        for owner, part in slot:
            by_owner.setdefault(owner, []).append(part)
    totals = {owner: sum(parts) for owner, parts in by_owner.items()}
    shares = dict(zip(totals, split(amount, list(totals.values())), strict=True))
    rests = {
        owner: iter([part - less for part, less in zip(parts, split(shares[owner], parts), strict=True)])
        for owner, parts in by_owner.items()
    }
    return [[[owner, next(rests[owner])] for owner, _ in slot] for slot in charges]


def unsettled_from(slot: int) -> Q:
    """Return the condition for awards that still pay for `slot` or a later one, where all slots before it are settled.

    These are the awards that are alive, and those that the platform cut short in a later slot. It is `Award.paid_until`
    as a condition: awards that are done, or have ended, are settled to it.
    """
    return Q(state__in=ALIVE, end__gt=slot) | Q(state=AwardState.VOID, cut_at__gt=slot)


def paying_for(slot: int) -> Q:
    """Return the condition for awards that pay for `slot`, where all slots before it are settled, and this one is not.

    It is `Award.paid_until` and `Award.missed` as a condition, for a slot of which there is no outage.
    """
    return unsettled_from(slot) & Q(start__lte=slot) & ~Q(cut_at__lte=slot, pays_from__gt=slot)


# The condition for awards for which something may be held. All others are paid for, or their money was returned.
MAY_HOLD = Q(state__in=(*ALIVE, AwardState.VOID)) | Q(rent=RentState.OPEN)


def may_hold(award: Award) -> bool:
    """Return whether `MAY_HOLD` is true of this award."""
    return award.state in (*ALIVE, AwardState.VOID) or award.rent == RentState.OPEN


class InstantAnswer(models.Model):
    """The instant lane's answer to one job, admitted or refused, with its whole input; chained to the answer before it
    in its pool. Rows never change."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    number = models.BigIntegerField()  # 1, 2, ... in each pool
    job = models.OneToOneField(TrainingJob, on_delete=models.PROTECT, related_name="+")
    award = models.OneToOneField(Award, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    at = models.DateTimeField()
    code_version = models.CharField(max_length=64)
    frame = models.ForeignKey(AnswerFrame, on_delete=models.PROTECT, related_name="+", db_index=False)
    input = models.BinaryField()  # canonical JSON of submission, purse, and the view without its cluster, compressed
    plan = models.BinaryField()  # canonical JSON of the booking or the refusal, compressed
    resold = models.JSONField(null=True, blank=True)  # rows [id of freed units, amount sold]; null: none
    interval_head = models.CharField(max_length=64, blank=True)  # digest of the interval that was the last one then
    previous = models.CharField(max_length=64)  # digest of the answer before; 64 zeros for the first
    digest = models.CharField(max_length=64)

    class Meta:
        ordering = ["pool", "number"]
        indexes = [
            models.Index(fields=["pool", "number"], condition=Q(resold__isnull=False), name="answer_that_resold")
        ]
        constraints = [models.UniqueConstraint(fields=["pool", "number"], name="answer_number_once")]

    def __str__(self) -> str:
        return f"answer {self.number} of pool {self.pool_id}"


class UsePrice(models.Model):
    """What a unit costs in each slot of an elastic pool, from a slot on. Rows never change: among the rows that begin
    at or before a slot, the one with the latest `from_slot`, and among equals the highest id, has the price of that
    slot."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    resource = models.ForeignKey(ResourceKind, on_delete=models.PROTECT, related_name="+", db_index=False)
    from_slot = models.BigIntegerField()
    amount = models.BigIntegerField()  # micro-credits for a unit and slot
    set_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["pool", "resource", "-from_slot", "-id"], name="use_price_newest")]
        constraints = [models.CheckConstraint(condition=Q(amount__gte=0), name="use_price_not_negative")]

    def __str__(self) -> str:
        return f"{self.amount} for {self.resource_id} from slot {self.from_slot}"


class FreedUnits(TenantOwned):
    """Units that a job gave up early. Its tenant has paid for them, and gets what they are sold for again."""

    award = models.ForeignKey(Award, on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="+", db_index=False)
    resource = models.ForeignKey(ResourceKind, on_delete=models.PROTECT, related_name="+", db_index=False)
    part = models.CharField(max_length=8, choices=Part.choices, default=Part.HOME)
    slot = models.BigIntegerField()
    amount = models.FloatField()  # given up in this slot
    sold = models.FloatField(default=0.0)  # the part that the instant lane sold again

    class Meta(TenantOwned.Meta):
        verbose_name_plural = "freed units"
        indexes = [models.Index(fields=["pool", "slot"], name="freed_in_slot")]
        constraints = [
            models.UniqueConstraint(fields=["award", "server", "resource", "part", "slot"], name="freed_once"),
            models.CheckConstraint(condition=Q(part__in=Part.values), name="freed_part_known"),
            models.CheckConstraint(
                condition=Q(amount__gt=0, sold__gte=0) & Q(sold__lte=F("amount") + 1e-9), name="freed_sold_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.amount:g} on server {self.server_id} in slot {self.slot}"

"""The cluster as it stands: pools, what their servers hold, and whose cells they are.

What Django can declare is declared here. Three rules live in `migrations/sql/`, for Django has no words for
them: a lane's policy has a name, everything on a server belongs to one pool (composite foreign keys), and the
cells of a server and a resource never exceed its capacity (deferred triggers that lock the capacity row).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Mod
from django.db.models.lookups import Exact

from scheduling.core.policies import SINGLE_SLOTS
from scheduling.core.policies.astraea.settings import NOTHING
from scheduling.models.transactions import TransactionField
from tenants.scoping import TenantOwned

# Names go into addresses, scenario files and results, so they are plain words.
_WORD = RegexValidator(r"^[a-z0-9]+([-_][a-z0-9]+)*\Z", "Small letters and digits, joined by single hyphens.")
# A server is called as its cluster calls it: beside these, Slurm has capitals and whole names of the network.
_SERVER_NAME = RegexValidator(
    r"^[A-Za-z0-9]+([-_.]+[A-Za-z0-9]+)*\Z", "Letters and digits, joined by hyphens, underscores or dots."
)


class AlonePlan(models.TextChoices):
    """How a tenant's jobs are planned in the world in which it is alone."""

    KEEP = "keep"  # a job's schedule at home is given once, when it is collected, and kept for good
    RENEW = "renew"  # it is a draft, planned anew at each boundary until the job starts there (K1 to K4)


class Pool(models.Model):
    """Servers that are sold together: one clock, one calendar, one policy per lane."""

    slug = models.CharField(max_length=40, unique=True, validators=[_WORD])
    name = models.CharField(max_length=120)
    slot_seconds = models.PositiveIntegerField()
    # Interval lengths in slots: `first`, doubled up to `cap`; `restart`: anew when the backlog is empty.
    clock_first = models.PositiveIntegerField()
    clock_cap = models.PositiveIntegerField()
    clock_restart = models.BooleanField()
    # The policy of each lane by name and fields, as in a scenario file. No instant policy: a closed lane.
    batch_policy = models.JSONField()
    instant_policy = models.JSONField(null=True, blank=True)
    epoch_at = models.DateTimeField()  # when slot 0 began; moving it would rename every slot ever sold
    # Who cancels before the start gets back what is not settled, less this part of it, which the owners keep.
    cancellation_keep_percent = models.PositiveSmallIntegerField(default=0)
    # Slots that passed wholly while the market's clock was silent were not delivered, once the silence has outlasted
    # the first of them by this much. None: what was sold counts as delivered, however late the clock.
    outage_grace_seconds = models.PositiveIntegerField(null=True, blank=True, default=60)
    # Against the two ways of paying the instant lane less than one is worth: one job takes at most this part of the
    # pool at once, and what was refused or taken back may not be tried again for so many slots.
    instant_share_percent = models.PositiveSmallIntegerField(default=100)
    instant_cooling_slots = models.PositiveIntegerField(default=0)
    # For so many slots ahead, the running one among them, the instant lane's prices are published. 0: none are.
    posted_slots = models.PositiveSmallIntegerField(default=96)
    engine = models.CharField(max_length=20, default="local", validators=[_WORD])  # by name: who runs what is awarded
    # Whether a server that the engine lost is in service again as soon as the engine has found it up for long enough.
    servers_return = models.BooleanField(default=False)
    # Of tenants that said nothing about theirs. Pools from before there was a choice keep what they had.
    usual_plan = models.CharField(max_length=5, choices=AlonePlan.choices, default=AlonePlan.KEEP, db_default="keep")

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(condition=Q(slot_seconds__gt=0), name="pool_slot_has_length"),
            models.CheckConstraint(condition=Q(cancellation_keep_percent__lte=100), name="pool_keeps_at_most_all"),
            models.CheckConstraint(
                condition=Q(instant_share_percent__gte=1, instant_share_percent__lte=100), name="pool_share_is_a_part"
            ),
            models.CheckConstraint(condition=Q(posted_slots__lte=1024), name="pool_posts_what_it_sells"),
            models.CheckConstraint(condition=Q(usual_plan__in=AlonePlan.values), name="pool_usual_plan_known"),
            models.CheckConstraint(
                condition=Q(clock_first__gt=0, clock_cap__gte=F("clock_first")), name="pool_clock_possible"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_elastic(self) -> bool:
        """Whether its jobs are sized anew in every slot and pay for what they use."""
        return self.batch_policy.get("name") in SINGLE_SLOTS

    @property
    def parts_worth_nothing(self) -> bool:
        """Whether what is done of a job is worth nothing here before the job is done, so that what a job pays without a
        place of its own is provisional (D16)."""
        return self.batch_policy.get("parts") == NOTHING

    def slot_at(self, moment: datetime) -> int:
        """The slot that contains the moment; negative before the epoch."""
        return (moment - self.epoch_at) // timedelta(seconds=self.slot_seconds)

    def slot_start(self, slot: int) -> datetime:
        return self.epoch_at + timedelta(seconds=self.slot_seconds * slot)


class ResourceKind(models.Model):
    """What is counted, in one pool: `worker` and `ps`, or several types of either, or gpu, cpu, memory."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="resources")
    name = models.CharField(max_length=40, validators=[_WORD])
    label = models.CharField(max_length=60)  # as a sentence says one of it: "parameter server"
    # What one worker or parameter server may take of it: nothing, or `least`, or as many steps more as it likes.
    least = models.DecimalField(max_digits=15, decimal_places=6, default=Decimal(1))
    step = models.DecimalField(max_digits=15, decimal_places=6, default=Decimal(1))

    class Meta:
        ordering = ["pool", "id"]  # in the order in which the pool was given them
        constraints = [
            models.CheckConstraint(condition=Q(least__gt=0, step__gt=0), name="resource_has_steps"),
            models.CheckConstraint(condition=Exact(Mod("least", "step"), Decimal(0)), name="resource_least_is_steps"),
            models.UniqueConstraint(fields=["pool", "name"], name="resource_name_once_per_pool"),
            models.UniqueConstraint(fields=["id", "pool"], name="resource_with_pool"),  # target of a composite key
        ]

    def __str__(self) -> str:
        return self.name


class ServerState(models.TextChoices):
    IN_SERVICE = "in_service"
    DRAINING = "draining"  # finishes what is promised, is given nothing new
    LOST = "lost"


class Server(models.Model):
    """One machine. Never deleted: old intervals name it."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="servers")
    name = models.CharField(max_length=60, validators=[_SERVER_NAME])
    hosts_workers = models.BooleanField(default=True)
    hosts_ps = models.BooleanField(default=True)
    state = models.CharField(max_length=12, choices=ServerState.choices, default=ServerState.IN_SERVICE)
    # Of its last loss: the first slot not delivered, and the last one that the batch lane had decided by then.
    lost_from = models.BigIntegerField(null=True, blank=True)
    lost_after = models.BigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["pool", "id"]  # policies that take "the lowest index" mean this order
        constraints = [
            models.UniqueConstraint(fields=["pool", "name"], name="server_name_once_per_pool"),
            models.UniqueConstraint(fields=["id", "pool"], name="server_with_pool"),  # target of a composite key
            models.CheckConstraint(condition=Q(hosts_workers=True) | Q(hosts_ps=True), name="server_hosts_something"),
            models.CheckConstraint(condition=Q(state__in=ServerState.values), name="server_state_known"),
        ]

    def __str__(self) -> str:
        return self.name


class ServerCapacity(models.Model):
    """How many units of one resource a server has; also the lock under which its cells are counted."""

    # The pool again, so that composite keys can insist on one pool for the server and the resource.
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="capacities", db_index=False)
    resource = models.ForeignKey(ResourceKind, on_delete=models.PROTECT, related_name="+")
    units = models.PositiveIntegerField()

    class Meta:
        verbose_name_plural = "server capacities"
        ordering = ["server", "resource"]
        constraints = [models.UniqueConstraint(fields=["server", "resource"], name="capacity_once_per_resource")]

    def __str__(self) -> str:
        return f"{self.units} {self.resource} on {self.server}"


class Cell(TenantOwned):
    """Units of one resource on one server that belong to a tenant. What no cell covers is the operator's."""

    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="+", db_index=False)
    resource = models.ForeignKey(ResourceKind, on_delete=models.PROTECT, related_name="+")
    units = models.PositiveIntegerField()

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(fields=["server", "resource", "tenant"], name="cell_once_per_owner"),
            models.CheckConstraint(condition=Q(units__gt=0), name="cell_has_units"),
        ]

    def __str__(self) -> str:
        return f"{self.units} {self.resource} on {self.server}"


class ShapeChange(models.Model):
    """A transaction that changed what a pool consists of: its resources, servers, what they hold, whose cells they are,
    and the instructions of their owners. Triggers on those tables write it, for whoever has read them before."""

    pk = models.CompositePrimaryKey("pool_id", "written_by")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    written_by = TransactionField(editable=False)

    def __str__(self) -> str:
        return f"transaction {self.written_by} in pool {self.pool_id}"

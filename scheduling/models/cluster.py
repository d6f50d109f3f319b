"""The cluster as it is now: pools, what their servers have, and whose cells they are.

What Django can declare is declared here. Three rules are in `migrations/sql/`, since Django cannot express them: a
lane's policy has a name, everything on a server belongs to one pool (composite foreign keys), and the cells of a server
and a resource never exceed its capacity (deferred triggers that lock the capacity row).
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
from scheduling.core.policies.astraea.rules.settings import NOTHING
from scheduling.models.transactions import TransactionField
from tenants.scoping import TenantOwned

# Names go into addresses, scenario files and results, so they are plain words.
_WORD = RegexValidator(r"^[a-z0-9]+([-_][a-z0-9]+)*\Z", "Small letters and digits, joined by single hyphens.")
# Servers have the names that their cluster gives them. Slurm's names may also have capitals, dots and underscores.
_SERVER_NAME = RegexValidator(
    r"^[A-Za-z0-9]+([-_.]+[A-Za-z0-9]+)*\Z", "Letters and digits, joined by hyphens, underscores or dots."
)


class AlonePlan(models.TextChoices):
    """How a tenant's jobs are planned in the world in which that tenant is alone."""

    KEEP = "keep"  # a job gets its schedule at home once, when it is collected, and keeps it for good
    RENEW = "renew"  # the schedule is a draft, planned anew at each boundary until the job starts there (K1 to K4)


class Pool(models.Model):
    """Servers that are sold together: one clock, one calendar, one policy per lane."""

    slug = models.CharField(max_length=40, unique=True, validators=[_WORD])
    name = models.CharField(max_length=120)
    slot_seconds = models.PositiveIntegerField()
    # Lengths of intervals in slots: the first has `first`, and they double up to `cap`. With `restart` they begin again
    # at `first` when the backlog is empty.
    clock_first = models.PositiveIntegerField()
    clock_cap = models.PositiveIntegerField()
    clock_restart = models.BooleanField()
    # The policy of each lane by name and fields, as in a scenario file. Without an instant policy that lane is closed.
    batch_policy = models.JSONField()
    instant_policy = models.JSONField(null=True, blank=True)
    epoch_at = models.DateTimeField()  # when slot 0 began; moving it would rename every slot ever sold
    # A tenant that cancels before the start gets back what is not settled, less this percentage, which the owners keep.
    cancellation_keep_percent = models.PositiveSmallIntegerField(default=0)
    # When the market's clock is silent for longer than this after the first missed slot, the slots that passed wholly
    # in the silence count as not delivered. None means that what was sold counts as delivered, however late the clock
    # is.
    outage_grace_seconds = models.PositiveIntegerField(null=True, blank=True, default=60)
    # Two limits against paying the instant lane less than a job is worth: one job takes at most this percentage of the
    # pool at once, and a job that was refused or taken back may not be tried again for this many slots.
    instant_share_percent = models.PositiveSmallIntegerField(default=100)
    instant_cooling_slots = models.PositiveIntegerField(default=0)
    # The instant lane's prices are published for this many slots from the running one on. 0 publishes none.
    posted_slots = models.PositiveSmallIntegerField(default=96)
    engine = models.CharField(max_length=20, default="local", validators=[_WORD])  # its name: it runs the jobs
    # Whether a server that the engine lost is in service again as soon as the engine has found it up for long enough.
    servers_return = models.BooleanField(default=False)
    # The plan of tenants that chose none. Pools from before this choice existed keep the plan that they had.
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
        """Return whether the pool's jobs are resized in every slot and pay for what they use."""
        return self.batch_policy.get("name") in SINGLE_SLOTS

    @property
    def parts_worth_nothing(self) -> bool:
        """Return whether an unfinished job is worth nothing in this pool, so that what a job pays without a
        place of its own is provisional (D16)."""
        return self.batch_policy.get("parts") == NOTHING

    def slot_at(self, moment: datetime) -> int:
        """Return the slot that contains the moment; it is negative before the epoch."""
        return (moment - self.epoch_at) // timedelta(seconds=self.slot_seconds)

    def slot_start(self, slot: int) -> datetime:
        return self.epoch_at + timedelta(seconds=self.slot_seconds * slot)


class ResourceKind(models.Model):
    """One resource that servers of a pool have units of: `worker` and `ps`, or several types of either, or gpu, cpu,
    memory."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="resources")
    name = models.CharField(max_length=40, validators=[_WORD])
    label = models.CharField(max_length=60)  # the name of one unit in a sentence, such as "parameter server"
    # A worker or parameter server may take none of it, or `least`, or `least` and any number of steps more.
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
    DRAINING = "draining"  # it finishes what is promised, and gets nothing new
    LOST = "lost"


class Server(models.Model):
    """One machine. It is never deleted, since old intervals name it."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="servers")
    name = models.CharField(max_length=60, validators=[_SERVER_NAME])
    hosts_workers = models.BooleanField(default=True)
    hosts_ps = models.BooleanField(default=True)
    state = models.CharField(max_length=12, choices=ServerState.choices, default=ServerState.IN_SERVICE)
    # About its last loss: the first slot that was not delivered, and the last slot that the batch lane had decided by
    # then.
    lost_from = models.BigIntegerField(null=True, blank=True)
    lost_after = models.BigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["pool", "id"]  # this is the order in which policies take "the lowest index"
        constraints = [
            models.UniqueConstraint(fields=["pool", "name"], name="server_name_once_per_pool"),
            models.UniqueConstraint(fields=["id", "pool"], name="server_with_pool"),  # target of a composite key
            models.CheckConstraint(condition=Q(hosts_workers=True) | Q(hosts_ps=True), name="server_hosts_something"),
            models.CheckConstraint(condition=Q(state__in=ServerState.values), name="server_state_known"),
        ]

    def __str__(self) -> str:
        return self.name


class ServerCapacity(models.Model):
    """How many units of one resource a server has. The row is also the lock under which its cells are counted."""

    # The pool is repeated here so that composite keys can require the same pool of the server and the resource.
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="capacities", db_index=False)
    resource = models.ForeignKey(ResourceKind, on_delete=models.PROTECT, related_name="+")
    units = models.PositiveIntegerField()

    class Meta:
        verbose_name_plural = "server capacities"
        ordering = ["server", "resource"]
        constraints = [
            models.UniqueConstraint(fields=["server", "resource"], name="capacity_once_per_resource"),
            # target of a composite key
            models.UniqueConstraint(fields=["server", "resource", "pool"], name="capacity_with_pool"),
        ]

    def __str__(self) -> str:
        return f"{self.units} {self.resource} on {self.server}"


class Cell(TenantOwned):
    """Units of one resource on one server that belong to a tenant. Units that no cell covers are the operator's."""

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
    """A transaction that changed what a pool consists of: its resources, servers, what they have, whose cells they are,
    and the instructions of their owners. Triggers on those tables write it, so that a process that read them before
    knows that they changed."""

    pk = models.CompositePrimaryKey("pool_id", "written_by")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    written_by = TransactionField(editable=False)

    def __str__(self) -> str:
        return f"transaction {self.written_by} in pool {self.pool_id}"

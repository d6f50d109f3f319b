"""The vocabulary of the core. Everything else in `scheduling.core` is a function from these values to these values.

A policy is one function, `decide(view) -> plan`, which is called at slot boundaries. A `View` is all that it may
know, a `Plan` is all that it may answer. Both are frozen, and every array in them is read-only.

Time is counted in slots. Slot s is the half-open interval [s, s + 1); a schedule that runs in [start, end) uses
slots start .. end - 1 and is complete at time `end`. Arrivals are real numbers of slots.

Axes, always in this order: (resources, tenants or owners, slots, servers). "Owners" are the tenants, in their
order, and the operator last. Amounts are per resource; a resource is anything that a server has a number of: a
pre-sized worker, a parameter server, or gpu, cpu, memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Demand = tuple[tuple[int, float], ...]  # (resource, amount) for each resource that a unit takes something of

OPERATOR = "operator"
BATCH, INSTANT = "batch", "instant"
OWN, SHARED = "own", "shared"
CENTRALIZED, DISTRIBUTED = "centralized", "distributed"
AWARDED, REJECTED, WAITING, EXPIRED = "awarded", "rejected", "waiting", "expired"
KEEP, RENEW = "keep", "renew"  # whether a tenant's plans for its own cells are kept for good, or renewed


def read_only(values: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> Any:
    """Return the values as an array that cannot be written to. A writeable array is copied first."""
    array = np.asarray(values, dtype=dtype)
    if array.flags.writeable:
        array = array.copy()
        array.setflags(write=False)
    return array


class Value(Protocol):
    """The worth of a completion, in credits, as a function of elapsed slots; it never rises with time."""

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class UnitType:
    """A type of worker, or of parameter server, that a job can use: what one unit takes and how fast it is."""

    demand: FloatArray  # (resources,)
    seconds: float  # that a worker takes to compute one mini-batch, a parameter server to apply one update
    mbps: float  # bandwidth of one unit, Mbit/s

    def __post_init__(self) -> None:
        object.__setattr__(self, "demand", read_only(self.demand))

    @cached_property
    def amounts(self) -> tuple[float, ...]:
        """The amount that a unit takes of each resource, as plain numbers."""
        return tuple(self.demand.tolist())

    @cached_property
    def named(self) -> Demand:
        """The resources that a unit takes something of, with the amounts. Every slot reads them, so they are computed
        once."""
        return tuple((resource, amount) for resource, amount in enumerate(self.amounts) if amount > 0)

    @property
    def absent(self) -> bool:
        """Whether this stands for the parameter server of a job that has none: see `no_parameter_server`."""
        return self.mbps == math.inf


def no_parameter_server(resources: int) -> UnitType:
    """Return the type that takes the place of a parameter-server type in a job that has none, so that every job runs
    on one worker type and one other. It takes no resources and no time, and its bandwidth carries any number of
    workers, so none of it is ever needed.
    """
    return UnitType(np.zeros(resources), 0.0, math.inf)


@dataclass(frozen=True, eq=False)
class Samples:
    """The same work counted in samples, for policies that need it (PD-ORS, Optimus, DL2)."""

    total: float | None = None  # samples of one epoch
    batch_size: int | None = None
    seconds: float | None = None  # that one worker takes for one sample
    internal_mbps: float | None = None  # between a worker and a parameter server on one machine
    ps_ratio: float | None = None  # workers per parameter server
    mode: str = "sync"  # or "async"
    speed: tuple[float, ...] = ()  # coefficients of Optimus' speed function
    model: str = ""  # name of the model's type, for DL2


@dataclass(frozen=True, eq=False)
class Job:
    """One training job as its tenant reported it.

    The work is epochs * chunks * minibatches mini-batches. At most `max_workers` (never more than `chunks`) run
    at once. Several worker or parameter-server types are alternatives: a job runs on one of each. A job that is made
    without parameter-server types has workers alone, which exchange gradients among themselves (all-reduce); its
    `ps_types` is then `no_parameter_server`, once.

    A new field is read in `scenario/jobs.py` (which also reads a submission of the live market), written in
    `scenario/writing.py`, and left out of stored views in `records.py` where it has its usual value. A test in
    tests/core/test_scenario_writing.py checks all fields.
    """

    number: int  # unique; numbers follow the order of submission
    name: str
    tenant: int  # index into Cluster.tenants
    arrival: float  # slots
    epochs: int
    chunks: int
    minibatches: int  # in one chunk
    worker_types: tuple[UnitType, ...]
    ps_types: tuple[UnitType, ...]
    value: Value
    gradient_mb: float = 0.0  # size of the gradients of one exchange, 10^6 bytes
    min_workers: int = 1
    max_workers: int = 1
    max_ps: int | None = None
    asked_workers: int | None = None  # that its submitter asked for; if None, a policy of fixed gangs draws a number
    lane: str = BATCH
    priority: int = 0  # larger goes first among a tenant's own jobs of one boundary
    max_price: float | None = None  # credits for the whole run
    rent: str | None = None  # overrides the tenant's rent policy
    divisible: bool = False  # it may be saved and continue later: it rents in pieces (D1)
    save_slots: float = 0.0  # slots that a save and the load after it lose
    # One gang on the same servers from its start to its end: in the instant lane (O13), and in elastic pools.
    unbroken: bool = False
    together: int | None = None  # its group: all waiting jobs of the group are bought in one interval, or none is
    samples: Samples = field(default_factory=Samples)

    def __post_init__(self) -> None:
        if not self.ps_types:
            nothing = no_parameter_server(len(self.worker_types[0].demand))
            object.__setattr__(self, "ps_types", (nothing,))

    @property
    def all_reduce(self) -> bool:
        """Whether the job has workers alone, without parameter servers."""
        return self.ps_types[0].absent

    @property
    def least_ps(self) -> int:
        """The least number of parameter servers in any gang of the job."""
        return 0 if self.all_reduce else 1

    @cached_property
    def work(self) -> int:
        """The number of mini-batches in the whole job."""
        return self.epochs * self.chunks * self.minibatches

    @cached_property
    def first_slot(self) -> int:
        """The first slot in which the job may run: its arrival, rounded up."""
        return int(np.ceil(self.arrival))


@dataclass(frozen=True, eq=False)
class Tenant:
    """A tenant, with its standing instructions for renting and for lending its units."""

    name: str
    reserve_price: FloatArray  # (resources,) the tenant's idle units are not for sale below this price
    rent: str = "auto"  # never | budget | auto
    budget: float | None = None  # credits for the whole run, when rent is "budget"
    lend: str = "lend"  # keep | lend
    plan: str = KEEP  # whether jobs collected from now on keep a floor for good, or have a draft renewed (K1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reserve_price", read_only(self.reserve_price))


@dataclass(frozen=True, eq=False)
class Cluster:
    """The machines and their owners. The operator owns what no quota covers."""

    resources: tuple[str, ...]
    servers: tuple[str, ...]
    tenants: tuple[Tenant, ...]
    slot_seconds: float
    capacity: FloatArray  # (resources, servers)
    quota: FloatArray  # (resources, tenants)
    hosts_workers: BoolArray  # (servers,)
    hosts_ps: BoolArray  # (servers,)
    cells: FloatArray | None = None  # (resources, tenants, servers) home units; if None, quotas are mere counts
    # The smallest amount that can be paid, in credits. A job pays at least this for a slot in which it takes units of
    # another tenant, or any units that have a price; where prices are per unit, each unit costs at least this. With 0
    # there is no smallest amount.
    least_payment: float = 0.0

    def __post_init__(self) -> None:
        shapes = {
            "capacity": (len(self.resources), len(self.servers)),
            "quota": (len(self.resources), len(self.tenants)),
            "cells": (len(self.resources), len(self.tenants), len(self.servers)),
            "hosts_workers": (len(self.servers),),
            "hosts_ps": (len(self.servers),),
        }
        for name, shape in shapes.items():
            if (array := getattr(self, name)) is not None:
                dtype = np.bool_ if name.startswith("hosts") else np.float64
                array = read_only(array, dtype)
                if array.shape != shape:
                    raise ValueError(f"Cluster.{name} has shape {array.shape}, expected {shape}")
                object.__setattr__(self, name, array)

    @property
    def owners(self) -> tuple[str, ...]:
        """The tenants' names and the operator's, in the order of every owners axis."""
        return (*(tenant.name for tenant in self.tenants), OPERATOR)

    @property
    def total(self) -> FloatArray:
        """The units in the whole cluster, (resources,)."""
        return self.capacity.sum(axis=1)

    @property
    def shares(self) -> FloatArray:
        """The units that each owner has, (resources, owners); the operator owns what the quotas leave."""
        return np.column_stack([self.quota, self.total - self.quota.sum(axis=1)])

    @property
    def operator_cells(self) -> FloatArray:
        """The units on each server that are no tenant's home cell, (resources, servers)."""
        return self.capacity if self.cells is None else self.capacity - self.cells.sum(axis=1)

    @property
    def closed(self) -> npt.NDArray[np.intp]:
        """The indexes of servers that host nothing new: nobody may use what is idle there, and it is not for sale."""
        return np.flatnonzero(~(self.hosts_workers | self.hosts_ps))


@dataclass(frozen=True, slots=True)
class Allocation:
    """The numbers of workers and parameter servers that a job has on one server during [start, end)."""

    server: int
    start: int
    end: int
    workers: int
    ps: int


@dataclass(frozen=True)
class Reason:
    """The reason why a job does not run: one of the market's codes, and the numbers that belong to it."""

    code: str
    numbers: Mapping[str, float | int | str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Floor:
    """What a job would have got if its owner were alone: its schedule on home cells, and that schedule's value.

    A floor is given once and kept for good, unless it is a draft: a projection, which each boundary may replace until
    the job starts in the world in which its owner is alone, or is dropped there (K1 to K3). A job without a schedule of
    positive value has the value 0 and no allocation.
    """

    job: int
    value: float = 0.0
    start: int = 0
    end: int = 0
    allocation: tuple[Allocation, ...] = ()
    worker_type: int = 0
    ps_type: int = 0
    draft: bool = False


@dataclass(frozen=True, eq=False)
class Supply:
    """What each owner sells in the slots of a window: `units` (resources, owners, slots), from slot `start` on."""

    start: int
    units: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", read_only(self.units))

    @cached_property
    def total(self) -> FloatArray:
        """What all owners sell, (resources, slots)."""
        return np.asarray(self.units.sum(axis=1))

    @cached_property
    def adds_exactly(self) -> bool:
        """Whether sums of the units are the same to the bit in whichever order they are added: all of them are
        multiples of 1 / 2**20, and none is large."""
        parts = self.units * 2.0**20
        return bool((parts == np.rint(parts)).all()) and bool(self.units.max(initial=0.0) < 2**20)

    @cached_property
    def contributions(self) -> FloatArray:
        """Each owner's part of one, (resources, owners, slots): 0 where nobody sells."""
        total = self.total[:, None, :]
        return np.divide(self.units, total, out=np.zeros_like(self.units), where=total > 0)


@dataclass(frozen=True, eq=False, slots=True)
class Split:
    """How payouts follow from a supply: in each slot, what a booking pays for a resource goes to the owners by what
    they sell of it. `costs` (resources, slots) begin at slot `start`. The part of `payer` is not charged."""

    supply: Supply
    start: int
    costs: FloatArray
    payer: int | None  # index among the owners; None: every part is charged

    def __post_init__(self) -> None:
        object.__setattr__(self, "costs", read_only(self.costs))

    def slot_payouts(self) -> FloatArray:
        """Return the payouts (slots, owners) in credits: for each slot and owner the sum over resources of cost times
        contribution. Products are added one resource after the other, so the sums are the same to the bit everywhere.
        """
        first = self.start - self.supply.start
        parts = self.supply.contributions[:, :, first : first + self.costs.shape[1]]
        payouts = np.zeros((self.costs.shape[1], parts.shape[1]))
        for cost, part in zip(self.costs, parts, strict=True):
            payouts += cost[:, None] * part.T
        if self.payer is not None:
            payouts[:, self.payer] = 0.0
        return payouts


@dataclass(frozen=True, eq=False, slots=True)
class Booking:
    """The resources given to a job during [start, end), and the terms on which it has them.

    A booking whose `work` covers what the job has left is for its whole life; a smaller one leaves the job
    waiting for the rest. Amounts are credits. `payouts` sum to `paid`; `slot_payouts` sum to `payouts`.
    """

    job: int
    start: int
    end: int
    allocation: tuple[Allocation, ...]
    work: float  # mini-batches trained under this booking
    workers: int  # the largest number used at once
    ps: int
    worker_type: int = 0
    ps_type: int = 0
    phase: str | None = None  # OWN | SHARED where the policy distinguishes them
    placement: str | None = None  # CENTRALIZED | DISTRIBUTED
    value: float = 0.0  # what the policy maximised
    ideal: float = 0.0  # the same value, counted from the start of the interval instead of the arrival
    floor: float = 0.0
    cost: float = 0.0  # gross price of the schedule
    paid: float = 0.0  # what is charged, the dividend included
    dividend: float = 0.0  # the part of `paid` that is a share of what renting gained, and not a price
    shadow_cost: float = 0.0  # a price that steered the choice and is not charged
    provisional: bool = False  # due only once its job is done: no place at home ensures that it ever will be (D16)
    payouts: FloatArray | None = None  # (owners,); None if nothing is paid
    slot_payouts: FloatArray | None = None  # (end - start, owners)
    split: Split | None = None  # from which `slot_payouts` follow, if from one

    def __post_init__(self) -> None:
        if self.payouts is not None:
            object.__setattr__(self, "payouts", read_only(self.payouts))
        if self.slot_payouts is not None:
            object.__setattr__(self, "slot_payouts", read_only(self.slot_payouts))


@dataclass(frozen=True, eq=False)
class Settlement:
    """The end of an open rent: its job has started in the world in which its owner is alone, or was dropped there; or
    what was paid was provisional, and the job is done, or never will be (D16).

    Where being alone would have been better, the difference is refunded, and the owners give it back in proportion to
    what each received.
    """

    job: int
    alone: float  # credits that the job would have been worth alone
    refund: float  # credits
    reversal: FloatArray  # (owners,) credits; they sum to the refund
    worth: float | None = None  # if the job rents in pieces, the credits that it is worth as it stands; None: its value

    def __post_init__(self) -> None:
        object.__setattr__(self, "reversal", read_only(self.reversal))


@dataclass(frozen=True)
class Refusal:
    """A job that gets nothing now. A job that is WAITING is decided again; REJECTED and EXPIRED are final."""

    job: int
    reason: Reason
    state: str = WAITING


@dataclass(frozen=True, eq=False)
class Window:
    """The prices and contributions of a published batch plan over the slots [start, end); they never change."""

    start: int
    end: int
    prices: FloatArray  # (resources, slots) posted price per unit and slot once the plan is made
    idle: FloatArray  # (resources, owners, slots) units that each owner had for sale when renting began
    rented: FloatArray  # (resources, slots) units sold by the plan
    kappa: float | None = None  # if the price was searched: the posted multiple of the usual value of a unit-slot
    scores: tuple[float, ...] = ()  # one score for each multiple that was tried, in the order of trying (K8)

    def __post_init__(self) -> None:
        for name in ("prices", "idle", "rented"):
            object.__setattr__(self, name, read_only(getattr(self, name)))


@dataclass(frozen=True)
class Resale:
    """Units on a server that an owner gave up. It is paid for them if they are sold again in this slot."""

    server: int
    resource: int
    slot: int
    owner: int  # index into the owners
    share: float  # the owner's part of everything sold there, for all units for sale on one server are alike


@dataclass(frozen=True, eq=False)
class View:
    """Everything a policy may know when it decides at the boundary before slot `slot`.

    `waiting` holds the jobs with work left to book that may run in `slot` or earlier (first_slot <= slot), in
    order of (arrival, number). `occupied` begins at `slot`; `tail` holds for all slots beyond its last one.
    """

    slot: int
    horizon: int  # no decision is requested at this slot or later
    cluster: Cluster
    waiting: tuple[Job, ...]
    remaining: FloatArray  # (waiting,) mini-batches not yet booked
    occupied: FloatArray  # (resources, slots, servers)
    active: tuple[Booking, ...] = ()  # bookings of any lane that end after `slot`
    jobs: Mapping[int, Job] = field(default_factory=dict)  # by number; at least those that the other fields name
    # The floors by job; at least those of waiting jobs, those that have not ended, and all drafts.
    floors: Mapping[int, Floor] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()  # published windows that end after `slot`
    tail: FloatArray | None = None  # (resources, servers) occupied in every slot beyond `occupied`; None if nothing is
    spent: FloatArray = field(default_factory=lambda: np.zeros(0))  # (tenants,) credits paid for rent so far
    # By waiting job: credits that it paid for earlier slots. In an elastic pool of the live market every job that has
    # begun is in it, also one whose slots were free.
    paid: Mapping[int, float] = field(default_factory=dict)
    # By waiting job: credits that it paid, less what came back, for whole runs that the platform lost. They count
    # toward its highest price. No promise counts them, as it is about what the job gets from now on. A simulation has
    # none.
    paid_for_lost: Mapping[int, float] = field(default_factory=dict)
    # (tenants,) credits that a tenant can pay now, whatever its instructions allow; None means no limit.
    funds: FloatArray | None = None
    resale: tuple[Resale, ...] = ()
    memory: Mapping[str, Any] = field(default_factory=dict)  # the memory of the policy's last plan
    frontier: int = 0  # the policy's earlier plans promised to touch no slot before this one
    # Rents whose jobs have neither started nor been dropped in the world in which their owner is alone (K4), or whose
    # payment is provisional (D16).
    open_rents: tuple[Booking, ...] = ()
    # Jobs of open rents that ended elsewhere and were not done, so that no policy refuses them (D16). A simulation has
    # none.
    undone: frozenset[int] = frozenset()
    # By waiting job that was begun: credits that the done part is worth to its owner, where that was stored (D4).
    worths: Mapping[int, float] = field(default_factory=dict)
    # If one job is answered at once: what nobody holds of its own tenant's cells, (resources, slots, servers), slot by
    # slot from `slot` on, in the order of the cluster's servers. If None, the tenant's cells are for sale like all
    # others.
    own_idle: FloatArray | None = None

    def __post_init__(self) -> None:
        spent = self.spent if len(self.spent) else np.zeros(len(self.cluster.tenants))
        object.__setattr__(self, "spent", read_only(spent))
        object.__setattr__(self, "remaining", read_only(self.remaining))
        object.__setattr__(self, "occupied", read_only(self.occupied))
        for name in ("tail", "funds", "own_idle"):
            if (array := getattr(self, name)) is not None:
                object.__setattr__(self, name, read_only(array))
        # Not copied: a view is made at every slot of long runs.
        for name in ("jobs", "floors", "memory", "paid", "paid_for_lost", "worths"):
            object.__setattr__(self, name, MappingProxyType(getattr(self, name)))


@dataclass(frozen=True)
class Plan:
    """A policy's whole answer. `memory` is plain JSON; the next view holds it unchanged.

    `frontier` is a promise to the lane that sells what the plan leaves: no later plan of this policy touches a slot
    before it. None promises nothing beyond the slot that was decided.
    """

    bookings: Sequence[Booking] = ()
    refusals: Sequence[Refusal] = ()
    floors: Sequence[Floor] = ()  # those newly given, and drafts that changed, became a start or were dropped
    windows: Sequence[Window] = ()  # those newly published
    memory: Mapping[str, Any] | None = None  # None keeps the memory as it was
    frontier: int | None = None
    smaller: Mapping[int, Reason] = field(default_factory=dict)  # by booked job: why it is smaller than it could be
    settlements: Sequence[Settlement] = ()  # one for each open rent that is over
    worths: Mapping[int, float | None] = field(default_factory=dict)  # by job that was begun: its worth, if it changed


class Policy(Protocol):
    """A policy: a frozen dataclass whose fields are its public settings (plain JSON). It keeps no memory of its own:
    the same view gives the same plan."""

    name: ClassVar[str]

    def decide(self, view: View) -> Plan: ...


# The protocols below are what a policy can do beyond deciding. Callers test for the ability, never for the class of a
# policy.


@runtime_checkable
class PostsPrices(Protocol):
    """A policy whose prices are known before any job requests units."""

    def posted(self, view: View, slots: int) -> FloatArray:
        """Return the credits for one unit more, (resources, `slots` slots from the view's on); NaN where none is for
        sale."""
        ...


@runtime_checkable
class AsksAnother(Protocol):
    """A policy that lets another policy decide, which its settings name."""

    @property
    def policy(self) -> Policy: ...


@runtime_checkable
class HeedsReports(Protocol):
    """A policy that decides by what running programs report. That is safe with it, since a job gets no more by
    reporting that it has less to go."""

    @property
    def heeds_reports(self) -> bool:
        """Whether the policy decides by reports with its present settings."""
        ...

    def heeded(self, job: Job, rest: float, reported: float) -> float:
        """Return the mini-batches to go that the policy decides by. The job has `rest` as declared and `reported` as
        its program reports; with the result it is given no more than with those declared."""
        ...


@runtime_checkable
class SettlesAtTheEnd(Protocol):
    """A policy that leaves something to settle when a run is cut."""

    def at_the_end(self, view: View) -> Plan:
        """Return the settlements and worths at the slot at which the run is cut; nothing is booked any more."""
        ...


class OneMore(Protocol):
    """A decision with one more waiting job, the last one, which can be decided in one form after another."""

    @property
    def view(self) -> View: ...

    def plan_for(self, job: Job) -> Plan:
        """Return what the plan would contain about this job, and nothing about others."""
        ...

    def following(self, job: Job, promised: Sequence[Floor]) -> View | None:
        """Return the view of the next boundary if no other job came and this one got nothing now, or None if that is
        unknown. `promised` is the job's own floor, if it was given now."""
        ...


@runtime_checkable
class HasWindows(Protocol):
    """A policy that decides at boundaries, for windows of slots, and can tell what it would decide."""

    @property
    def longest_window(self) -> int | None:
        """The number of slots of the longest window that there will ever be; None if windows grow for ever."""
        ...

    def between_boundaries(self, view: View) -> Plan | None:
        """Return the plan of a slot at which nothing is dealt out, or None at a boundary."""
        ...

    def next_boundary(self, view: View) -> tuple[int, Mapping[str, Any]] | None:
        """Return (slot, memory) of the boundary after the view's slot, with the memory that the view there is to have;
        None if the slot is a boundary itself, or none follows."""
        ...

    def frontier_after(self, view: View) -> int | None:
        """Return the first slot that a turn after the one at the view's slot may touch; None if nothing is promised. Of
        the waiting jobs, it depends only on the first."""
        ...

    def fits_a_window(self, cluster: Cluster, job: Job) -> bool:
        """Return whether a decision may serve a new job, whenever it arrives and whatever it is worth."""
        ...

    def never_serves(self, cluster: Cluster, job: Job, slot: int) -> Reason | None:
        """Return why no decision from `slot` on could ever serve a new job, and what would help; None if one could."""
        ...

    def most_together(self, cluster: Cluster, job: Job) -> int | None:
        """Return a number of jobs like this one, more of which no single decision will ever serve; None where that
        cannot be known. Fewer may be too many as well."""
        ...

    def one_more(self, view: View) -> OneMore:
        """Return the decision at the view's slot; the last of its waiting jobs is the one in question."""
        ...

    def last_chances(self, view: View, plan: Plan) -> Mapping[int, Reason]:
        """Return the jobs that the plan outbids and that will be worth nothing at the next boundary, with what outbid
        each."""
        ...

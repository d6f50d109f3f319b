"""The vocabulary of the core. Everything else in `scheduling.core` is a function from these values to these values.

One question, one answer: a policy is asked `decide(view) -> plan` at slot boundaries. A `View` is all it may
know, a `Plan` is all it may say. Both are frozen, and every array in them is read-only.

Time is counted in slots. Slot s is the half-open interval [s, s + 1); a schedule that runs in [start, end) uses
slots start .. end - 1 and is complete at time `end`. Arrivals are real numbers of slots.

Axes, always in this order: (resources, tenants or owners, slots, servers). "Owners" are the tenants, in their
order, and the operator last. Amounts are per resource; a resource is whatever a server has a number of: a
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
Demand = tuple[tuple[int, float], ...]  # of the resources that a unit takes something of, and how much

OPERATOR = "operator"
BATCH, INSTANT = "batch", "instant"
OWN, SHARED = "own", "shared"
CENTRALIZED, DISTRIBUTED = "centralized", "distributed"
AWARDED, REJECTED, WAITING, EXPIRED = "awarded", "rejected", "waiting", "expired"
KEEP, RENEW = "keep", "renew"  # what becomes of a tenant's plans for its own cells


def read_only(values: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> Any:
    """The values as an array nobody can write to. An array that can be written to is copied first."""
    array = np.asarray(values, dtype=dtype)
    if array.flags.writeable:
        array = array.copy()
        array.setflags(write=False)
    return array


class Value(Protocol):
    """What a completion is worth, in credits, as a function of elapsed slots; it never rises with time."""

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class UnitType:
    """A type of worker, or of parameter server, that a job can use: what one unit takes and how fast it is."""

    demand: FloatArray  # (resources,)
    seconds: float  # a worker: to compute one mini-batch; a parameter server: to apply one update
    mbps: float  # bandwidth one unit has, Mbit/s

    def __post_init__(self) -> None:
        object.__setattr__(self, "demand", read_only(self.demand))

    @cached_property
    def amounts(self) -> tuple[float, ...]:
        """What a unit takes of each resource, as plain numbers."""
        return tuple(self.demand.tolist())

    @cached_property
    def named(self) -> Demand:
        """The resources that a unit takes something of, and how much: looked at in every slot, so found out once."""
        return tuple((resource, amount) for resource, amount in enumerate(self.amounts) if amount > 0)

    @property
    def absent(self) -> bool:
        """Whether this stands for the parameter server of a job that has none: see `no_parameter_server`."""
        return self.mbps == math.inf


def no_parameter_server(resources: int) -> UnitType:
    """What stands in place of a parameter-server type where a job has none, so that every job runs on one worker type
    and one other. It takes nothing and no time, and its bandwidth carries any number of workers: none is ever needed.
    """
    return UnitType(np.zeros(resources), 0.0, math.inf)


@dataclass(frozen=True, eq=False)
class Samples:
    """The same work counted in samples, for policies that need it (PD-ORS, Optimus, DL2)."""

    total: float | None = None  # samples of one epoch
    batch_size: int | None = None
    seconds: float | None = None  # one worker, one sample
    internal_mbps: float | None = None  # between a worker and a parameter server on one machine
    ps_ratio: float | None = None  # workers per parameter server
    mode: str = "sync"  # or "async"
    speed: tuple[float, ...] = ()  # coefficients of Optimus' speed function
    model: str = ""  # name of the model's type, for DL2


@dataclass(frozen=True, eq=False)
class Job:
    """One training job as its tenant reported it.

    The work is epochs * chunks * minibatches mini-batches. At most `max_workers` (never more than `chunks`) run
    at once. Several worker or parameter-server types are alternatives: a job runs on one of each. One that is made
    with no parameter-server types has workers alone, which exchange gradients among themselves (all-reduce); in
    `ps_types` then stands `no_parameter_server`, once.

    A new field is read in `scenario/jobs.py` (there a submission of the live market is read, too), written in
    `scenario/writing.py`, and left out of stored views in `records.py` where it says what is usual. A test of
    tests/core/test_scenario_writing.py goes over all fields.
    """

    number: int  # unique; the order of submission
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
    asked_workers: int | None = None  # that its submitter asked for; None: a policy of fixed gangs draws
    lane: str = BATCH
    priority: int = 0  # larger goes first among a tenant's own jobs of one boundary
    max_price: float | None = None  # credits for the whole run
    rent: str | None = None  # overrides the tenant's rent policy
    divisible: bool = False  # may be saved and go on later: it rents in pieces (D1)
    save_slots: float = 0.0  # slots that a save and the load after it lose
    together: int | None = None  # its group: all jobs of it that wait are bought in one interval, or none is
    samples: Samples = field(default_factory=Samples)

    def __post_init__(self) -> None:
        if not self.ps_types:
            nothing = no_parameter_server(len(self.worker_types[0].demand))
            object.__setattr__(self, "ps_types", (nothing,))

    @property
    def all_reduce(self) -> bool:
        """Whether it has workers alone."""
        return self.ps_types[0].absent

    @property
    def least_ps(self) -> int:
        """Parameter servers that any gang of the job has at least."""
        return 0 if self.all_reduce else 1

    @cached_property
    def work(self) -> int:
        """Mini-batches in the whole job."""
        return self.epochs * self.chunks * self.minibatches

    @cached_property
    def first_slot(self) -> int:
        """The first slot in which it may run: the arrival, rounded up."""
        return int(np.ceil(self.arrival))


@dataclass(frozen=True, eq=False)
class Tenant:
    """An owner's standing instructions."""

    name: str
    reserve_price: FloatArray  # (resources,) below it the tenant's idle units are not for sale
    rent: str = "auto"  # never | budget | auto
    budget: float | None = None  # credits for the whole run, when rent is "budget"
    lend: str = "lend"  # keep | lend
    plan: str = KEEP  # of jobs collected from now on: a floor is kept for good, or a draft is renewed (K1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reserve_price", read_only(self.reserve_price))


@dataclass(frozen=True, eq=False)
class Cluster:
    """The machines and who owns them. What no quota covers is the operator's."""

    resources: tuple[str, ...]
    servers: tuple[str, ...]
    tenants: tuple[Tenant, ...]
    slot_seconds: float
    capacity: FloatArray  # (resources, servers)
    quota: FloatArray  # (resources, tenants)
    hosts_workers: BoolArray  # (servers,)
    hosts_ps: BoolArray  # (servers,)
    cells: FloatArray | None = None  # (resources, tenants, servers) home units; None: quotas are mere counts
    # Credits: the smallest amount that can be paid. A job pays no less for a slot in which it takes units of another
    # tenant, or any that have a price; where prices are those of units, each of them costs that much. 0: no least.
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
        """(resources,) units in the whole cluster."""
        return self.capacity.sum(axis=1)

    @property
    def shares(self) -> FloatArray:
        """(resources, owners) units each owner has; the operator owns the rest."""
        return np.column_stack([self.quota, self.total - self.quota.sum(axis=1)])

    @property
    def operator_cells(self) -> FloatArray:
        """(resources, servers) units on each server that are nobody's home cell."""
        return self.capacity if self.cells is None else self.capacity - self.cells.sum(axis=1)

    @property
    def closed(self) -> npt.NDArray[np.intp]:
        """Indexes of servers that host nothing new: what is idle there is nobody's to use and not for sale."""
        return np.flatnonzero(~(self.hosts_workers | self.hosts_ps))


@dataclass(frozen=True, slots=True)
class Allocation:
    """So many workers and parameter servers of a job on one server during [start, end)."""

    server: int
    start: int
    end: int
    workers: int
    ps: int


@dataclass(frozen=True)
class Reason:
    """Why a job does not run: a code of the market's one vocabulary, and its numbers."""

    code: str
    numbers: Mapping[str, float | int | str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Floor:
    """What a job would have got if its owner were alone: its schedule on home cells, and that schedule's value.

    Given once, kept for good, unless it is a draft: a projection, which each boundary may replace until the job starts
    in the world in which its owner is alone, or is dropped there (K1 to K3). A job without a schedule of positive value
    has the value 0 and no allocation.
    """

    job: int
    value: float = 0.0
    start: int = 0
    end: int = 0
    allocation: tuple[Allocation, ...] = ()
    worker_type: int = 0
    ps_type: int = 0
    draft: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Booking:
    """Resources given to a job during [start, end), and the terms on which they are.

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
    phase: str | None = None  # OWN | SHARED where the policy makes the difference
    placement: str | None = None  # CENTRALIZED | DISTRIBUTED
    value: float = 0.0  # what the policy maximised
    ideal: float = 0.0  # value counted from the start of the interval instead of the arrival
    floor: float = 0.0
    cost: float = 0.0  # gross price of the schedule
    paid: float = 0.0  # what is charged, the dividend included
    dividend: float = 0.0  # the part of it that is a share of what renting gained, and no price
    shadow_cost: float = 0.0  # a price that steered the choice and is not charged
    provisional: bool = False  # due only once its job is done: nothing at home says that it ever will be (D16)
    payouts: FloatArray | None = None  # (owners,); None: nothing is paid
    slot_payouts: FloatArray | None = None  # (end - start, owners)

    def __post_init__(self) -> None:
        if self.payouts is not None:
            object.__setattr__(self, "payouts", read_only(self.payouts))
        if self.slot_payouts is not None:
            object.__setattr__(self, "slot_payouts", read_only(self.slot_payouts))


@dataclass(frozen=True, eq=False)
class Settlement:
    """The end of an open rent: its job has started in the world in which its owner is alone, or was dropped there; or
    what was paid was provisional, and the job is done, or never will be (D16).

    Where being alone would have been better, the difference is refunded, and the owners give it back by what each
    received.
    """

    job: int
    alone: float  # credits: what the job would have been worth alone
    refund: float  # credits
    reversal: FloatArray  # (owners,) credits; they sum to the refund
    worth: float | None = None  # of a job that rents in pieces: credits that it is worth as it stands; else its value

    def __post_init__(self) -> None:
        object.__setattr__(self, "reversal", read_only(self.reversal))


@dataclass(frozen=True)
class Refusal:
    """A job that gets nothing now. WAITING is asked again; REJECTED and EXPIRED are final."""

    job: int
    reason: Reason
    state: str = WAITING


@dataclass(frozen=True, eq=False)
class Window:
    """A published batch plan's prices and contributions over the slots [start, end); frozen once published."""

    start: int
    end: int
    prices: FloatArray  # (resources, slots) posted price per unit and slot once the plan is made
    idle: FloatArray  # (resources, owners, slots) units each owner had for sale when renting began
    rented: FloatArray  # (resources, slots) units sold by the plan
    kappa: float | None = None  # the multiple of the usual value of a unit-slot that was posted, where it was searched
    scores: tuple[float, ...] = ()  # of each multiple that was tried, in their order (K8)

    def __post_init__(self) -> None:
        for name in ("prices", "idle", "rented"):
            object.__setattr__(self, name, read_only(getattr(self, name)))


@dataclass(frozen=True)
class Resale:
    """Units on a server that somebody gave up and is paid for if they are sold again in this slot."""

    server: int
    resource: int
    slot: int
    owner: int  # index into the owners
    share: float  # of whatever is sold there: all units for sale on one server are alike


@dataclass(frozen=True, eq=False)
class View:
    """Everything a policy may know when it decides at the boundary before slot `slot`.

    `waiting` holds the jobs with work left to book that may run in `slot` or earlier (first_slot <= slot), in
    order of (arrival, number). `occupied` begins at `slot`; beyond its last slot `tail` is.
    """

    slot: int
    horizon: int  # no decision is asked for at this slot or later
    cluster: Cluster
    waiting: tuple[Job, ...]
    remaining: FloatArray  # (waiting,) mini-batches not yet booked
    occupied: FloatArray  # (resources, slots, servers)
    active: tuple[Booking, ...] = ()  # bookings of any lane that end after `slot`
    jobs: Mapping[int, Job] = field(default_factory=dict)  # by number; at least those that the other fields name
    # By job; at least those of waiting jobs, those to end, and all drafts.
    floors: Mapping[int, Floor] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()  # published windows that end after `slot`
    tail: FloatArray | None = None  # (resources, servers) occupied in every slot beyond `occupied`; None: nothing
    spent: FloatArray = field(default_factory=lambda: np.zeros(0))  # (tenants,) credits paid for rent so far
    paid: Mapping[int, float] = field(default_factory=dict)  # by waiting job, credits for earlier slots: what it paid
    funds: FloatArray | None = None  # (tenants,) credits a tenant can pay now, whatever it allows; None: no limit
    resale: tuple[Resale, ...] = ()
    memory: Mapping[str, Any] = field(default_factory=dict)  # what the policy's last plan asked to be told
    frontier: int = 0  # the promise of its earlier plans: it touches no slot before this one
    # Rented, and the job has not yet started alone nor been dropped there (K4); or what was paid is provisional (D16).
    open_rents: tuple[Booking, ...] = ()
    # Jobs of open rents that ended elsewhere and were not done, so that no policy refuses them (D16). A simulation has
    # none.
    undone: frozenset[int] = frozenset()
    # By waiting job that was begun: credits that what is done of it is worth to its owner, where that was stored (D4).
    worths: Mapping[int, float] = field(default_factory=dict)
    # Where one job is answered at once: what of its own tenant's cells nobody holds, slot by slot from `slot` on, in
    # the places of the cluster (resources, slots, servers). None: the tenant's cells are for sale like all others.
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
        for name in ("jobs", "floors", "memory", "paid", "worths"):
            object.__setattr__(self, name, MappingProxyType(getattr(self, name)))


@dataclass(frozen=True)
class Plan:
    """A policy's whole answer. `memory` is plain JSON; it comes back in the next view, unchanged.

    `frontier` is a promise to whoever sells what the plan leaves: no later plan of this policy touches a slot
    before it. None promises nothing beyond the slot that was decided.
    """

    bookings: Sequence[Booking] = ()
    refusals: Sequence[Refusal] = ()
    floors: Sequence[Floor] = ()  # those newly given, and drafts that changed, became a start or were dropped
    windows: Sequence[Window] = ()  # those newly published
    memory: Mapping[str, Any] | None = None  # None: keep what there was
    frontier: int | None = None
    smaller: Mapping[int, Reason] = field(default_factory=dict)  # by booked job: why it is smaller than it could be
    settlements: Sequence[Settlement] = ()  # of open rents: each that is over
    worths: Mapping[int, float | None] = field(default_factory=dict)  # by job that was begun, where that changed


class Policy(Protocol):
    """A frozen dataclass whose fields are its public settings (plain JSON). It keeps no memory of its own:
    the same view gives the same plan."""

    name: ClassVar[str]

    def decide(self, view: View) -> Plan: ...


# What a policy can do beyond deciding. Whoever wants it asks for the ability, never for the class of a policy.


@runtime_checkable
class PostsPrices(Protocol):
    """A policy whose prices are known before anybody asks for anything."""

    def posted(self, view: View, slots: int) -> FloatArray:
        """(resources, slots from the view's) credits for one unit more; not a number where none is for sale."""
        ...


@runtime_checkable
class AsksAnother(Protocol):
    """A policy that has another one decide, and whose settings say which."""

    @property
    def policy(self) -> Policy: ...


@runtime_checkable
class HeedsReports(Protocol):
    """A policy that decides by what running programs report, since who has less to go is given no more by it."""

    @property
    def heeds_reports(self) -> bool:
        """Whether that holds with its settings."""
        ...

    def heeded(self, job: Job, rest: float, reported: float) -> float:
        """Mini-batches to go that it is to decide by, where the job has `rest` as declared and `reported` as its
        program says; so many that it is given no more than with those declared."""
        ...


@runtime_checkable
class SettlesAtTheEnd(Protocol):
    """A policy that leaves something to settle when a run is cut."""

    def at_the_end(self, view: View) -> Plan:
        """Settlements and worths at the slot at which the run is cut: nothing is booked any more."""
        ...


class OneMore(Protocol):
    """One decision with one waiting job more, the last, which may be asked about in any form."""

    @property
    def view(self) -> View: ...

    def plan_for(self, job: Job) -> Plan:
        """What the plan would say about the job: nothing about others."""
        ...

    def following(self, job: Job, promised: Sequence[Floor]) -> View | None:
        """The view of the next boundary if nobody came and the job got nothing now. None: unknown. `promised`: its own
        floor, if it was given now."""
        ...


@runtime_checkable
class HasWindows(Protocol):
    """A policy that decides at boundaries, for windows of slots, and can say what it would decide."""

    @property
    def longest_window(self) -> int | None:
        """Slots of the longest window that there will ever be; None: windows grow for ever."""
        ...

    def between_boundaries(self, view: View) -> Plan | None:
        """The plan of a slot at which nothing is dealt out; None at a boundary."""
        ...

    def next_boundary(self, view: View) -> tuple[int, Mapping[str, Any]] | None:
        """(slot, what the policy is to be told there) of the boundary after the view's slot; None where the slot is one
        itself, or none follows."""
        ...

    def fits_a_window(self, cluster: Cluster, job: Job) -> bool:
        """Whether a decision may serve a new job, whenever that comes and whatever it is worth."""
        ...

    def never_serves(self, cluster: Cluster, job: Job, slot: int) -> Reason | None:
        """Why no decision from `slot` on could ever serve a new job, and what would help; None where one could."""
        ...

    def one_more(self, view: View) -> OneMore:
        """The decision at the view's slot, of whose waiting jobs the last is the one in question."""
        ...

    def last_chances(self, view: View, plan: Plan) -> Mapping[int, Reason]:
        """Jobs that the plan outbids, and that the next boundary will find worth nothing: by job, what outbid them."""
        ...

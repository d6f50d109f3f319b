"""The answers, as the published interface describes them. They are dictionaries, so that what a newer server adds is
not lost.

Credits are decimal texts with six digits ("12.500000"); `decimal.Decimal` reads them exactly. Times are UTC.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Lane = Literal["batch", "instant"]
OVER = frozenset({"finished", "rejected", "expired", "cancelled", "failed", "stopped"})  # states that no job leaves
FINISHED, REJECTED = "finished", "rejected"


class Reason(TypedDict):
    """Why a job is where it is. `help` is a sentence, empty where nothing is to be done. docs/guide/reasons.md has
    every code."""

    code: str
    numbers: dict[str, Any]
    sentence: str
    help: str


class ArrayOfJob(TypedDict):
    """The array of a job. `index` is the job's index in it, `jobs` how many members it has, and `states` how many of
    them are in each."""

    id: int
    name: str
    index: int
    jobs: int
    states: dict[str, int]
    price: str


class JobArray(TypedDict):
    id: int
    name: str
    pool: str
    first_job: int
    jobs: int
    indexes: list[int]
    together: bool
    states: dict[str, int]
    price: str
    submitted_at: str
    submitted_by: str | None


class Job(TypedDict):
    id: int
    name: str
    pool: str
    lane: Lane
    state: str
    array: ArrayOfJob | None
    phase: str
    payer: str
    price: str | None
    hold: str
    reason: Reason
    after: list[int]
    after_arrays: list[int]
    attempt: int
    workers: int
    parameter_servers: int
    start_slot: int | None
    end_slot: int | None
    starts_at: str | None
    ends_at: str | None
    submitted_at: str
    submitted_by: str | None
    ended_at: str | None


class JobWithSpec(Job):
    spec: dict[str, Any]


class ScriptLine(TypedDict):
    line: int
    says: str
    option: str
    verdict: str
    sentence: str


class Parsed(TypedDict):
    how: str
    name: str
    spec: dict[str, Any]
    begin: str | None
    after: list[int]
    after_arrays: list[int]
    indexes: list[int]
    lines: list[ScriptLine]
    program: dict[str, Any] | None


class Description(TypedDict):
    how: str
    said: dict[str, Any]
    lines: list[ScriptLine]


class Moved(TypedDict):
    interval: int
    start_slot: int | None
    starts_at: str | None
    why: str
    jobs: list[int]
    sentence: str


class Held(TypedDict):
    """How projections held. `later_by` is in slots: half of the jobs that started later were late by at most that."""

    projections: int
    by_then: int
    later: int
    later_by: float | None
    not_started: int


class Projection(TypedDict):
    start_slot: int
    starts_at: str
    moved: Moved | None
    mine: Held
    pool: Held


class Explanation(TypedDict):
    """Why a job is where it is. Servers from before there was a `projection` leave it out."""

    id: int
    state: str
    lane: Lane
    price: str | None
    reason: Reason
    starts_at: str | None
    ends_at: str | None
    projection: Projection | None


class Piece(TypedDict):
    start_slot: int
    end_slot: int
    starts_at: str
    ends_at: str
    state: str
    at_home: bool
    lost: bool
    percent: float
    saving_slots: float
    paid: str


class Pieces(TypedDict):
    """The pieces of a job that rents in pieces. `percent` is the part of its work that is done or booked."""

    pieces: list[Piece]
    percent: float
    paid: str
    worth: str | None


class BulkJob(TypedDict):
    id: int
    name: str
    state: str


class CancelOutcome(TypedDict):
    id: int
    cancelled: bool
    code: str
    detail: str


class Payee(TypedDict):
    payee: str
    amount: str


class Course(TypedDict):
    """Of a job that would be begun in pieces: the part of its work that the first one does, and a guess at the rest."""

    share: float
    pieces: int
    end_slot: int
    price: str


class Terms(TypedDict):
    admitted: bool
    reason: Reason | None
    phase: str | None
    start_slot: int | None
    end_slot: int | None
    starts_at: str | None
    ends_at: str | None
    workers: int
    price: str
    own_part: str
    net_price: str
    worth: str
    payees: list[Payee]
    course: Course | None


class Estimate(TypedDict):
    earliest_slot: int
    latest_slot: int
    starts_at_earliest: str
    starts_at_latest: str
    price_low: str
    price_high: str


class Change(TypedDict):
    what: str
    before: str
    after: str
    spec: dict[str, Any]
    price: str | None


class ByUse(TypedDict):
    """What a slot of an elastic pool costs at the job's largest size, and an estimate for all of it at that size."""

    workers: int
    parameter_servers: int
    price_per_slot: str
    estimated_slots: int
    estimated_price: str


class Quote(TypedDict):
    """What would become of a job. Servers from before there was a `by_use` leave it out."""

    pool: str
    lane: Lane
    payer: str
    terms: Terms
    estimate: Estimate | None
    change: Change | None
    by_use: ByUse | None


class WhatIfOutcome(TypedDict):
    state: str
    reason: str | None
    phase: str
    start_slot: int | None
    end_slot: int | None
    workers: int
    parameter_servers: int
    price: str
    worth: str | None
    floor: str | None


class WhatIfJob(TypedDict):
    job: int | None
    tenant: str | None
    asked: bool
    before: WhatIfOutcome
    after: WhatIfOutcome


class WhatIfTenant(TypedDict):
    tenant: str | None
    before: str | None
    after: str | None
    difference: str
    promised: str


class WhatIfPrice(TypedDict):
    resource: str
    before: str
    after: str


class WhatIfResult(TypedDict):
    in_words: str
    whole: bool
    jobs: list[WhatIfJob]
    tenants: list[WhatIfTenant]
    prices: list[WhatIfPrice]


class WhatIf(TypedDict):
    id: int
    pool: str
    interval: int
    job: int
    field: str
    said: Any
    instead: Any
    state: str
    done: int
    total: int
    code: str
    detail: str
    asked_at: str
    expires_at: str
    result: WhatIfResult | None


class StudyAnswer(TypedDict):
    rule: str
    against: str
    saved: float | None
    low: float | None
    high: float | None
    waited: float | None
    seen: bool
    owners_gain: int
    owners_lose: int
    owners_unsure: int


class StudyRow(TypedDict):
    id: int
    title: str
    pool: str | None
    state: str
    digest: str
    minutes: float | None
    done: int
    total: int
    shown: bool
    detail: str
    asked_at: str
    ended_at: str | None


class Study(StudyRow):
    study: dict[str, Any]
    history: dict[str, Any]
    answer: StudyAnswer | None


class JobFile(TypedDict):
    path: str
    bytes: int
    changed_at: str


class JobFiles(TypedDict):
    files: list[JobFile]
    more: bool
    left_out: int
    sentence: str
    kept_until: str | None


class LogLine(TypedDict):
    at: str
    who: str
    text: str
    level: str


class Log(TypedDict):
    """A page of a run's log. `sentence` says why the run has none, and is empty where it has one. Servers from before
    earlier runs could be read leave out `run_number`, `runs` and `sentence`."""

    run: int | None
    run_number: int | None
    runs: int
    lines: list[LogLine]
    after: int
    more: bool
    sentence: str


class Price(TypedDict):
    slot: int
    starts_at: str
    lane: Lane
    resource: str
    price: str | None
    offered: float
    sold: float


class OwnerOfUnits(TypedDict):
    tenant: str
    units: int


class Capacity(TypedDict):
    resource: str
    units: int
    cells: list[OwnerOfUnits]
    operator_units: int


class Server(TypedDict):
    name: str
    state: str
    hosts_workers: bool
    hosts_ps: bool
    capacities: list[Capacity]


class UnitsOfResource(TypedDict):
    resource: str
    units: int
    used: float
    lent: float
    idle: float
    rented: float


class UnitsOnServer(TypedDict):
    server: str
    resource: str
    units: int
    used: float
    lent: float
    idle: float


class RentedUnits(TypedDict):
    server: str
    resource: str
    units: float
    whose: str


class Quota(TypedDict):
    pool: str
    slot: int
    starts_at: str
    resources: list[UnitsOfResource]
    servers: list[UnitsOnServer]
    rented: list[RentedUnits]


class Sharing(TypedDict):
    rent: str
    budget: str | None
    budget_period: str
    lend: str
    plan: str
    reserve_price: dict[str, str]


class Balances(TypedDict):
    available: str
    held: str
    earned: str
    total: str


class Total(TypedDict):
    title: str
    available: str
    held: str
    earned: str
    total: str


class Statement(TypedDict):
    start: str
    end: str
    opening: Total
    movements: list[Total]
    closing: Total
    earned: str
    earned_lines: int
    spent: str
    spent_lines: int
    given_back: str
    given_back_lines: int
    jobs: int
    difference: str


class Event(TypedDict):
    id: int
    kind: str
    at: str
    pool: str | None
    public: bool
    subject: str
    data: dict[str, Any]


class OwnTenant(TypedDict):
    slug: str
    name: str
    role: str


class Me(TypedDict):
    email: str
    name: str
    tenants: list[OwnTenant]
    staff_roles: list[str]
    token: dict[str, Any] | None

"""A market and all that may happen in it. Every act takes whole numbers, so that a seed or hypothesis can choose it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Q

from scheduling.app.clock import pool_advance
from scheduling.audit.verification import intervals_verify
from scheduling.engines.base import FINISHED
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.submission import job_submit
from scheduling.market.settle.slots import slot_settle
from scheduling.models import Award, Period, Pool, Server, TrainingJob
from scheduling.money import budget_limits
from scheduling.money.credits import credits_grant, credits_withdraw, earned_collect
from scheduling.operator import holds
from scheduling.operator.cells import cells_change_on_server
from scheduling.operator.server_states import server_drain, server_return
from scheduling.operator.use_prices import use_prices_set
from scheduling.quotes.quotes import job_quote
from scheduling.runs.failures import award_fail, server_lose
from scheduling.runs.runs import runs_reconcile, runs_tick
from scheduling.sharing.sharing import Sharing, sharing_change
from tenants.access import Access, access_of_system
from tenants.ledger.amounts import MICRO
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tests.audit.bundles import bundle_findings
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.live import INSTANT, SPEC, book_is_sound, fund, moment
from tests.soak.engine import ENDS, EPOCHS, Double
from tests.soak.faults import dying
from tests.soak.figures import figures_that_differ
from tests.soak.invariants import paid_for_nothing, violations

OPERATOR = access_of_system("chance")
BY: dict[str, Any] = {"by": OPERATOR, "reason": "chance"}
SRTF = {"name": "srtf", "workers": 3}
FUNDS = 40
PARAMETERS = {"model": "logistic", "features": 4, "batch_size": 4, "stragglers": "ignore"}
KEEP = (0, 30, 100)
CLOCK_CAP = 8  # slots of the longest interval
LONGEST_REST = 240  # slots, in which every schedule ends: a place at home may be a hundred ahead, and as long
STILL = 2 * CLOCK_CAP  # slots without an award and without a change: who waits now waits for credits, and may for ever
LAST_STEPS = 8  # steps before a broken rule
LOOK_AT_FIGURES = 20  # steps; what pages and programs are shown takes longer to read than what must hold


class Step(NamedTuple):
    """One thing that happens: an act by its name, and the numbers that it takes."""

    act: str
    a: int = 0
    b: int = 0
    c: int = 0


PRICES: tuple[dict[str, Any], ...] = (
    {},
    {"price": "searched", "unit_value": {"worker": 1.0, "ps": 1.0}},
    {"dividend": 0.5},
    {"price": "searched", "unit_value": {"worker": 1.0, "ps": 1.0}, "dividend": 0.3},
    {"parts": "nothing"},
)


class Broken(AssertionError):
    """An invariant does not hold. The message names it, and all steps that led there."""


@dataclass
class World:
    """Three tenants in a pool with both lanes, of whom two own servers, and an elastic pool beside it.

    `kind` chooses what differs between worlds: how much of a cancelled award the owners keep, and how patient the pool
    is with a silent market. Time is in slots of ten seconds, and moves by acts alone.
    """

    kind: int
    now: float = 0.0
    steps: list[Step] = field(default_factory=list)
    trace: Any = field(default_factory=hashlib.sha256)

    def __post_init__(self) -> None:
        grace = (None, 25, 60)[self.kind // len(KEEP) % 3]
        common = {"outage_grace_seconds": grace, "cancellation_keep_percent": KEEP[self.kind % len(KEEP)]}
        guarantee = {"name": "astraea", "mode": "guarantee"} | PRICES[self.kind % len(PRICES)]
        self.pool = make_pool(
            batch_policy=guarantee, instant_policy=INSTANT, clock_first=2, clock_cap=CLOCK_CAP, **common
        )
        self.elastic = make_pool("sweeps", batch_policy=SRTF, **common)
        self.tenants = [make_tenant(slug) for slug in ("castor", "pictor", "lumen")]
        for pool, number in ((self.pool, 3), (self.elastic, 2)):
            for index in range(number):
                server = make_server(pool, f"s{index}", worker=6, ps=3)
                make_cells(server, self.tenants[index % 2], {"worker": 4, "ps": 2})
        for tenant in self.tenants:
            fund(tenant, FUNDS)
        for index, tenant in enumerate(self.tenants):
            sharing = Sharing(plan="renew" if (self.kind + index) % 3 else "keep")
            sharing_change(pool=self.pool, sharing=sharing, by=_member(tenant), at=moment(-0.5))
        use_prices_set(pool=self.elastic, prices={"worker": MICRO // 5, "ps": MICRO // 10}, at=moment(-0.5), **BY)
        self.engine = Double(clock=self.at)
        self.last: Callable[[], Any] | None = None
        self.keys = 0

    def at(self) -> datetime:
        return moment(self.now)

    def take(self, step: Step) -> None:
        """One step, and everything that must hold after it. Raises `Broken`."""
        self.steps.append(step)
        work = ACTS[step.act](self, step.a, step.b, step.c)
        try:
            answer = None if work is None else work()
        except Exception as error:  # the market refuses what cannot be; it never breaks
            raise self._broken([f"{type(error).__name__}: {error}"]) from error
        if work is not None:
            self.last = work
        self.trace.update(f"{step.act} {_short(answer)}\n".encode())
        # Without work the database is as it was: time has passed, or something has become of a gang.
        if work is not None and (flaws := violations()):
            raise self._broken(flaws)
        if len(self.steps) % LOOK_AT_FIGURES == 0 and (flaws := self._misshown()):
            raise self._broken(flaws)

    def _misshown(self) -> list[str]:
        """Figures that are not those of the book."""
        return figures_that_differ(self.tenants, (self.pool, self.elastic), self.at())

    def come_to_rest(self) -> None:
        """The market is well again and nobody asks for more: everything ends, is paid for, and verifies."""
        if flaws := self._misshown():
            raise self._broken(flaws)
        for server in Server.objects.order_by("pk"):
            server_return(server=server, at=self.at(), **BY)
        for pool in (self.pool, self.elastic):
            holds.pool_resume(pool=pool, at=self.at(), **BY)
        with scope_disabled("nobody asks for more"):
            alive = TrainingJob.objects.filter(pool=self.elastic, state__in=["queued", "running"]).order_by("pk")
            waiting = list(alive.values_list("pk", "tenant__slug"))
        for number, slug in waiting:  # a program that nobody trains would go on for ever
            job_cancel(job_id=number, by=_member(make_tenant(slug)), at=self.at())
        still, before = 0, None
        for _ in range(LONGEST_REST):
            self.now += 1
            self._engine_and_clock()
            with scope_disabled("the world is looked at as a whole"):
                alive = TrainingJob.objects.filter(state__in=["queued", "awarded", "running"]).order_by("pk")
                jobs = list(alive.values_list("pk", "state", "attempt"))
                going_on = Q(state__in=("booked", "running")) | Q(rent="open")
                goes_on = Award.objects.filter(going_on).exists()
            still = still + 1 if jobs == before and not goes_on else 0
            before = jobs
            if not goes_on and (not jobs or still == STILL):
                break
        self.now += 1
        self._engine_and_clock()
        flaws = violations() + paid_for_nothing() + self._misshown()
        with scope_disabled("the world is looked at as a whole"):
            alive = Award.objects.filter(state__in=("booked", "running")).count()
            unsettled = [f"{alive} awards are alive at the end"] if alive else []
            findings = intervals_verify(pool_ids=[self.pool.pk, self.elastic.pk]).findings
            cuts = [moment(self.now * third / 3) for third in (1, 2)]
            bundles = [one for pool in (self.pool, self.elastic) for one in bundle_findings(pool, cuts)]
        flaws += unsettled + [str(finding) for finding in findings] + bundles
        if not book_is_sound():
            flaws.append("the book is not sound")
        if flaws:
            raise self._broken(flaws, "at rest, ")

    def _broken(self, flaws: Sequence[str], when: str = "") -> Broken:
        last = [f"    {step}" for step in self.steps[-LAST_STEPS:]]
        return Broken(
            "\n".join([*flaws, f"{when}in world {self.kind} after {len(self.steps)} steps, the last:", *last])
        )

    def _engine_and_clock(self) -> None:
        for key in self.engine.alive():
            self.engine.strike(key, FINISHED)
        runs_tick(engine=self.engine, at=self.at())
        for pool in (self.pool, self.elastic):
            pool_advance(pool_id=pool.pk, at=self.at())
        runs_tick(engine=self.engine, at=self.at())

    # Whom or what an act is about.

    def _tenant(self, number: int) -> Tenant:
        return self.tenants[number % len(self.tenants)]

    def _pool(self, number: int) -> Pool:
        return (self.pool, self.pool, self.elastic)[number % 3]

    def _server(self, number: int) -> Server:
        servers = list(Server.objects.order_by("pk"))
        return servers[number % len(servers)]

    def _job(self, number: int, *states: str) -> TrainingJob | None:
        with scope_disabled("chance picks among everybody's jobs"):
            return _one_of(TrainingJob.objects.filter(state__in=states).select_related("tenant").order_by("pk"), number)

    def _award(self, number: int) -> Award | None:
        with scope_disabled("chance picks among everybody's awards"):
            return _one_of(Award.objects.select_related("pool").order_by("-pk")[:8], number)

    # What may happen. Each returns the work, which may then be done twice, or by somebody who dies over it.

    def time_passes(self, a: int, b: int, c: int) -> None:
        """From a tenth of a slot to three slots and more; nobody ticks."""
        self.now = round(self.now + (0.1, 0.3, 0.7, 1.0, 1.0, 1.0, 2.0, 3.0, 3.4)[a % 9], 1)

    def silence(self, a: int, b: int, c: int) -> None:
        """Longer than a patient pool waits."""
        self.now = round(self.now + 4 + a % 8, 1)

    def clock_ticks(self, a: int, b: int, c: int) -> Callable[[], Any]:
        pool, at = self._pool(a), self.at()
        return lambda: pool_advance(pool_id=pool.pk, at=at)

    def clock_ticks_for_one_boundary(self, a: int, b: int, c: int) -> Callable[[], Any]:
        pool, at = self._pool(a), self.at()
        return lambda: pool_advance(pool_id=pool.pk, at=at, most=1)

    def slot_is_settled(self, a: int, b: int, c: int) -> Callable[[], Any]:
        """By a process that dies before it decides."""
        pool = self._pool(a)
        clock = pool.clocks.filter(lane="batch").first()
        slot = clock.decided_slot if clock else -1  # whoever comes to the next boundary pays for the slot before it
        end = pool.slot_start(slot + 1)
        return lambda: slot_settle(pool_id=pool.pk, slot=slot, at=end) if end <= self.at() else None

    def job_is_submitted(self, a: int, b: int, c: int) -> Callable[[], Any]:
        """With or without a program; to one of the lanes, to both, or to the elastic pool."""
        tenant, pool = self._tenant(a), self._pool(b)
        lane, otherwise = (("batch", None), ("instant", None), ("instant", "batch"))[c % 3]
        lane, otherwise = ("batch", None) if pool is self.elastic else (lane, otherwise)
        chunks, base, slope = 1 + b // 3 % 6, 5 + 7 * (c // 3 % 9), -(a // 3 % 4) / 2
        spec = SPEC | {"chunks": chunks, "max_workers": chunks, "epochs": 1 + c // 27 % 6}
        spec |= {"value": {"kind": "linear", "slope": slope, "base": float(base)}}
        if a // 12 % 2:
            spec |= {"epochs": EPOCHS, "minibatches": 1, "minibatch_seconds": 10.0 * (1 + c // 27 % 4) / EPOCHS}
            spec |= {"program": {"name": "trainer", "parameters": PARAMETERS}}
        if a // 24 % 5 == 0:
            spec |= {"rent": "never"}
        if pool is self.pool and b // 18 % 3 == 0:  # longer than most windows: it goes on in pieces
            spec |= {"divisible": True, "save_slots": (0.0, 0.25, 1.5)[c // 162 % 3]}
            spec |= {"epochs": spec["epochs"] * (1 + c // 27 % 4), "value": {**spec["value"], "base": 4.0 * base}}
        self.keys += 1
        order: dict[str, Any] = {"pool": pool, "name": "train", "spec": spec, "lane": lane, "otherwise": otherwise}
        order |= {"by": _member(tenant), "at": self.at(), "client_key": f"key-{self.keys}"}
        return lambda: job_submit(**order)

    def job_is_quoted(self, a: int, b: int, c: int) -> Callable[[], Any]:
        tenant, at = self._tenant(a), self.at()
        spec = SPEC | {"epochs": 1 + b % 5}
        return lambda: job_quote(pool=self.pool, name="train", spec=spec, lane="instant", by=_member(tenant), at=at)

    def job_is_cancelled(self, a: int, b: int, c: int) -> Callable[[], Any] | None:
        if (job := self._job(a, "queued", "awarded", "running")) is None:
            return None
        by, at = _member(job.tenant), self.at()
        return lambda: job_cancel(job_id=job.pk, by=by, at=at)

    def award_fails(self, a: int, b: int, c: int) -> Callable[[], Any] | None:
        """In the slot that runs, or in one before it: an engine may be late with what it has to tell."""
        if (award := self._award(a)) is None:
            return None
        slot, at = max(award.start, award.pool.slot_at(self.at()) - b % 4), self.at()
        if at < award.pool.slot_start(award.start):
            return None
        return lambda: award_fail(award_id=award.pk, slot=slot, detail="smoke", at=at, losses=c % 7)

    def server_is_lost(self, a: int, b: int, c: int) -> Callable[[], Any]:
        server, at = self._server(a), self.at()
        return lambda: server_lose(server=server, at=at, **BY)

    def server_returns(self, a: int, b: int, c: int) -> Callable[[], Any]:
        server, at = self._server(a), self.at()
        return lambda: server_return(server=server, at=at, **BY)

    def server_is_drained(self, a: int, b: int, c: int) -> Callable[[], Any]:
        server, at = self._server(a), self.at()
        return lambda: server_drain(server=server, at=at, **BY)

    def market_is_held(self, a: int, b: int, c: int) -> Callable[[], Any]:
        pool, at = self._pool(a), self.at()
        change = (holds.pool_hold, holds.pool_drain)[b % 2]
        return lambda: change(pool=pool, at=at, **BY)

    def market_goes_on(self, a: int, b: int, c: int) -> Callable[[], Any]:
        pool, at = self._pool(a), self.at()
        return lambda: holds.pool_resume(pool=pool, at=at, **BY)

    def engine_looks(self, a: int, b: int, c: int) -> Callable[[], Any]:
        at = self.at()
        return lambda: runs_tick(engine=self.engine, at=at)

    def engine_begins_anew(self, a: int, b: int, c: int) -> Callable[[], Any]:
        at = self.at()
        return lambda: runs_reconcile(engine=self.engine, at=at)

    def engine_is_stopped(self, a: int, b: int, c: int) -> Callable[[], Any]:
        at = self.at()

        def stopped() -> Any:
            self.engine.pause_all()
            return runs_tick(engine=self.engine, at=at)

        return stopped

    def engine_cannot_start(self, a: int, b: int, c: int) -> None:
        self.engine.refuses = True

    def gang_trains(self, a: int, b: int, c: int) -> None:
        if alive := self.engine.alive():
            self.engine.train(alive[a % len(alive)], 1 + b % 4)

    def gang_ends(self, a: int, b: int, c: int) -> None:
        if alive := self.engine.alive():
            self.engine.strike(alive[a % len(alive)], ENDS[b % len(ENDS)])

    def terms_change(self, a: int, b: int, c: int) -> Callable[[], Any]:
        """What a tenant rents and lends, and at which price."""
        tenant, at, pool = self._tenant(a), self.at(), self._pool(b)
        rent, budget = (("auto", None), ("never", None), ("budget", 5 * MICRO), ("auto", None))[b // 3 % 4]
        lend = ("lend", "lend", "keep")[c % 3]
        reserve = {"worker": 0.05} if c // 3 % 3 == 0 else {}
        plan = ("renew", "renew", "keep")[c // 9 % 3]
        sharing = Sharing(rent=rent, budget=budget, lend=lend, reserve_price=reserve, plan=plan)
        return lambda: sharing_change(pool=pool, sharing=sharing, by=_member(tenant), at=at)

    def budget_is_set(self, a: int, b: int, c: int) -> Callable[[], Any]:
        tenant, at, hard = self._tenant(a), self.at(), (None, 3 * MICRO, 30 * MICRO)[b % 3]
        set_to = {"member": None, "period": Period.DAY.value, "soft": MICRO, "hard": hard}
        return lambda: budget_limits.budget_set(**set_to, by=_member(tenant), at=at)

    def use_is_repriced(self, a: int, b: int, c: int) -> Callable[[], Any]:
        prices, at = {"worker": (a % 8) * MICRO // 16, "ps": (b % 4) * MICRO // 16}, self.at()
        return lambda: use_prices_set(pool=self.elastic, prices=prices, at=at, **BY)

    def cells_change_hands(self, a: int, b: int, c: int) -> Callable[[], Any]:
        server, at = self._server(a), self.at()
        cells = {self._tenant(b).slug: {"worker": 1 + b // 3 % 6, "ps": 1 + c % 3}}
        return lambda: cells_change_on_server(server=server, cells=cells, at=at, **BY)

    def credits_come(self, a: int, b: int, c: int) -> Callable[[], Any]:
        self.keys += 1
        about = {"tenant": self._tenant(a), "amount": 1 + b * MICRO // 7, "key": f"in-{self.keys}", "at": self.at()}
        return lambda: credits_grant(**about, **BY)

    def credits_go(self, a: int, b: int, c: int) -> Callable[[], Any]:
        self.keys += 1
        about = {"tenant": self._tenant(a), "amount": 1 + b * MICRO // 3, "key": f"out-{self.keys}", "at": self.at()}
        return lambda: credits_withdraw(**about, **BY)

    def earnings_are_collected(self, a: int, b: int, c: int) -> Callable[[], Any]:
        at = self.at()
        return lambda: earned_collect(at=at)

    def it_happens_again(self, a: int, b: int, c: int) -> Callable[[], Any] | None:
        """A task that comes twice, a request that is repeated."""
        return self.last

    def somebody_dies_over_it(self, a: int, b: int, c: int) -> Callable[[], Any] | None:
        """The process that does one of these things ends in the middle of it, and nobody repeats it."""
        names = sorted(name for name in ACTS if name not in ("somebody_dies_over_it", "it_happens_again"))
        work = ACTS[names[a % len(names)]](self, a // 7, b, c)
        return None if work is None else lambda: dying(work, b % 5, committed=bool(c % 2))


def _member(tenant: Tenant) -> Access:
    return Access(user=None, tenant=tenant, roles=frozenset({OWNER}))


def _one_of(rows: Any, number: int) -> Any:
    choices = list(rows)
    return choices[number % len(choices)] if choices else None


def _short(answer: Any) -> str:
    """What of an answer is the same in each repetition: not the numbers that the database gives to rows."""
    code = getattr(answer, "code", "")
    return f"{type(answer).__name__} {code} {getattr(answer, 'refunded', '')} {getattr(answer, 'boundaries', '')}"


Act = Callable[[World, int, int, int], Callable[[], Any] | None]
ACTS: dict[str, Act] = {
    name: work
    for name, work in vars(World).items()
    if not name.startswith("_") and name not in ("at", "take", "come_to_rest") and callable(work)
}
# How often each happens, where a seed decides; what is not named happens as often as 1.
WEIGHTS = {"time_passes": 24, "clock_ticks": 22, "job_is_submitted": 16, "engine_looks": 12, "gang_ends": 5}
WEIGHTS |= {"gang_trains": 4, "job_is_cancelled": 5, "award_fails": 4, "clock_ticks_for_one_boundary": 4}
WEIGHTS |= {"it_happens_again": 4, "somebody_dies_over_it": 8, "market_goes_on": 3, "server_returns": 3}

"""A market on a simulated cluster, slot by slot. The same seed is the same world with the same troubles."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from scheduling.app.clock import pool_advance
from scheduling.audit.verification import intervals_verify
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.submission import job_submit
from scheduling.models import Award, Pool, Server, TrainingJob
from scheduling.operator.server_states import server_return
from scheduling.runs.failures import server_lose
from scheduling.runs.runs import runs_reconcile, runs_tick
from tenants.access import Access, access_of_system
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tests.scheduling.builders import NOON, make_cells, make_pool, make_server, make_tenant
from tests.scheduling.live import INSTANT, SPEC, book_is_sound, fund
from tests.soak.cluster.checks import SLOT, Account, Sold, beyond_capacity, outside_slots, twice, unrefunded
from tests.soak.cluster.engine import Cluster, Died
from tests.soak.cluster.room import Room
from tests.soak.figures import figures_that_differ
from tests.soak.invariants import violations

BY: dict[str, Any] = {"by": access_of_system("an operator"), "reason": "it does not answer"}
PROGRAM = {"name": "trainer", "parameters": {"model": "logistic", "features": 4, "batch_size": 4}}
LOOKS = (7.0, 22.0, 41.0)  # seconds of a slot at which the engine looks, beside its boundary and all that is done
SERVERS, WORKERS, PS = 4, 6, 3
SILENT_SECONDS = 20.0  # of a server, until an operator says that it is lost
LOOK_AT_MONEY = 25  # slots
LONGEST_REST = 40
MOST_FLAWS = 8  # broken rules
NEAR = 5  # slots after its end in which an award may still change


class Broken(AssertionError):
    """Something does not hold. The message names it, and the world."""


@dataclass
class World:
    """Three tenants, of whom one owns no cells, and a pool of four servers with both lanes and slots of a minute."""

    seed: int
    now: float = 0.0  # seconds since the pool opened
    events: Counter[str] = field(default_factory=Counter)
    account: Account = field(default_factory=Account)
    trace: Any = field(default_factory=hashlib.sha256)

    def __post_init__(self) -> None:
        self.dice, self.names = random.Random(self.seed), dict[int, str]()
        common: dict[str, Any] = {"slot_seconds": int(SLOT), "engine": "cluster", "clock_first": 1, "clock_cap": 2}
        self.pool: Pool = make_pool(
            batch_policy={"name": "astraea", "mode": "guarantee"}, instant_policy=INSTANT, **common
        )
        self.tenants = [make_tenant(slug) for slug in ("castor", "pictor", "lumen")]
        for number in range(SERVERS):
            server = make_server(self.pool, f"n{number + 1}", worker=WORKERS, ps=PS)
            self.names[server.pk] = server.name
            make_cells(server, self.tenants[number % 2], {"worker": WORKERS, "ps": PS})
        for tenant in self.tenants:
            fund(tenant, 100_000)
        capacity = {f"n{number + 1}": {"worker": float(WORKERS), "ps": float(PS)} for number in range(SERVERS)}
        self.room = Room(capacity, lease=Cluster.timings.lease, now=NOON.timestamp())
        self.engine = Cluster(self.room, self.dice, self.seed)
        self.engine_back_at = 0.0  # its process is there from then on
        self.reconciled = False
        self.back: dict[str, float] = {}  # servers, and when they come up again
        self.sold: dict[int, Sold] = {}

    def run(self, slots: int) -> World:
        for number in range(slots):
            self._slot(troubled=True)
            if number % LOOK_AT_MONEY == 0:
                self._holds(violations())
            if (number + 1) % LOOK_AT_MONEY == 0:
                self._holds(figures_that_differ(self.tenants, [self.pool], self.at()))
        self._rest()
        return self

    # Time.

    def at(self) -> datetime:
        return NOON + timedelta(seconds=self.now)

    def _slot(self, *, troubled: bool) -> None:
        """From one boundary to the next: the clock, what people do, what fails, and the engine's looks."""
        dice, slot = self.dice, round(self.now / SLOT)
        late = dice.choice((10.0, 30.0, 45.0)) if troubled and dice.random() < 0.04 else dice.choice((0.0, 1.0))
        acts: list[tuple[float, Any]] = [(late, self._clock), *((each, self._look) for each in LOOKS)]
        if troubled:
            acts += [(float(dice.randrange(60)), self._submit) for _ in range(dice.choice((0, 1, 1, 2)))]
            acts += [(float(dice.randrange(60)), self._cancel)] if dice.random() < 0.06 else []
            acts += [(float(dice.randrange(60)), trouble) for trouble, odds in self._troubles() if dice.random() < odds]
        for second, act in sorted(acts, key=lambda each: each[0]):
            self._pass(slot * SLOT + second)
            act()
            if act != self._look:
                self._look()
        self._pass((slot + 1) * SLOT)

    def _pass(self, until: float) -> None:
        """Second by second; while the engine's process is there, its thread keeps the lease."""
        while self.now < until:
            if self.now >= self.engine_back_at and self.now >= self.engine.until.get("folder", 0.0) - NOON.timestamp():
                self.room.touched = self.room.now
            self.engine.launchers_come()
            self.room.pass_second()
            self.now += 1.0
            for server in [name for name, moment in self.back.items() if moment <= self.now]:
                del self.back[server], self.room.down[server]

    def _rest(self) -> None:
        """All is well again and nobody asks for more: everything ends and is paid for, and then all is looked at."""
        self.engine.until.clear()
        self.engine_back_at = self.now
        for name in self.back:
            self.back[name] = self.now
        for _ in range(LONGEST_REST):
            self._slot(troubled=False)
            with scope_disabled("the world is looked at as a whole"):
                waits = TrainingJob.objects.filter(state__in=["queued", "awarded", "running"]).exists()
                if not waits and not Award.objects.filter(state__in=("booked", "running")).exists():
                    break
        self._slot(troubled=False)
        flaws = violations()
        with scope_disabled("the world is looked at as a whole"):
            alive = Award.objects.filter(state__in=("booked", "running")).count()
            flaws += [f"{alive} awards are alive at the end"] if alive else []
            flaws += map(str, intervals_verify(pool_ids=[self.pool.pk]).findings)
        flaws += [] if book_is_sound() else ["the book is not sound"]
        room, sold = self._as_slots(), list(self.sold.values())
        flaws += outside_slots(room, sold, self.account)
        flaws += twice(room)
        flaws += beyond_capacity(room)
        flaws += unrefunded(room, sold, self.account)
        self._holds(flaws)

    def _as_slots(self) -> Room:
        """The room with its times counted from the pool's first slot."""
        epoch = NOON.timestamp()
        for part in self.room.parts:
            part.began = None if part.began is None else part.began - epoch
            part.ended = None if part.ended is None else part.ended - epoch
        for living in self.room.gangs.values():
            living.end = living.end and (living.end[0], living.end[1], living.end[2] - epoch)
        self.room.now -= epoch
        return self.room

    def _holds(self, flaws: list[str]) -> None:
        if flaws:
            more = [f"and {len(flaws) - MOST_FLAWS} more"] if len(flaws) > MOST_FLAWS else []
            where = f"in world {self.seed}, slot {round(self.now / SLOT)}: {dict(self.events + self.engine.events)}"
            raise Broken("\n".join([*flaws[:MOST_FLAWS], *more, where]))

    # What happens.

    def _clock(self) -> None:
        pool_advance(pool_id=self.pool.pk, at=self.at())
        self._follow_awards()

    def _look(self) -> None:
        """The engine's process looks, if it is there; over any of its steps it may die."""
        if self.now < self.engine_back_at:
            return
        try:
            if not self.reconciled:
                runs_reconcile(engine=self.engine, at=self.at())
                self.reconciled = True
            ticked = runs_tick(engine=self.engine, at=self.at())
            self.events["gangs"] += ticked.started
            self.trace.update(f"{self.now} {ticked}\n".encode())
            if ticked.ended:
                self._follow_awards()
        except OSError:  # as `manage.py engine` has it: what runs goes on
            self.events["look failed"] += 1
        except Died:
            self._engine_dies()
            self._follow_awards()

    def _follow_awards(self) -> None:
        names, near = self.names, int(self.now // SLOT) - NEAR
        with scope_disabled("the world is looked at as a whole"):
            for award in Award.objects.filter(pool=self.pool, end__gt=near):
                slots = {
                    slot: {names[row[0]] for row in award.allocation if row[1] <= slot < row[2] and row[3] + row[4]}
                    for slot in range(award.start, award.used_until)
                }
                sold = self.sold.setdefault(award.pk, Sold(award.job_id, slots))
                sold.sees(self.now, slots, award.paid_until)

    def _submit(self) -> None:
        dice = self.dice
        lane, otherwise = dice.choice((("batch", None), ("instant", None), ("instant", "batch")))
        chunks = dice.choice((1, 2, 4, 8))
        spec = SPEC | {"chunks": chunks, "max_workers": chunks, "epochs": dice.choice((1, 2, 3, 4)), "program": PROGRAM}
        spec |= {
            "minibatch_seconds": SLOT,
            "value": {"kind": "linear", "slope": -1.0, "base": dice.choice((50.0, 200.0))},
        }
        by = Access(user=None, tenant=dice.choice(self.tenants), roles=frozenset({OWNER}))
        answer = job_submit(
            pool=self.pool, name="train", spec=spec, lane=lane, otherwise=otherwise, by=by, at=self.at()
        )
        self.events[f"job {getattr(answer, 'code', 'taken')}"] += 1
        self._follow_awards()

    def _cancel(self) -> None:
        with scope_disabled("chance picks among everybody's jobs"):
            jobs = list(
                TrainingJob.objects.filter(state__in=["awarded", "running"]).select_related("tenant").order_by("pk")
            )
        if jobs:
            job = self.dice.choice(jobs)
            for sold in self.sold.values():
                sold.given_up = sold.given_up or sold.job == job.pk
            job_cancel(job_id=job.pk, by=_owner(job.tenant), at=self.at())
            self.events["job cancelled"] += 1
            self._follow_awards()

    def _troubles(self) -> list[tuple[Any, float]]:
        return [
            (self._server_fails, 0.05),
            (self._operator_looks, 1.0),
            (self._controller_is_away, 0.06),
            (self._folder_is_away, 0.04),
            (self._engine_dies, 0.05),
            (self._controller_forgets, 0.01),
        ]

    def _server_fails(self) -> None:
        name = self.dice.choice(sorted(self.room.capacity))
        if name not in self.room.down:
            self.room.server_fails(name)
            self.back[name] = self.now + self.dice.choice((15.0, 60.0, 300.0))
            self.events["server failed"] += 1

    def _operator_looks(self) -> None:
        for server in Server.objects.filter(pool=self.pool).order_by("pk"):
            since = self.room.down.get(server.name)
            if since is not None and self.room.now - since > SILENT_SECONDS and server.state != "lost":
                server_lose(server=server, at=self.at(), **BY)
                self.events["server told as lost"] += 1
            elif since is None and server.state == "lost":
                server_return(server=server, at=self.at(), **BY)
        self._follow_awards()

    def _controller_is_away(self) -> None:
        self.engine.happens("controller", self.dice.choice((4.0, 15.0, 70.0)))

    def _folder_is_away(self) -> None:
        self.engine.happens("folder", self.dice.choice((3.0, 12.0, 50.0, 120.0)))

    def _controller_forgets(self) -> None:
        self.engine.controller_forgets()

    def _engine_dies(self) -> None:
        """Of its process, and now and then of its disk, too."""
        self.engine.process_dies()
        if self.dice.random() < 0.1:
            self.engine.folder_is_lost()
        self.engine_back_at, self.reconciled = self.now + self.dice.choice((1.0, 3.0, 10.0, 50.0, 130.0)), False


def _owner(tenant: Tenant) -> Access:
    return Access(user=None, tenant=tenant, roles=frozenset({OWNER}))

"""Makes the market: people and credits by the services, servers and the past thirty days by `build.sql`, and the
present by the services again. Beside it is the small world of the browser tests, which has something on every page."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from django.utils import timezone

from marketplace.embedded import State
from scheduling.app.clock import pool_advance
from scheduling.feed import events_append
from scheduling.market.decide import submission_event
from scheduling.market.settle.use import use_in_turn
from scheduling.market.view import arrival_of
from scheduling.models import Award, Interval, JobState, Lane, LaneClock, Pool, Pulse, Server, TrainingJob
from scheduling.operator.pools import PoolTerms, pool_create
from tenants.access import Refused, access_of_system
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import OUTSIDE, Posting, available
from tenants.ledger.services import post_many
from tenants.ledger.sheets import days_close
from tenants.models import Tenant, User
from tenants.roles import OWNER, SUBMITTER
from tenants.scoping import scope_disabled
from tenants.services import tenant_create
from tests.bench.million.build import statements
from tests.browser.world import NAMES, World, named, traded_world
from tests.scheduling.live import INSTANT, SPEC
from tests.scheduling.markets import SPEC as SPEC_OF_MARKETS
from tests.scheduling.markets import make_waiting
from tests.tenants.builders import make_member, make_person

TENANTS, SLOT_SECONDS = 30, 1800
MEMBERS, STILL_WAITING = 40, 30
BY, WHY = access_of_system("the bench"), "bench"
SLUG = "big"  # before "main", the small world's pool, in the order in which pages name pools


@dataclass(frozen=True)
class Size:
    """The size of the market. `waiting` is the number of jobs when the market decides for the last time. More than a
    quarter of them get an award, which is at home; the figure of making says how many. `jobs` is the number of jobs of
    the days before."""

    servers: int = 500
    waiting: int = 300
    jobs: int = 100_000
    days: int = 30


@dataclass(frozen=True)
class Market:
    """The market that was made. `people` are the ids of its people by role. `places` has the values of the variable
    parts of an address in the large pool, and `small` those in the small world beside it."""

    people: dict[str, int]
    places: dict[str, str]
    small: dict[str, str]
    seconds: int  # that making it took


def market_in(state: State, size: Size) -> Market:
    """Return the market that is kept in this folder, or make it. The note is written last: without it, all is made
    anew."""
    note = state.folder / "built.json"
    if note.exists():
        return Market(**json.loads(note.read_text(encoding="utf-8")))
    began = time.monotonic()
    people, places, small = _build(state, size)
    market = Market(people, places, small, round(time.monotonic() - began))
    note.write_text(json.dumps(asdict(market)), encoding="utf-8")
    return market


def _build(state: State, size: Size) -> tuple[dict[str, int], dict[str, str], dict[str, str]]:
    now = timezone.now()
    pool, person = _step("people and credits", _market, size, now)
    _step("the days before", _past, state, size, pool, person, now)
    world = _step("the small world", traded_world)
    _step("the present", _present, size, pool, world)
    _step("what follows from it", _sums, state, pool, now)
    people = world.people | {SUBMITTER: make_member(world.lumen, SUBMITTER, named(SUBMITTER)).user}
    for number in range(MEMBERS):
        make_member(world.lumen, SUBMITTER, make_person(f"member{number}@lumen.example", f"Member {number}"))
    return {role: user.pk for role, user in people.items()}, world.places | _places(pool, world.lumen), world.places


def _step(what: str, make: Any, *arguments: Any) -> Any:
    began = time.monotonic()
    result = make(*arguments)
    print(f"{time.monotonic() - began:8.1f} s  {what}", file=sys.stderr, flush=True)
    return result


def _market(size: Size, at: datetime) -> tuple[Pool, User]:
    names = [*NAMES.items(), *((f"t{n:02}", f"Tenant {n}") for n in range(TENANTS - len(NAMES)))]
    tenants = [_done(tenant_create(slug=slug, name=name, by=BY, reason=WHY, at=at)) for slug, name in names]
    person = make_person("renter@lumen.example", "A person")
    make_member(tenants[0], OWNER, person)
    epoch = at - timedelta(
        days=size.days, seconds=60
    )  # the present slot has just begun, and lasts while pages are asked for
    pool = _done(
        pool_create(
            terms=PoolTerms(
                slug=SLUG,
                name="Big",
                slot_seconds=SLOT_SECONDS,
                clock_first=1,
                clock_cap=8,
                clock_restart=True,
                batch_policy={"name": "astraea", "mode": "guarantee"},
                instant_policy=INSTANT,
                resources={"worker": "worker", "ps": "parameter server"},
                epoch_at=epoch,
            ),
            by=BY,
            reason=WHY,
            at=at,
        )
    )
    amount = 1_000_000 * MICRO
    funds = [
        Posting(f"funds:{tenant.pk}", "grant", ((OUTSIDE, -amount), (available(tenant.pk), amount)), epoch)
        for tenant in tenants
    ]
    with scope_disabled("the bench funds everybody"):
        assert isinstance(post_many(postings=funds), tuple)
    for lane in Lane:
        LaneClock.objects.get_or_create(pool=pool, lane=lane)
    return pool, person


def _past(state: State, size: Size, pool: Pool, person: User, at: datetime) -> None:
    settings = {
        "jobs": size.jobs,
        "servers": size.servers,
        "pool": pool.pk,
        "epoch": pool.epoch_at.isoformat(),
        "slot_seconds": pool.slot_seconds,
        "slots": pool.slot_at(at),
        "person": person.pk,
        "spec": json.dumps(SPEC),
    }
    script = Path(__file__).with_name("build.sql").read_text(encoding="utf-8")
    with psycopg.connect(state.superuser_url, dbname="bourse", autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (f"bench.{name}", str(value)))
        for statement in statements(script):
            connection.execute(statement)
        connection.execute("VACUUM ANALYZE")
    Pulse.objects.create(pool=pool, alive_at=at)


def _present(size: Size, pool: Pool, world: World) -> None:
    """Submit jobs, and let the market decide about them now. The intervals before get the contents of this one."""
    slot = pool.slot_at(timezone.now())
    tenants = [*Tenant.objects.filter(slug__startswith="t").order_by("pk"), world.lumen, world.castor]
    _wait(pool, tenants, size.waiting, slot - 1)
    assert not pool_advance(pool_id=pool.pk, at=timezone.now()).behind
    for number in range(STILL_WAITING):
        make_waiting(pool, tenants[-1 - number % 3], slot + number / 300, **_live_spec(number))


def _wait(pool: Pool, tenants: list[Tenant], count: int, since: int) -> None:
    """Queue `count` jobs that arrived in the slot `since`, one after the other, as submissions would leave them."""
    moments = [pool.slot_start(since) + timedelta(seconds=SLOT_SECONDS * number / count) for number in range(count)]
    jobs = [
        TrainingJob(
            tenant=tenants[number % len(tenants)],
            pool=pool,
            name="train",
            lane=Lane.BATCH,
            state=JobState.QUEUED,
            reason_code="waiting_for_interval",
            spec=SPEC_OF_MARKETS | _live_spec(number),
            submitted_at=at,
            arrival=arrival_of(pool, at),
            request_digest="0" * 64,
        )
        for number, at in enumerate(moments)
    ]
    with scope_disabled("the bench submits for everybody"):
        TrainingJob.objects.bulk_create(jobs, batch_size=1_000)
        events_append([submission_event(job, at=job.submitted_at) for job in jobs])


def _live_spec(number: int) -> dict[str, Any]:
    worth = {"kind": "linear", "slope": -0.5 - number % 7, "base": 100.0 + number % 50}
    epochs = 4 + number % 20
    return {"epochs": epochs, "max_workers": 2, "minibatch_seconds": SLOT_SECONDS / 2, "value": worth}


def _sums(state: State, pool: Pool, at: datetime) -> None:
    with psycopg.connect(state.superuser_url, dbname="bourse", autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE scheduling_interval i SET policy = r.policy, view = r.view, plan = r.plan, windows = r.windows"
            "  FROM scheduling_interval r WHERE r.pool_id = i.pool_id AND i.view = '' AND r.id ="
            "  (SELECT max(id) FROM scheduling_interval WHERE pool_id = %s AND view <> '')"
            "   AND (i.number <= 4 OR i.number > r.number - 40)",  # a megabyte each, where the market is large
            [pool.pk],
        )
    with scope_disabled("days that are over are closed as by the clock"):
        while days_close(at=at):
            pass
    while use_in_turn(at=at):
        pass
    with psycopg.connect(state.superuser_url, dbname="bourse", autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _places(pool: Pool, lumen: Tenant) -> dict[str, str]:
    with scope_disabled("the bench looks for jobs to open"):
        jobs = TrainingJob.objects.filter(pool=pool, tenant=lumen).order_by("-pk")
        awards = Award.objects.filter(pool=pool, tenant=lumen).order_by("-pk")
        last = Interval.objects.filter(pool=pool, jobs_awarded__gt=0).order_by("-number").first()
        assert last is not None
        paths = {
            "ended": jobs.filter(state="finished").values_list("pk", flat=True)[0],
            "running": jobs.filter(state__in=("running", "awarded")).values_list("pk", flat=True)[0],
            "waiting": jobs.filter(state="queued").values_list("pk", flat=True)[0],
            "renting": awards.filter(interval=last).values_list("job_id", flat=True)[0],
            "rented": last.number,
            "server": Server.objects.filter(pool=pool).values_list("pk", flat=True)[0],
            "pool": pool.slug,
        }
    return {name: str(place) for name, place in paths.items()}


def _done(outcome: Any) -> Any:
    assert not isinstance(outcome, Refused), outcome
    return outcome

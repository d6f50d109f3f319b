"""A market with something to see on every page, and people of every role who look at it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.audit.requests import verify_start
from scheduling.audit.rounds import audits_next
from scheduling.core.policies.dl2.files import encode
from scheduling.core.policies.dl2.shape import BOTH
from scheduling.engines.launcher.files import Folder
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.jobs.arrays import array_submit
from scheduling.jobs.read_run import home_of, records
from scheduling.lab.histories.made_up import LOG, made_up_month
from scheduling.lab.requests import study_create
from scheduling.lab.rounds import studies_round
from scheduling.models import (
    Award,
    LabStudy,
    Pool,
    PoolLearner,
    ResourceKind,
    Run,
    Server,
    TrainingJob,
    WeightsCandidate,
)
from scheduling.notices.choices import choices_set
from scheduling.notices.collecting import notices_collect
from scheduling.notices.mails import stop_path
from scheduling.webhooks.changes import webhook_create
from scheduling.what_if.asking import what_if_start
from scheduling.what_if.seen import WhatIfSeen
from scheduling.what_if.working import what_ifs_round
from tenants.access import Access, access_of_system
from tenants.models import Tenant, User
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, VIEWER
from tenants.scoping import scope, scope_disabled
from tenants.selectors import access_of
from tenants.services import invitation_create, join_request_create, may_be_asked_set, token_create
from tests.catalogue.builders import BY, allow, archive_with, register
from tests.database import as_superuser, overwrite
from tests.learner.world import learnt_pool_made, network, stored, switched
from tests.scheduling.builders import make_cells, make_pool, make_server
from tests.scheduling.elastic_world import set_prices
from tests.scheduling.markets import make_market, make_waiting
from tests.tenants.builders import done, make_member, make_person, make_staff

SLOT_SECONDS = 60  # none ends while somebody looks
SETTLED = 8
EPOCHS = 40  # done by the job that runs a program
LONG = {"epochs": 400, "value": {"kind": "linear", "slope": -0.001, "base": 90.0}}
SHORT = {"epochs": 6, "value": {"kind": "linear", "slope": -0.5, "base": 100.0}}
URGENT = {"epochs": 6, "chunks": 8, "max_workers": 8, "value": {"kind": "linear", "slope": -3.0, "base": 400.0}}
POOR = {"epochs": 400, "value": {"kind": "linear", "slope": -0.001, "base": 0.000_01}}
DRF = "dominant_resource_fairness"
NAMES = {"lumen": "Lumen Speech", "castor": "Castor Vision", "orrin": "Orrin Forecast"}


@dataclass(frozen=True)
class World:
    """`places`: what stands for the variable parts of an address. `people`: by role; in a tenant, of Lumen."""

    pool: Pool
    lumen: Tenant
    castor: Tenant
    people: dict[str, User]
    places: dict[str, str]


def traded_world() -> World:
    """Lumen runs jobs at home and rents for one; Castor has rented. The clock stands in the middle of a slot."""
    now = timezone.now()
    begin = now - (SETTLED + 0.5) * timedelta(seconds=SLOT_SECONDS)
    pool, tenants = make_market(*NAMES, slot_seconds=SLOT_SECONDS, epoch_at=begin)
    lumen, castor, orrin = tenants
    with as_superuser():
        ResourceKind.objects.filter(pool=pool, name="ps").update(label="parameter server")
    make_server(pool, "s04", worker=8, ps=4)
    make_cells(make_server(pool, "s05", worker=4, ps=2), lumen, {"worker": 4, "ps": 2})
    for tenant in tenants:
        Tenant.objects.filter(pk=tenant.pk).update(name=NAMES[tenant.slug])
    ended = job(pool, lumen, "digits-cnn", 0.1, SHORT)
    job(pool, lumen, "digits-cnn-again", 0.2, SHORT)
    job(pool, castor, "frames-large", 0.3, LONG)
    job(pool, orrin, "weather-ensemble", 0.4, SHORT)
    running = job(pool, lumen, "speech-base", 2.2, LONG)
    job(pool, castor, "frames-small", 2.5, URGENT)
    job(pool, lumen, "speech-large", 2.6, LONG)
    renting = job(pool, lumen, "speech-wide", 3.4, URGENT | {"epochs": 12})
    poor = job(pool, lumen, "speech-cheap", 3.1, POOR)
    pool_advance(pool_id=pool.pk, at=pool.slot_start(SETTLED))
    program_of(running)
    sized = sized_in_a_pool_of_its_own(begin, lumen, castor)
    waiting = job(pool, lumen, "speech-next", SETTLED + 0.2, LONG)
    members = {role: make_member(lumen, role, named(role)) for role in (OWNER, BILLING, VIEWER)}
    people = {role: member.user for role, member in members.items()}
    people |= {role: make_staff(role, named(role)).user for role in (AUDITOR, OPERATOR)}
    by = access_of(people[OWNER], lumen)
    choices_set(person=people[OWNER], ways={}, all_jobs=True)
    notices_collect(at=now)
    allow(lumen)
    program = register(BY, archive_with("train.py")).program.name
    register(by, name="own")
    array = done(array_submit(pool=pool, name="sweep", spec=ended.spec, count=3, by=by, at=now)).array
    fairness_catch_up(most=100)
    auditor = access_of(people[AUDITOR], None)
    audit = done(verify_start(kind="charge", pool=None, number=ended.pk, by=auditor, at=now))
    audits_next(clock=timezone.now)
    answered = question_of(renting, "rent", "never", by)
    what_ifs_round(clock=timezone.now)
    waits = question_of(renting, "max_price", 0.5, by)
    study, study_ready = (study_of(*NAMES, at_once=at_once) for at_once in (True, False))
    places = {
        "ended": ended.pk,
        "running": running.pk,
        "renting": renting.pk,
        "poor": poor.pk,
        "waiting": waiting.pk,
        "array": array.pk,
        "sized": sized.pk,
        "elastic": sized.pool.slug,
        "learnt": learnt().slug,
        "program": program,
        "member": members[VIEWER].pk,
        "webhook": webhook_of(by),
        "invitation": invitation_of(lumen, by),
        "join_request": join_request_of(lumen, by),
        "stop": stop_path(people[OWNER]).split("/")[-2],
        "server": Server.objects.order_by("name")[0].pk,
        "pool": pool.slug,
        "audit": audit.pk,
        "rented": answered.number,
        "what_if": answered.id,
        "what_if_waits": waits.id,
        "study": study.pk,
        "study_ready": study_ready.pk,
    }
    done(token_create(name="nightly", scopes=["jobs:read"], by=by, at=timezone.now()))
    return World(pool, lumen, castor, people, {name: str(place) for name, place in places.items()})


def study_of(*owners: str, at_once: bool) -> LabStudy:
    """A study of a made-up week that is shown to its owners; or one that waits to be started."""
    document, log = made_up_month(dict.fromkeys(owners, 1), date(2026, 10, 1), 7, seed=1)
    by = access_of_system("the test")
    words = {"document": document, "files": {LOG: log}, "starts_at_once": at_once, "is_shown": True}
    study = done(study_create(**words, by=by, at=timezone.now()))
    studies_round(clock=timezone.now, others=lambda: None)
    return study


def sized_in_a_pool_of_its_own(begin: datetime, lumen: Tenant, castor: Tenant) -> TrainingJob:
    """Of an elastic pool: alone for a slot, then beside another tenant's job, and paused at its limit."""
    pool = make_pool("sized", slot_seconds=SLOT_SECONDS, epoch_at=begin, batch_policy={"name": DRF})
    make_server(pool, "z01", worker=8, ps=8)
    set_prices(pool, {"worker": 0.5, "ps": 0.25})
    waiting_job = job(pool, lumen, "speech-sweep", SETTLED - 4, LONG | {"max_price": 8.3})
    job(pool, castor, "frames-sweep", SETTLED - 2.5, URGENT | {"epochs": 400})
    for slot in range(SETTLED - 3, SETTLED + 1):
        pool_advance(pool_id=pool.pk, at=pool.slot_start(slot))
    return waiting_job


def learnt() -> Pool:
    """A pool with a learner beside it: some steps, a candidate that won and decides, and one that has won since."""
    pool = learnt_pool_made()
    switched(pool, is_on=True)
    times = [1.21, 1.08, 0.97, 1.02, 0.91, 0.88]
    curve = [
        {"round": 8 * (n + 1), "slots": 300 * (n + 1), "windows": 8, "times": part} for n, part in enumerate(times)
    ]
    PoolLearner.objects.filter(pool=pool).update(step=len(curve), curve=curve)
    lines = (
        "held: work done in a slot that the pool decided (ours 1.084 ± 0.031)",
        "no difference seen: mean completion of the pool's own jobs, held out (ours 0.97 ± 0.05)",
        "not held: mean completion on the judging set (ours 1.12 ± 0.04)",
    )
    verdict = dict(zip(("shadow", "own", "judging_set"), ({"line": line} for line in lines), strict=True))
    WeightsCandidate.objects.filter(pool=pool).update(verdict=verdict)
    row = stored("learnt-learnt-6", encode(network(BOTH, seed=6)))
    WeightsCandidate.objects.create(
        pool=pool, weights=row, against="0" * 64, from_slot=50, state="offered", verdict=verdict, made_at=timezone.now()
    )
    return pool


def question_of(job: TrainingJob, field: str, value: object, by: Access) -> WhatIfSeen:
    """What if it had said this, in the interval that gave it its place."""
    with scope_disabled("the test looks for an interval"):
        number = Award.objects.values_list("interval__number", flat=True).get(job=job)
    question = {"number": number, "job_id": job.pk, "field": field, "value": value}
    return done(what_if_start(pool_id=job.pool_id, by=by, at=timezone.now(), **question))


def named(role: str) -> User:
    return make_person(email=f"{role}@lumen.example", name=f"{role.title()} of the market")


def job(pool: Pool, tenant: Tenant, name: str, arrival: float, spec: dict[str, object]) -> TrainingJob:
    row = make_waiting(pool, tenant, arrival, **spec)
    with scope_disabled("the test names a job"), as_superuser():
        TrainingJob.objects.filter(pk=row.pk).update(name=name)
    return row


def program_of(job: TrainingJob) -> None:
    """It runs a program, which has told of some epochs and written a few lines, and files. An attempt before was
    lost."""
    now = timezone.now()
    with scope_disabled("the test says what a program did"):
        award = Award.objects.get(job=job)
        job.spec = job.spec | {"program": {"name": "trainer", "parameters": {}}}
        overwrite(job)
        both = {
            "tenant_id": job.tenant_id, "job": job, "award": award, "engine": "local", "program": "trainer",
            "ends_at": job.pool.slot_start(award.end), "due_at": job.pool.slot_start(award.start), "seen_at": now,
        }  # fmt: skip
        before = {"state": "lost", "detail": "server s01 is gone", "started_at": now, "ended_at": now}
        Run.objects.create(key=f"{job.pk:031}b", number=0, **before, **both)
        progress = {"epoch": EPOCHS, "epochs": 400, "loss": 1 / EPOCHS, "minibatch_seconds": 0.7}
        run = Run.objects.create(key=f"{job.pk:032}", number=1, state="running", progress=progress, **both)
    folder = Folder(records().root, home_of(run), run.key)
    folder.make()
    began = (now - timedelta(seconds=5 * EPOCHS)).timestamp()
    rows = [
        {"event": "epoch", "at": began + 5 * epoch, "epoch": epoch, "loss": 1 / epoch, "seconds": 5.0, "workers": 4}
        for epoch in range(1, EPOCHS + 1)
    ]
    folder.progress.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder.work / "checkpoint" / ("a-folder-with-a-long-name-" * 4)).mkdir(parents=True)
    for name in ("checkpoint/model.pt", f"checkpoint/{'a-folder-with-a-long-name-' * 4}/model.pt", "<b>odd\n.txt"):
        (folder.work / name).write_bytes(bytes(1_200_000))  # more than is read at once
    for number in range(20):
        (folder.work / f"sample-{number:02}.png").write_bytes(bytes(1_000 * number))
    (folder.work / "newest").symlink_to("checkpoint/model.pt")
    folder.log.write_text("".join(f"{began + 5 * n:.3f} worker {n % 4} epoch {n} done\n" for n in range(1, EPOCHS)))


def webhook_of(by: Access) -> int:
    with scope(by.tenant):
        result = done(
            webhook_create(
                url="https://hooks.lumen.example/bourse",
                kinds=["job_finished"],
                by=by,
                at=timezone.now(),
                resolve=lambda *_: ["93.184.216.34"],
            )
        )
        return int(result.webhook.pk)


def join_request_of(tenant: Tenant, by: Access) -> str:
    """The tenant takes requests, and one waits for an answer."""
    done(may_be_asked_set(tenant=tenant, on=True, by=by, at=timezone.now()))
    request = {"tenant": tenant.slug, "why": "I train the speech models with Ada.", "person": make_person()}
    return str(done(join_request_create(**request, at=timezone.now())).pk)


def invitation_of(tenant: Tenant, by: Access) -> str:
    invitation = done(
        invitation_create(tenant=tenant, email="new@lumen.example", role=VIEWER, by=by, at=timezone.now())
    )
    return str(invitation.token)

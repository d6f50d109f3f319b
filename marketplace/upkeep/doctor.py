"""Examine a running installation from inside: what is well, and what to do where something is not.

Each check gathers what it needs and judges it. It changes nothing, and a check whose query fails says so in its line.
What does not answer is asked once: a check that needs it says that it was not made, and nobody waits for it again.
"""

from __future__ import annotations

import os
import shutil
import smtplib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

from celery.exceptions import OperationalError as BrokerError
from django.conf import settings
from django.core.cache import cache
from django.core.checks import ERROR, run_checks
from django.core.mail import get_connection
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from redis import Redis
from redis.exceptions import RedisError

from marketplace.celery import app
from marketplace.checks import lacks_step, steps_beyond, steps_to_come
from marketplace.heartbeat import HEARTBEAT_KEY
from marketplace.upkeep.backup import BACKUP_ACTION
from marketplace.upkeep.health import queued_tasks
from marketplace.upkeep.rights import rights_compare, serving_role
from scheduling.engines.base import WrongEngine
from scheduling.models import ChatAddress, OperatorSecret, Server, ServerState, SigningKey, Webhook
from scheduling.operator.read_engines import engine_states, engines_needed
from scheduling.operator.read_operator import pool_states
from scheduling.runs.engines import engines_at_work, run_folders, timings_of
from tenants.common.failures import DATABASE as DATABASE_AWAY
from tenants.common.failures import unavailable_of
from tenants.common.stored_secrets import secret_state
from tenants.models import AuditEntry, StaffGrant
from tenants.roles import OPERATOR
from tenants.scoping import scope_disabled

WELL, WARNING, BROKEN = "well", "warning", "broken"
OLDEST_SERVER = 150_000  # the oldest version, in PostgreSQL's number of it
CLOCK_ODD, CLOCK_WRONG = 1.0, 10.0  # seconds between two clocks
DISK_SHORT, DISK_FULL = 0.10, 0.02  # the free part of the disk
LATE = 120  # seconds by which a pool's boundary may be late
MANY_TASKS = 1_000
NAMES_SHOWN = 5
BACKUP_OLD = timedelta(hours=36)
MAIL_SECONDS = 5.0
WORKERS_SECONDS = 1.0


@dataclass(frozen=True)
class Diagnosis:
    """One line of the doctor. `advice` is what to do, empty where all is well."""

    name: str
    state: str
    sentence: str
    advice: str = ""


Judged = tuple[str, str, str]  # state, sentence, advice


def well(sentence: str) -> Judged:
    return WELL, sentence, ""


def warning(sentence: str, advice: str) -> Judged:
    return WARNING, sentence, advice


def broken(sentence: str, advice: str) -> Judged:
    return BROKEN, sentence, advice


def examine(at: datetime) -> list[Diagnosis]:
    findings, away = list[Diagnosis](), set[str]()
    for name, check in CHECKS.items():
        if missing := next((one for one in (DATABASE, BROKER) if one in away and name in NEEDED_BY[one]), None):
            findings.append(Diagnosis(name, *NOT_MADE[missing]))
            continue
        answers, silent = _answers(check, at)
        findings += [Diagnosis(name, *judged) for judged in answers]
        away |= {silent} if silent else set()
    return findings


def _answers(check: Callable[[datetime], Iterator[Judged]], at: datetime) -> tuple[list[Judged], str]:
    """Return what a check says, up to where something does not answer it, and the name of what does not; empty if all
    answers."""
    answers = list[Judged]()
    try:
        answers.extend(check(at))
    except DatabaseError as error:
        if lacks_step(error):
            answers.append(NO_TABLES)
        else:
            reason = " ".join(str(error).split())[:200].rstrip(".?")
            sentence = f"The database does not answer this: {reason}."
            answers.append(broken(sentence, "Look at PostgreSQL and DATABASE_URL."))
        return answers, DATABASE if unavailable_of(error) is DATABASE_AWAY else ""
    except (RedisError, BrokerError) as error:
        answers.append(broken(f"Redis does not answer: {type(error).__name__}.", "Look at it and at REDIS_URL."))
        return answers, BROKER
    except OSError as error:
        answers.append(_unseen(error))
    return answers, ""


def _unseen(error: OSError) -> Judged:
    """Judge a file or folder that this account may not look at, as those of the services may."""
    return warning(
        f"{error.filename or 'Something'} cannot be looked at: {error.strerror or error}.",
        "Run `manage.py doctor` as root, or under the account of the services.",
    )


def _settings(at: datetime) -> Iterator[Judged]:
    messages = run_checks(include_deployment_checks=not settings.DEVELOPMENT)
    for message in messages:
        judge = broken if message.level >= ERROR else warning
        yield judge(" ".join(f"{message.msg} ({message.id})".split()), message.hint or "Correct it, and start again.")
    if settings.DEVELOPMENT:
        yield warning(
            "DEBUG is on: the demonstration may load here, whose passwords everybody knows.",
            "Set DEBUG=false where others come in.",
        )
    elif not (settings.STATIC_ROOT / "staticfiles.json").is_file():
        yield broken(f"{settings.STATIC_ROOT} has no collected files.", "Run `manage.py collectstatic --noinput`.")
    elif not messages:
        yield well("Settings and collected files are as in production.")


def _database(at: datetime) -> Iterator[Judged]:
    with connection.cursor() as cursor:
        version = cursor.connection.info.server_version
    if version < OLDEST_SERVER:
        yield broken(f"PostgreSQL {version // 10_000} is too old.", "Take PostgreSQL 15 or newer.")
    else:
        yield well(f"PostgreSQL {version // 10_000} answers.")


def _roles(at: datetime) -> Iterator[Judged]:
    if "django_migrations" not in connection.introspection.table_names():
        yield NO_TABLES  # `migrate` gives the rights
        return
    role = serving_role()
    difference = rights_compare(role)
    sentences = list(difference.sentences)
    for sentence in sentences:
        judge = broken if difference.missing and sentence is sentences[-1] else warning
        yield judge(sentence, '"Two roles" in docs/operations.md.')
    if not sentences:
        yield well(f"The role {role} has the rights that it needs, and no others.")


def _migrations(at: datetime) -> Iterator[Judged]:
    to_come = steps_to_come()
    if beyond := steps_beyond(MigrationRecorder(connection).applied_migrations()):
        yield broken(
            f"The database is of a newer version: it has step {beyond[0]}.",
            "Start the processes of that version; this one goes on beside it only for the time of an upgrade.",
        )
    if to_come:
        yield broken(
            f"To be migrated: {len(to_come)}, first {to_come[0]}.",
            "Run `manage.py migrate` with DATABASE_OWNER_URL.",
        )
    if not beyond and not to_come:
        yield well("The tables are those of this version.")


def _clocks(at: datetime) -> Iterator[Judged]:
    apart = {"the database": _clock_of_database(), "Redis": _clock_of_broker()}
    for name, seconds in apart.items():
        if abs(seconds) >= CLOCK_ODD:
            judge = broken if abs(seconds) >= CLOCK_WRONG else warning
            way = "ahead of" if seconds > 0 else "behind"
            yield judge(
                f"The clock of {name} is {abs(seconds):.1f} s {way} ours.",
                "Slots begin by the clock: let a time service (chrony, systemd-timesyncd) run on both machines.",
            )
    if max(map(abs, apart.values())) < CLOCK_ODD:
        yield well("The clocks of the database, Redis and this machine agree.")


def _clock_of_database() -> float:
    """Return how many seconds the database's clock is ahead of ours."""
    before = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (theirs,) = cursor.fetchone()
    return float((theirs - (before + (timezone.now() - before) / 2)).total_seconds())


def _clock_of_broker() -> float:
    with Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2) as broker:
        before = timezone.now()
        seconds, micro_seconds = broker.time()
        middle = before + (timezone.now() - before) / 2
    return seconds + micro_seconds / 1_000_000 - middle.timestamp()


def _queue(at: datetime) -> Iterator[Judged]:
    queued = queued_tasks()
    if queued > MANY_TASKS:
        yield warning(f"Redis answers; {queued:,} tasks wait.", "Start more workers, or look at what they wait for.")
    else:
        yield well(f"Redis answers; {queued} tasks wait.")


def _workers(at: datetime) -> Iterator[Judged]:
    answers = app.control.inspect(timeout=WORKERS_SECONDS).ping() or {}
    if answers:
        yield well(f"{len(answers)} worker{'s answer' if len(answers) > 1 else ' answers'}.")
    else:
        yield broken("No worker answers: no interval is decided.", "Start `celery --app marketplace.celery worker`.")


def _beat(at: datetime) -> Iterator[Judged]:
    if beat := cache.get(HEARTBEAT_KEY):
        yield well(f"Beat's last sign of life was at {datetime.fromtimestamp(beat, UTC):%H:%M:%S} UTC.")
    else:
        yield broken("Beat shows no sign of life, or no worker takes it.", "Start exactly one beat, and a worker.")


def _operators(at: datetime) -> Iterator[Judged]:
    held = StaffGrant.objects.filter(role=OPERATOR, revoked_at=None, user__is_active=True)
    if count := held.values("user").distinct().count():
        yield well(f"{count} operator{'s' * (count > 1)}.")
    else:
        yield warning(
            "There is no operator: nobody can make a pool or a tenant.",
            "Make the first one by `manage.py staff_grant ADDRESS operator --reason WHY`.",
        )


def _market(at: datetime) -> Iterator[Judged]:
    states = pool_states(at)
    late = [state for state in states if not state.held and state.late_seconds > LATE]
    for state in late:
        yield broken(
            f"The pool {state.pool.slug} is {state.late_seconds} s late.",
            "Look at worker and beat, and for lines of its id in the worker's log.",
        )
    if not late:
        yield well(f"{len(states)} pools, none late." if states else "There is no pool yet.")


def _servers(at: datetime) -> Iterator[Judged]:
    """Name the lost servers of each pool, of which nothing is sold. A server that drains is as somebody wants it."""
    servers = list(Server.objects.select_related("pool").order_by("pool__slug", "pk"))
    lost = [server for server in servers if server.state == ServerState.LOST]
    for pool, of_pool in groupby(lost, key=lambda server: server.pool):
        names = [server.name for server in of_pool]
        first = ", ".join(names[:NAMES_SHOWN])
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        yield warning(
            f"Lost in the pool {pool.slug}: {first}{more}. Nothing on them is sold.",
            "Those that the engine lost come back once they are up; the page of a server says why it was lost."
            if pool.servers_return
            else "They wait for an operator: the page of a server says why it was lost, and returns it to service.",
        )
    if servers and not lost:
        draining = sum(server.state == ServerState.DRAINING for server in servers)
        yield well(
            f"{len(servers)} server{'s' * (len(servers) != 1)}, none lost{f'; {draining} drain' if draining else ''}."
        )
    elif not servers:
        yield well("There are no servers yet.")


def _engines(at: datetime) -> Iterator[Judged]:
    needed = sorted(engines_needed())
    at_work = engines_at_work(needed)
    for name in sorted(set(needed) - at_work):
        yield broken(f"No engine {name} is at work: nothing starts.", f"Start `manage.py engine --name {name}`.")
    for name in needed:
        try:
            timings_of(name)
        except WrongEngine as error:
            yield broken(str(error), f"A pool names the engine {name}: give all processes the same ENGINES_FILE.")
    ill = [state for state in engine_states(at) if state.name in at_work and state.alerts]
    for state in ill:
        for alert in state.alerts:
            yield broken(
                f"The engine {state.name} says: {alert}",
                f"Look at what it names; `manage.py engine --name {state.name} --check` looks at all of it.",
            )
    if healthy := sorted(at_work - {state.name for state in ill}):
        yield well(f"At work: the engine {', '.join(healthy)}.")
    if not needed:
        yield well("No pool wants an engine.")


def _disk(at: datetime) -> Iterator[Judged]:
    places = dict[int, Path]()  # by device
    for folder in dict.fromkeys((settings.VAR_DIR, settings.RUNS_DIR, *_run_folders())):
        try:
            place = _existing(folder)
            places.setdefault(place.stat().st_dev, place)
            if place == settings.RUNS_DIR and not os.access(place, os.W_OK | os.X_OK, effective_ids=True):
                yield warning(
                    f"{place} may not be written by this account: an engine under it starts nothing.",
                    "Give it to the account of the services (`chown`), and run `manage.py doctor` under that account.",
                )
        except OSError as error:
            yield _unseen(error)
    for place in sorted(places.values()):
        usage = shutil.disk_usage(place)
        free, sentence = usage.free / usage.total, f"{place}: {usage.free / 2**30:.1f} GiB free"
        if free < DISK_SHORT:
            judge = broken if free < DISK_FULL else warning
            yield judge(f"{sentence}, {free:.0%}.", "Make room; `doctor --forecast` says what grows.")
        else:
            yield well(f"{sentence}.")


def _run_folders() -> list[Path]:
    """Return no folders if the database does not answer: the line "database" reports that."""
    try:
        return run_folders()
    except DatabaseError:
        return []


def _existing(place: Path) -> Path:
    """Return the folder, or the nearest above it that is there already."""
    while True:
        try:
            place.stat()
        except (FileNotFoundError, NotADirectoryError):
            place = place.parent
        else:
            return place


def _mail(at: datetime) -> Iterator[Judged]:
    if "smtp" not in settings.EMAIL_BACKEND:
        yield well("Mail is not sent: it goes to the web server's log.")
        return
    where = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    try:
        with get_connection(timeout=MAIL_SECONDS):
            yield well(f"{where} takes mail.")
    except (OSError, smtplib.SMTPException) as error:
        yield broken(f"{where} takes no mail: {error}.", "Correct EMAIL_...; invitations and new passwords need it.")


def _proxy(at: datetime) -> Iterator[Judged]:
    believed, counted = settings.SECURE_PROXY_SSL_HEADER is not None, settings.ALLAUTH_TRUSTED_PROXY_COUNT > 0
    if settings.SECURE_SSL_REDIRECT and not believed:
        yield warning(
            "Plain requests are sent to https, and no proxy is believed that they came by https.",
            "Behind a proxy that does TLS set BEHIND_TLS_PROXY=true, or browsers go round in a circle.",
        )
    elif believed and not counted:
        yield warning(
            "A proxy is believed about https and not about addresses: everybody shares its limits of log-in.",
            "Set TRUSTED_PROXY_COUNT=1.",
        )
    elif not settings.DEVELOPMENT and set(settings.ALLOWED_HOSTS) <= {"localhost", "127.0.0.1", "[::1]"}:
        yield warning("Only this machine's own names are answered.", "Set ALLOWED_HOSTS to the name that people type.")
    else:
        yield well("A proxy is believed about https and addresses." if believed else "No proxy is expected.")


def _secrets(at: datetime) -> Iterator[Judged]:
    """Check that stored secrets can be read, and whether the keys before SECRET_KEY are still needed for them."""
    with scope_disabled("webhooks of every tenant have stored secrets"):
        stored = [row.secret for row in Webhook.objects.filter(removed_at=None)]
    # A retired key signs nothing more, and its public half checks what it signed: it may be lost.
    retired = [row.secret for row in SigningKey.objects.exclude(retired_at=None)]
    stored += [secret for secret in retired if secret_state(secret) != "unreadable"]
    stored += [row.secret for row in SigningKey.objects.filter(retired_at=None)]
    stored += [row.secret for row in OperatorSecret.objects.filter(removed_at=None)]
    stored += [row.secret for row in ChatAddress.objects.all()]
    states = Counter(secret_state(one) for one in stored)
    before = len(settings.SECRET_KEY_FALLBACKS)
    if states["unreadable"]:
        yield broken(
            f"{_secrets_of(states['unreadable'])} stored under a SECRET_KEY that is not here.",
            "Put it into SECRET_KEY_FALLBACKS; where it is lost, run `manage.py keys --new-bundle-key --reason WHY` "
            "and set the secrets of programs anew, owners make new secrets of their webhooks, and people save the "
            "address of their chat tool anew.",
        )
    if states["older"]:
        yield warning(f"{_secrets_of(states['older'])} stored under an older key.", "Run `manage.py keys --carry`.")
    elif before and not states["unreadable"]:
        yield warning(
            f"SECRET_KEY_FALLBACKS has {before} key{'s' * (before != 1)}, and no stored secret needs them.",
            "Remove them two weeks after the change, when sessions of before are over.",
        )
    if not before and not states["older"] and not states["unreadable"]:
        yield well(f"{len(stored)} stored secrets can be read.")


def _secrets_of(count: int) -> str:
    return "1 secret is" if count == 1 else f"{count} secrets are"


def _backup(at: datetime) -> Iterator[Judged]:
    last = AuditEntry.objects.filter(action=BACKUP_ACTION).order_by("-sequence").first()
    if last is None:
        yield warning("No backup was ever made.", "Run `manage.py backup FOLDER` every night, and keep it elsewhere.")
    elif at - last.at > BACKUP_OLD:
        hours = int((at - last.at).total_seconds() // 3600)
        yield warning(f"The last backup is {hours} hours old.", "Run `manage.py backup FOLDER` every night.")
    else:
        yield well(f"The last backup is of {last.at:%Y-%m-%d %H:%M} UTC.")


DATABASE, BROKER = "database", "broker"
NEEDED_BY: Mapping[str, frozenset[str]] = {
    DATABASE: frozenset(
        {"roles", "migrations", "clocks", "operators", "market", "servers", "engine", "secrets", "backup"}
    ),
    BROKER: frozenset({"clocks", "workers", "beat"}),
}
NOT_MADE: Mapping[str, Judged] = {
    DATABASE: broken("Not looked at, as the database does not answer.", "Begin with the line of the database."),
    BROKER: broken("Not looked at, as Redis does not answer.", "Begin with the line of the broker."),
}
NO_TABLES = broken(
    "Not looked at, as the tables are not those of this version.", "Begin with the line of the migrations."
)

CHECKS: Mapping[str, Callable[[datetime], Iterator[Judged]]] = {
    "settings": _settings,
    DATABASE: _database,
    "roles": _roles,
    "migrations": _migrations,
    BROKER: _queue,
    "clocks": _clocks,
    "workers": _workers,
    "beat": _beat,
    "operators": _operators,
    "market": _market,
    "servers": _servers,
    "engine": _engines,
    "disk": _disk,
    "mail": _mail,
    "proxy": _proxy,
    "secrets": _secrets,
    "backup": _backup,
}

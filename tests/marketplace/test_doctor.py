"""`manage.py doctor` names what is wrong with an installation, and says what helps."""

from __future__ import annotations

import io
import json
import shutil
import socket
import tempfile
from collections import namedtuple
from collections.abc import Iterator
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import psycopg
import pytest
from celery.exceptions import OperationalError as BrokerError
from django.conf import settings as configured
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from marketplace import addresses
from marketplace.embedded.state import ROLE
from marketplace.management.commands.doctor import Command as DoctorCommand
from marketplace.tasks import heartbeat
from marketplace.upkeep.backup import BACKUP_ACTION
from marketplace.upkeep.doctor import BROKEN, CHECKS, NEEDED_BY, WARNING, WELL, Diagnosis, Judged, examine
from marketplace.upkeep.forecast import forecast
from scheduling.feed import EventKind
from scheduling.feed.events import event, events_append
from scheduling.management.commands.engine import _listener, _mine
from scheduling.models import EnginePulse, Server
from tenants import history
from tenants.access import access_of_system
from tenants.models import User
from tenants.roles import AUDITOR, OPERATOR
from tests.another_account import another_account
from tests.database import overrule, run
from tests.scheduling.builders import make_pool
from tests.tenants.builders import make_staff

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_as(monkeypatch, {"celery@here": {"ok": "pong"}})


def answer_as(monkeypatch: pytest.MonkeyPatch, answers: dict[str, dict[str, str]] | None) -> None:
    class Inspect:
        def ping(self):
            return answers

    monkeypatch.setattr("marketplace.upkeep.doctor.app.control.inspect", lambda timeout: Inspect())


def findings_of(name: str) -> list[Diagnosis]:
    return [finding for finding in examine(timezone.now()) if finding.name == name]


def one(name: str) -> Diagnosis:
    (only,) = findings_of(name)
    return only


def test_each_check_says_something_and_only_what_is_amiss_has_advice() -> None:
    findings = examine(timezone.now())
    assert [name for name in CHECKS if name not in {finding.name for finding in findings}] == []
    assert all(bool(finding.advice) == (finding.state != WELL) for finding in findings)
    states = {finding.name: finding.state for finding in findings}
    healthy = ("database", "roles", "migrations", "broker", "clocks", "workers", "market", "engine", "mail", "proxy")
    assert {name: states[name] for name in healthy} == dict.fromkeys(healthy, WELL)


def test_an_installation_without_an_operator_says_how_the_first_one_is_made() -> None:
    nobody = one("operators")
    assert (nobody.state, nobody.sentence) == (WARNING, "There is no operator: nobody can make a pool or a tenant.")
    assert "manage.py staff_grant" in nobody.advice
    make_staff(AUDITOR)
    operator = make_staff(OPERATOR).user
    User.objects.filter(pk=operator.pk).update(is_active=False)
    assert one("operators").state == WARNING
    make_staff(OPERATOR)
    assert (one("operators").state, one("operators").sentence) == (WELL, "1 operator.")
    make_staff(OPERATOR)
    assert one("operators").sentence == "2 operators."


def test_beat_is_missed_until_it_shows_a_sign_of_life(monkeypatch) -> None:
    assert one("beat").state == BROKEN
    heartbeat()
    assert one("beat").state == WELL
    answer_as(monkeypatch, None)
    assert "No worker answers" in one("workers").sentence


def test_broker_that_is_away_is_said_by_each_check_that_needs_it(monkeypatch) -> None:
    def fail(timeout: float) -> None:
        raise BrokerError("Error 111 connecting to 127.0.0.1:1. Connection refused.")

    monkeypatch.setattr("marketplace.upkeep.doctor.app.control.inspect", fail)
    assert one("workers").sentence == "Redis does not answer: OperationalError."


def test_engine_is_at_work_while_it_holds_its_lock() -> None:
    make_pool()
    assert one("engine").advice == "Start `manage.py engine --name local`."
    with _listener() as listener:
        assert _mine(listener, "local")
        assert one("engine") == Diagnosis("engine", WELL, "At work: the engine local.")
    assert one("engine").state == BROKEN


def test_engine_that_is_at_work_and_cannot_start_gangs_is_broken_with_what_it_says() -> None:
    make_pool()
    alert = "The reservation bourse cannot be shown: scontrol did not answer within 3 s."
    with _listener() as listener:
        assert _mine(listener, "local")
        pulse = EnginePulse.objects.create(name="local", alive_at=timezone.now(), alerts=[alert])
        finding = one("engine")
        assert (finding.state, finding.sentence) == (BROKEN, f"The engine local says: {alert}")
        assert "engine --name local --check" in finding.advice
        pulse.alerts = []
        pulse.save()
        assert one("engine").state == WELL


def test_pool_that_nobody_decides_is_late() -> None:
    pool = make_pool()
    assert one("market").sentence.startswith(f"The pool {pool.slug} is ")


@pytest.mark.parametrize(
    ("servers_return", "advice"), [(False, "wait for an operator"), (True, "come back once they are up")]
)
def test_servers_that_are_lost_are_named_with_what_brings_them_back(*, servers_return: bool, advice: str) -> None:
    assert one("servers").sentence == "There are no servers yet."
    pool = make_pool(servers_return=servers_return)
    for number in range(8):
        Server.objects.create(pool=pool, name=f"s{number}", state="lost" if number < 6 else "draining")
    finding = one("servers")
    assert finding.state == WARNING
    assert f"pool {pool.slug}: s0, s1, s2, s3, s4 and 1 more." in finding.sentence
    assert advice in finding.advice
    Server.objects.filter(state="lost").update(state="in_service")
    assert one("servers") == Diagnosis("servers", WELL, "8 servers, none lost; 2 drain.")


def test_role_that_may_do_too_much_is_a_warning_and_one_that_lacks_a_right_is_broken() -> None:
    overrule(f"GRANT TRUNCATE ON scheduling_event TO {ROLE}; REVOKE INSERT ON ledger_seal FROM {ROLE}")
    assert [finding.state for finding in findings_of("roles")] == [WARNING, BROKEN]


def test_migration_that_is_pending_is_named() -> None:
    (last,) = run("SELECT max(name) FROM django_migrations WHERE app = 'scheduling'")[0]
    overrule("DELETE FROM django_migrations WHERE name = %s", [last])
    assert one("migrations").sentence == f"To be migrated: 1, first scheduling {last}."


def test_database_of_a_newer_version_is_broken() -> None:
    overrule("INSERT INTO django_migrations (app, name, applied) VALUES ('scheduling', '9999_later', now())")
    finding = one("migrations")
    assert (finding.state, "scheduling 9999_later" in finding.sentence) == (BROKEN, True)


@pytest.mark.parametrize(("seconds", "state"), [(0.1, WELL), (-3.0, WARNING), (60.0, BROKEN)])
def test_clock_that_is_apart_is_named(seconds: float, state: str, monkeypatch) -> None:
    monkeypatch.setattr("marketplace.upkeep.doctor._clock_of_broker", lambda: seconds)
    assert one("clocks").state == state
    if state != WELL:
        assert f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} ours" in one("clocks").sentence


def test_what_does_not_answer_is_one_line_and_the_others_are_looked_at(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert one("broker") == Diagnosis(
        "broker", BROKEN, "Redis does not answer: ConnectionError.", "Look at it and at REDIS_URL."
    )
    assert one("database").state == WELL


@pytest.fixture
def silent() -> Iterator[int]:
    """A port at which somebody listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_what_is_silent_is_asked_once(silent: int, settings: Settings, monkeypatch) -> None:
    """A command that hangs at what it should name would be no doctor. Celery alone waits for its broker for ever."""
    monkeypatch.setattr(
        "marketplace.upkeep.doctor.app.control.inspect", lambda timeout: pytest.fail("it was asked again")
    )
    settings.REDIS_URL = f"redis://127.0.0.1:{silent}/0"
    findings = {finding.name: finding for finding in examine(timezone.now())}
    assert findings["broker"].sentence == "Redis does not answer: TimeoutError."
    not_made = "Not looked at, as Redis does not answer."
    assert {name: findings[name].sentence for name in ("clocks", "workers", "beat")} == dict.fromkeys(
        ("clocks", "workers", "beat"), not_made
    )
    assert findings["database"].state == findings["backup"].state.replace(WARNING, WELL) == WELL


def test_cache_and_database_that_are_silent_are_waited_for_with_an_end(silent: int) -> None:
    assert configured.CACHES["default"]["OPTIONS"] == {"socket_timeout": 5, "socket_connect_timeout": 5}
    options = addresses.database(f"postgresql://bourse:x@127.0.0.1:{silent}/bourse")["OPTIONS"]
    assert options["connect_timeout"] == addresses.CONNECT_SECONDS < 30


def test_connection_to_a_machine_that_is_gone_ends_whether_we_wait_or_send() -> None:
    options = addresses.database("postgresql://bourse:x@db.lab/bourse")["OPTIONS"]
    idle, interval, count = (options[f"keepalives_{name}"] for name in ("idle", "interval", "count"))
    assert idle + interval * count == addresses.GONE_SECONDS == options["tcp_user_timeout"] / 1000
    longer = addresses.database("postgresql://bourse:x@db.lab/bourse?keepalives_idle=300&tcp_user_timeout=0")["OPTIONS"]
    assert (longer["keepalives_idle"], longer["tcp_user_timeout"]) == ("300", "0"), "an address has the last word"
    assert psycopg.conninfo.make_conninfo(**longer), "PostgreSQL's client knows all of them"


def test_database_that_is_away_is_one_line_and_each_check_that_needs_it_says_so(monkeypatch) -> None:
    def away(at) -> Iterator[Judged]:
        sentence = "connection failed: Connection refused. Is the server running?"
        raise OperationalError(sentence) from psycopg.OperationalError()
        yield

    monkeypatch.setattr("marketplace.upkeep.doctor.CHECKS", {**CHECKS, "database": away})
    findings = {finding.name: finding for finding in examine(timezone.now())}
    assert findings["database"].sentence == (
        "The database does not answer this: connection failed: Connection refused. Is the server running."
    )
    assert {findings[name].sentence for name in NEEDED_BY["database"]} == {
        "Not looked at, as the database does not answer."
    }
    assert {findings[name].state for name in ("broker", "workers", "mail")} == {WELL}


def test_full_disk_is_broken(monkeypatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(100 << 30, 99 << 30, 1 << 30))
    assert {finding.state for finding in findings_of("disk")} == {BROKEN}


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of ours into which nobody without root's rights may look. Python's packages may lie in another one, so
    that only checks run which load none."""
    monkeypatch.setattr("csp.checks.version", {"django-csp": version("django-csp")}.__getitem__)
    checks = {name: CHECKS[name] for name in ("settings", "disk", "operators")}
    monkeypatch.setattr("marketplace.upkeep.doctor.CHECKS", checks)
    with tempfile.TemporaryDirectory() as outer:
        folder = Path(outer) / "closed"
        folder.mkdir()
        Path(outer).chmod(0o755)
        folder.chmod(0)
        yield folder
        folder.chmod(0o700)


def test_folder_into_which_the_account_may_not_look_is_one_line(settings: Settings, closed: Path) -> None:
    settings.DEVELOPMENT, settings.STATIC_ROOT = False, closed / "staticfiles"
    settings.VAR_DIR, settings.RUNS_DIR = closed.parent, closed / "runs"
    with another_account():
        findings = examine(timezone.now())
    lines = [(finding.name, finding.state, finding.sentence) for finding in findings]
    assert ("disk", WARNING, f"{closed / 'runs'} cannot be looked at: Permission denied.") in lines
    assert any(name == "disk" and sentence.startswith(f"{closed.parent}: ") for name, _, sentence in lines)
    manifest = settings.STATIC_ROOT / "staticfiles.json"
    assert ("settings", WARNING, f"{manifest} cannot be looked at: Permission denied.") in lines
    assert {finding.name for finding in findings} == {"settings", "disk", "operators"}
    with another_account(), pytest.raises(CommandError, match=r"runs cannot be looked at: Permission denied\. Run"):
        call_command(DoctorCommand(), forecast=True, stdout=io.StringIO())


def test_folder_of_programs_that_the_account_may_not_write_is_named(settings: Settings, closed: Path) -> None:
    settings.RUNS_DIR = closed
    closed.chmod(0o555)
    with another_account() as another:
        sentences = [finding.sentence for finding in findings_of("disk")]
    assert (f"{closed} may not be written by this account: an engine under it starts nothing." in sentences) == another


@pytest.mark.parametrize(
    ("content", "sentence"), [(None, "ENGINES_FILE cannot be read: "), ("{bad", "is not JSON: "), ("{}", "There is no")]
)
def test_file_of_engines_without_one_that_a_pool_names_is_broken(
    content: str | None, sentence: str, settings: Settings, tmp_path: Path
) -> None:
    make_pool(engine="cluster")
    settings.ENGINES_FILE = str(tmp_path / "engines.json")
    if content is not None:
        (tmp_path / "engines.json").write_text(content)
    broken = [finding for finding in findings_of("engine") if sentence in finding.sentence]
    assert [(finding.state, "give all processes the same" in finding.advice) for finding in broken] == [(BROKEN, True)]


def test_folder_of_a_cluster_into_which_the_account_may_not_look_is_one_line(settings: Settings, closed: Path) -> None:
    make_pool(engine="cluster")
    described = {"kind": "slurm", "partition": "main", "shared": str(closed / "shared")}
    engines = closed.parent / "engines.json"
    engines.write_text(json.dumps({"cluster": described}))
    settings.ENGINES_FILE = str(engines)
    with another_account():
        sentences = [finding.sentence for finding in findings_of("disk")]
    assert f"{closed / 'shared'} cannot be looked at: Permission denied." in sentences


def test_mail_that_nobody_takes_is_broken(settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    assert one("mail").sentence.startswith("127.0.0.1:1 takes no mail: ")


def test_proxy_that_is_half_believed_is_named(settings: Settings) -> None:
    settings.DEVELOPMENT, settings.SECURE_SSL_REDIRECT, settings.ALLOWED_HOSTS = False, True, ["bourse.example"]
    assert "BEHIND_TLS_PROXY=true" in one("proxy").advice
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert one("proxy").advice == "Set TRUSTED_PROXY_COUNT=1."
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    assert one("proxy").state == WELL


def test_backup_grows_old() -> None:
    assert one("backup").sentence == "No backup was ever made."
    for hours, state in ((40, WARNING), (2, WELL)):
        with transaction.atomic():
            at = timezone.now() - timedelta(hours=hours)
            history.append(at=at, by=access_of_system("backup"), action=BACKUP_ACTION, subject="installation")
        assert one("backup").state == state


def test_command_ends_with_1_where_something_is_broken_and_speaks_to_programs(settings: Settings) -> None:
    settings.DEVELOPMENT = True
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", json=True, stdout=out)
    assert ended.value.code == 1
    assert {finding["state"] for finding in json.loads(out.getvalue())} == {WELL, WARNING, BROKEN}
    heartbeat()
    out = io.StringIO()
    call_command("doctor", stdout=out)
    assert "warning  backup      No backup was ever made. Run `manage.py backup" in out.getvalue()


def test_forecast_counts_the_rows_of_the_last_days_and_their_bytes() -> None:
    at = timezone.now()
    with transaction.atomic():
        start = at - timedelta(days=100)
        history.append(at=start, by=access_of_system("tests"), action="backup_make", subject="installation")
    for days, count in ((50, 10), (3, 14)):
        when = at - timedelta(days=days)
        events_append([event(EventKind.SLOT_SETTLED, pool_id=None, at=when) for _ in range(count)])
    others = {line.name: line for line in forecast(at)}["files of programs"]  # of other tests
    log = configured.RUNS_DIR / "gang" / "log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * 700)
    try:
        growth = {line.name: line for line in forecast(at)}
    finally:
        shutil.rmtree(log.parent)
    events = growth["scheduling_event"]
    assert (events.rows, events.fresh, events.rows_a_day) == (24, 14, pytest.approx(2.0))
    assert events.bytes_in_a_year == pytest.approx(365 * 2 * events.bytes / 24)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_total_relation_size('scheduling_event')")
        assert cursor.fetchone() == (events.bytes,)
    files = growth["files of programs"]
    assert (files.bytes - others.bytes, files.bytes_a_day - others.bytes_a_day) == (700, pytest.approx(100))
    out = io.StringIO()
    call_command("doctor", forecast=True, stdout=out)
    assert out.getvalue().splitlines()[-1].startswith(f"All {len(growth)} together: ")

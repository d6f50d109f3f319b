"""How long a statement may take, by the kind of process; and that a request ends at its deadline."""

from __future__ import annotations

import subprocess
import sys
from unittest.mock import Mock

import pytest
from django.db import connection, transaction

from marketplace.processes import product
from scheduling.common.texts import plain_document
from tenants.common.patience import DeadlinePassed, Patience, deadline, give_way, giving_way, in_time
from tenants.models import User
from tests.tenants.builders import make_person
from tests.web import environment

LIMITS_SCRIPT = """
from django.db import connection
with connection.cursor() as cursor:
    for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        cursor.execute(f"SHOW {name}")
        print(cursor.fetchone()[0])
"""
# What each kind of process runs before it asks the database for the first time.
BEGUN = {
    "web": "import marketplace.asgi",
    "worker": "from celery.signals import celeryd_init; from marketplace.celery import app; celeryd_init.send('x')",
    "beat": "from celery.signals import beat_init; from marketplace.celery import app; beat_init.send('x')",
    "engine": "from unittest import mock; import django; django.setup()\n"
    "from django.core.management import call_command\n"
    "with mock.patch('scheduling.management.commands.engine.Command._run', side_effect=KeyError):\n"
    "    try: call_command('engine')\n"
    "    except KeyError: pass\n",
    "command": "import django; django.setup()",
}
LIMITS = {
    "web": ["20s", "10s", "30s"],
    "worker": ["10min", "1min", "0"],
    "beat": ["30s", "10s", "0"],
    "engine": ["1min", "30s", "0"],
    "command": ["0", "0", "0"],
}


def limits_of(kind: str, **variables: str) -> list[str]:
    """The limits that the database tells a process of this kind."""
    command = [sys.executable, "-c", BEGUN[kind] + "\n" + LIMITS_SCRIPT]
    result = subprocess.run(command, env=environment() | variables, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2_000:]
    return result.stdout.split()[-3:]


@pytest.mark.one_case
@pytest.mark.django_db
@pytest.mark.parametrize("kind", BEGUN)
def test_connections_of_each_kind_of_process_have_its_limits(kind: str) -> None:
    assert limits_of(kind) == LIMITS[kind]


@pytest.mark.wide
@pytest.mark.django_db
def test_limits_are_settings_and_the_address_of_the_database_goes_before() -> None:
    url = environment()["DATABASE_URL"] + "&options=-c%20idle_in_transaction_session_timeout%3D3s"
    assert limits_of("web", DATABASE_URL=url, WEB_STATEMENT_SECONDS="7", WEB_LOCK_SECONDS="0") == ["7s", "0", "3s"]


def test_without_limits_no_options_are_sent() -> None:
    """A pooler between may not know them."""
    assert Patience(0, 0).options == ""


def test_every_process_of_the_product_has_a_kind() -> None:
    assert {name.partition("-")[0] for name, _ in product._commands(8000)} == set(LIMITS) - {"command"}


class Clock:
    """One that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.django_db(transaction=True)
def test_after_the_deadline_no_statement_is_sent_and_nothing_is_half_done() -> None:
    clock = Clock()
    person = make_person("ada@example.org", name="Ada")
    with pytest.raises(DeadlinePassed), deadline(10.0, clock), transaction.atomic():  # noqa: PT012
        User.objects.filter(pk=person.pk).update(name="Eve")
        with transaction.atomic():  # a savepoint is given back although the time is over
            clock.now = 10.0
            User.objects.filter(pk=person.pk).update(name="Eva")
    assert User.objects.get(pk=person.pk).name == "Ada"  # the connection is as good as new, and has no deadline
    assert connection.execute_wrappers == []


@pytest.mark.django_db
def test_what_was_committed_before_the_deadline_stays() -> None:
    clock = Clock()
    with pytest.raises(DeadlinePassed), deadline(10.0, clock):  # noqa: PT012
        with transaction.atomic():
            person = make_person("ada@example.org", name="Ada")
        clock.now = 11.0
        person.refresh_from_db()
    assert User.objects.get(email="ada@example.org").name == "Ada"


def test_a_long_computation_asks_whether_there_is_time() -> None:
    in_time()  # there is no deadline
    clock = Clock()
    with deadline(10.0, clock):
        in_time()
        clock.now = 10.0
        with pytest.raises(DeadlinePassed):
            in_time()
    in_time()


def test_who_gives_way_looks_at_the_time_too() -> None:
    clock, pause = Clock(), Mock()
    with giving_way(pause), deadline(10.0, clock):
        give_way()
        clock.now = 10.0
        with pytest.raises(DeadlinePassed):
            give_way()
    give_way()  # nobody's work any more
    assert pause.call_count == 2


@pytest.mark.django_db(transaction=True)
def test_others_go_first_before_each_statement_but_where_somebody_may_wait_for_what_it_holds() -> None:
    person, pause = make_person("ada@example.org", name="Ada"), Mock()
    with giving_way(pause), deadline(10.0, Clock()):
        User.objects.get(pk=person.pk)
        User.objects.get(pk=person.pk)
        assert pause.call_count == 2
        with transaction.atomic():
            User.objects.select_for_update().get(pk=person.pk)
            User.objects.filter(pk=person.pk).update(name="Eve")
        assert pause.call_count == 2


def test_others_go_first_in_the_middle_of_a_long_text() -> None:
    pause = Mock()
    with giving_way(pause):
        plain_document("a: [" + "1," * 999 + "1]", longest=64 * 1024)
    assert pause.call_count > 1_000

"""One PostgreSQL and one Valkey for each test run, in a temporary folder of its own.

They start when the first test needs a database (or the `servers` fixture), so tests of the core never wait for them.
Under pytest-xdist the controlling process starts them for all its workers.
"""

from __future__ import annotations

import fcntl
import gc
import os
import re
import secrets
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
import hypothesis
import psycopg
import pytest
from django.conf import settings
from pytest_django import DjangoDbBlocker

from marketplace.addresses import database
from marketplace.embedded import FORGETFUL, Servers, State
from marketplace.embedded.state import OWNER, ROLE
from marketplace.web.process import GARBAGE_THRESHOLDS
from tenants.common.ownership import LOG_IN

# This must be in place before Django's settings are read. The folder's name is short because sockets live in it.
if "BOURSE_TEST_FOLDER" not in os.environ:
    os.environ["BOURSE_TEST_FOLDER"] = tempfile.mkdtemp(prefix="bourse-test-")
    os.environ["SECRET_KEY"] = secrets.token_urlsafe(50)
FOLDER = Path(os.environ["BOURSE_TEST_FOLDER"])
STATE = State(FOLDER)
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
MIGRATED = "migrated"
LONGEST = (
    "marketplace/test_up.py",
    "browser/test_every_page.py",
    "concurrency/test_market_killed.py",
    "concurrency/test_servers_killed.py",
)
os.environ["DJANGO_SETTINGS_MODULE"] = "marketplace.settings"
os.environ["DEBUG"] = "true"
# Each worker has a database of its own, so two of them have jobs of the same number: so it has its own files.
os.environ["BOURSE_VAR"] = str(FOLDER / f"var{WORKER}")
# The tests log in as the superuser, who may tamper, and work as the role that serves (`tests.database`).
os.environ["DATABASE_URL"] = f"{STATE.superuser_url.replace('/postgres?', '/bourse?')}&assume_role={ROLE}"
os.environ["DATABASE_OWNER_URL"] = STATE.owner_url
# Each worker counts rate limits and sends messages in a Redis database of its own.
os.environ["REDIS_URL"] = STATE.redis_url.replace("db=0", f"db={WORKER.removeprefix('gw') or 0}")

_servers = Servers(STATE, settings=FORGETFUL)

# The time that an example takes depends on how busy the machine is, not on whether the product is right. The examples
# are the same each time, so that a different result is due to a change of the product (`--hypothesis-profile=by-chance`
# draws others).
for name, same in (("the-same", True), ("by-chance", False)):
    hypothesis.settings.register_profile(
        name,
        hypothesis.settings.default,
        deadline=None,
        derandomize=same,
        database=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile("the-same")


@dataclass(frozen=True)
class Part:
    """The tests are dealt out by their names, so a test stays in its part whatever else comes or goes."""

    number: int
    parts: int

    @classmethod
    def of(cls, text: str) -> Part:
        words = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
        if not words or int(words[1]) > int(words[2]):
            raise pytest.UsageError(f"a part is like 2/4, the second of four, and not {text}")
        return cls(int(words[1]), int(words[2]))

    def has(self, name: str) -> bool:
        return zlib.crc32(name.encode()) % self.parts == self.number - 1


# Parameters that do no more than give a test other numbers.
REPEATED, REPETITIONS = ("seed", "first", "block", "part"), 1


def pytest_configure(config: pytest.Config) -> None:
    leads = not WORKER and getattr(config.option, "numprocesses", None)
    if not leads:
        gc.disable()  # until all tests are collected: a third of that time would be a search among what stays
    # pytest-django looks for the settings before this file has named them, so it leaves this to us.
    django.setup()
    assert os.environ["REDIS_URL"] == settings.REDIS_URL, "the settings were read before this file"
    if leads:
        # A worker that inherited this would read the settings before its own Redis database is named above.
        del os.environ["DJANGO_SETTINGS_MODULE"]
        _start_servers()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="1/1", help="one part of the chosen tests only: 2/4 is the second of four")
    parser.addoption("--wide", default="1/1", help="of the wide ones among them one part only")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that repeat themselves with other numbers as wide, from the second time on (`make test-wide`)."""
    indices = item.callspec.indices if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    one_case = item.get_closest_marker("one_case") is not None
    if any(index >= REPETITIONS for name, index in indices.items() if one_case or name in REPEATED):
        item.add_marker("wide")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what another part has, and begin with the longest tests, as a worker that began one of them last would
    work alone in the end."""
    part, wide = Part.of(config.getoption("part")), Part.of(config.getoption("wide"))

    def is_chosen(item: pytest.Item) -> bool:
        return part.has(item.nodeid) and (wide.has(item.nodeid) or not item.get_closest_marker("wide"))

    config.hook.pytest_deselected(items=[item for item in items if not is_chosen(item)])
    items[:] = [item for item in items if is_chosen(item)]
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONGEST))


def pytest_collection_finish() -> None:
    """Leave what is loaded and collected out of the search for garbage, as it lives as long as the tests do. The search
    is made as seldom as in a web process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not WORKER:
        _servers.stop()
        shutil.rmtree(FOLDER, ignore_errors=True)


def _start_servers() -> None:
    if not _servers.running:
        FOLDER.chmod(0o711)  # root's servers run under another account, which must get through to its own folders
        _servers.start()
        with psycopg.connect(STATE.superuser_url) as connection:
            connection.execute(f"ALTER ROLE {OWNER} CREATEDB")  # a database for each worker


@pytest.fixture(scope="session")
def servers() -> Servers:
    """Start the servers for a test that needs Valkey and no database. A test with a database has them already."""
    if not WORKER:
        _start_servers()
    return _servers


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test's own transaction count as committed: else its events would be held back as not yet certain."""
    from scheduling.models import Event

    def newest() -> int:
        return Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0

    monkeypatch.setattr("scheduling.notices.collecting.feed_cursor", newest)
    monkeypatch.setattr("scheduling.webhooks.changes.feed_cursor", newest)
    monkeypatch.setattr("scheduling.webhooks.deliveries.feed_cursor", newest)


@pytest.fixture(scope="session")
def migrated(
    servers: Servers, django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """Log in as the owner of the tables before pytest-django makes the test database, which belongs to that role, and
    make the database with all tables of which that one, and others, are copies."""
    _log_in(settings.DATABASE_OWNER)
    with django_db_blocker.unblock():
        made_once(MIGRATED, _migrate)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(migrated: None) -> None:
    """Let the databases of all workers be copies of one that is migrated once."""
    from django.db import connection

    connection.settings_dict["TEST"] |= {"TEMPLATE": MIGRATED, "MIGRATE": False}


def made_once(name: str, make: Callable[[str], None]) -> None:
    """Make a database of this name, unless another worker has made it. Whoever comes meanwhile waits."""
    with (FOLDER / name).open("a+") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        if not os.fstat(note.fileno()).st_size:
            make(name)
            note.write("made")


def _migrate(name: str) -> None:
    """Make a database with all tables, at which nobody stays connected: so others can be copies of it."""
    from django.db import connection

    ours, test = connection.settings_dict["NAME"], connection.settings_dict["TEST"]
    connection.settings_dict["TEST"] = test | {"NAME": name}
    connection.creation.create_test_db(verbosity=0, serialize=False)
    connection.close()
    connection.settings_dict |= {"NAME": ours, "TEST": test}


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Let tests work in the test database as the role that serves, once it is made."""
    _log_in(database(os.environ["DATABASE_URL"]))
    yield
    _log_in(settings.DATABASE_OWNER)


def _log_in(address: dict[str, Any]) -> None:
    """Log in by this address on all connections to come."""
    from django.db import connection

    connection.close()
    connection.settings_dict.update({name: address[name] for name in LOG_IN})


@pytest.fixture(scope="session", autouse=True)
def _cheap_passwords() -> None:
    """Use Argon2 as in production, but without its slowness."""
    from django.contrib.auth.hashers import Argon2PasswordHasher

    Argon2PasswordHasher.time_cost, Argon2PasswordHasher.memory_cost, Argon2PasswordHasher.parallelism = 1, 8, 1


@pytest.fixture(scope="session", autouse=True)
def _tables_are_emptied_at_once() -> Iterator[None]:
    """Empty the database in a faster way than Django's after a test with `transaction=True`.

    Django truncates, which makes new files for each table and index. That takes a hundred times as long as to delete
    the few rows that a test leaves. It then writes the kinds of contents and permissions anew, which are the same after
    each test: here they stay. Triggers are off, which only a superuser of the database can allow, because the book
    refuses to be emptied. The foreign keys are off with them, so that the order does not matter.
    """
    from django.test import TransactionTestCase

    from tests.database import as_superuser

    resetting = TransactionTestCase._reset_sequences

    def reset(_: Any, database: str) -> None:
        with as_superuser():
            resetting(database)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: _empty_database())
        patch.setattr(TransactionTestCase, "_reset_sequences", classmethod(reset))
        yield


@pytest.fixture
def nothing_built(db: None) -> None:
    """Empty the database for a test that builds a world of its own in a file that shares one (`tests.worlds`)."""
    _empty_database()


def _empty_database() -> None:
    from django.db import transaction

    from tests.database import run, tables_of_tests, without_triggers

    with transaction.atomic(), without_triggers():
        run("; ".join(f'DELETE FROM "{table}"' for table in tables_of_tests()))  # noqa: S608


@pytest.fixture(autouse=True)
def _empty_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    """Empty the cache after each test, so that no rate limit counted in one test reaches the next."""
    yield
    if "servers" in request.fixturenames or "django_db_setup" in request.fixturenames or _uses_database(request):
        from django.core.cache import cache

        cache.clear()


def _uses_database(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("django_db") is not None

import threading

import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.test import Client

from marketplace.embedded import Servers
from marketplace.tasks import heartbeat
from tests.patience import PATIENCE


def test_live_page_answers_without_touching_the_database(client: Client) -> None:
    assert client.get("/healthz").status_code == 200


@pytest.mark.django_db
def test_ready_page_says_that_database_and_broker_answer(client: Client, servers: Servers) -> None:
    reply = client.get("/readyz")
    assert reply.status_code == 200
    assert reply.content == b"database: ok\nbroker: ok\nworker: no sign of life\n"


@pytest.mark.django_db
def test_ready_page_is_a_503_that_keeps_the_reason_to_itself(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OperationalError("password authentication failed for user bourse at db.internal")

    monkeypatch.setattr("marketplace.views.ask_database", fail)
    reply = client.get("/readyz")
    assert reply.status_code == 503
    assert b"database: does not answer\n" in reply.content
    assert b"bourse" not in reply.content


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["database", "broker"])
def test_ready_page_waits_for_nobody_who_is_silent(name: str, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a pool waits for a connection while the database is away; what is asked of the other is not in its way."""
    go_on = threading.Event()
    monkeypatch.setattr(f"marketplace.views.ask_{name}", lambda: go_on.wait(PATIENCE))
    monkeypatch.setattr("marketplace.views.ASK_SECONDS", 0.2)
    try:
        for _ in range(2):
            lines = client.get("/readyz").content.decode().splitlines()
            assert [line for line in lines if "does not answer" in line] == [f"{name}: does not answer"]
    finally:
        go_on.set()
    monkeypatch.undo()
    assert client.get("/readyz").status_code == 200


@pytest.mark.django_db
def test_ready_is_a_page_with_a_way_on_for_a_person(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    accept = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    assert "Bourse is not well" in client.get("/readyz", headers=accept).content.decode()  # no worker has beaten
    heartbeat()
    reply = client.get("/readyz", headers=accept)
    assert reply.status_code == 200
    assert "Bourse is well" in reply.content.decode()
    assert 'href="/"' in reply.content.decode()
    monkeypatch.setattr("marketplace.views.states_now", lambda: {"database": "does not answer", "broker": "ok"})
    reply = client.get("/readyz", headers=accept)
    assert reply.status_code == 503
    assert "Bourse is not well" in reply.content.decode()


@pytest.mark.django_db
def test_ready_page_shows_a_worker_that_has_beaten(client: Client) -> None:
    heartbeat()
    assert b"worker: ok\n" in client.get("/readyz").content


@pytest.mark.django_db
def test_django_finds_no_fault_with_the_models_on_this_database() -> None:
    call_command("check", databases=["default"], fail_level="WARNING")

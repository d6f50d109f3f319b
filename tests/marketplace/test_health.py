import pytest
from django.test import Client

from marketplace.embedded import Servers


def test_live_page_answers_without_touching_the_database(client: Client) -> None:
    assert client.get("/healthz").status_code == 200


@pytest.mark.django_db
def test_ready_page_says_that_database_and_broker_answer(client: Client, servers: Servers) -> None:
    reply = client.get("/readyz")
    assert reply.status_code == 200
    assert reply.content == b"database: ok\nbroker: ok\nworker: no sign of life\n"

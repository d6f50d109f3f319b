from pathlib import Path

from django.conf import settings
from django.test import Client

STYLE = Path(settings.BASE_DIR) / "static" / "look.css"


def test_static_file_comes_whole_with_its_type(client: Client) -> None:
    reply = client.get("/static/look.css")
    assert (reply.status_code, reply["content-type"]) == (200, 'text/css; charset="utf-8"')
    assert not reply.streaming
    assert reply.content == STYLE.read_bytes()


def test_head_of_a_static_file_has_its_length_and_no_body(client: Client) -> None:
    reply = client.head("/static/look.css")
    assert (reply.status_code, reply.content) == (200, b"")
    assert int(reply["content-length"]) == STYLE.stat().st_size


def test_range_of_a_static_file_is_that_range(client: Client) -> None:
    reply = client.get("/static/look.css", headers={"range": "bytes=2-5"})
    assert (reply.status_code, reply.content) == (206, STYLE.read_bytes()[2:6])


def test_unchanged_static_file_is_not_sent_again(client: Client) -> None:
    stamp = client.get("/static/look.css")["last-modified"]
    assert client.get("/static/look.css", headers={"if-modified-since": stamp}).status_code == 304

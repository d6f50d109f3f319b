"""Messages are bounded and hold nothing that runs; strangers are not let in; peers are found in the environment."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.engines.trainer import peers
from scheduling.engines.trainer.channel import Channel, NotOneOfUs, call, listen, serve
from scheduling.engines.trainer.framing import LENGTHS, BadMessage, ConnectionLost, WireMessage, receive, send

SECRET = b"s" * 32


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(5)
        other.settimeout(5)
        yield one, other


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=3), st.dictionaries(st.text(), st.floats()))
def test_what_was_sent_arrives(shapes: list[tuple[int, int]], fields: dict[str, float]) -> None:
    one, other = socket.socketpair()
    dice = np.random.default_rng(0)
    arrays = tuple(dice.standard_normal(shape) for shape in shapes)
    with one, other:
        send(one, WireMessage("push", fields, arrays))
        got = receive(other)
    assert got.kind == "push"
    assert repr(got.fields) == repr(fields)
    assert all(np.array_equal(a, b) and a.shape == b.shape for a, b in zip(arrays, got.arrays, strict=True))


def header(**changes: object) -> bytes:
    return json.dumps({"kind": "push", "fields": {}, "arrays": [["<f8", [2]]], **changes}).encode()


@pytest.mark.parametrize(
    "data",
    [
        LENGTHS.pack(1 << 31, 0),
        LENGTHS.pack(10, 1 << 60),
        LENGTHS.pack(4, 0) + b"!!!!",
        LENGTHS.pack(len(header()), 8) + header() + bytes(8),
        LENGTHS.pack(len(header(arrays=[["|O", [2]]])), 16) + header(arrays=[["|O", [2]]]) + bytes(16),
        LENGTHS.pack(len(header(arrays=[["<f8", [-2]]])), 16) + header(arrays=[["<f8", [-2]]]) + bytes(16),
        LENGTHS.pack(len(header(arrays=[["<f8", [1 << 70]]])), 16) + header(arrays=[["<f8", [1 << 70]]]) + bytes(16),
        LENGTHS.pack(len(header(kind=1)), 16) + header(kind=1) + bytes(16),
        LENGTHS.pack(200_000, 0) + b"[" * 200_000,
    ],
    ids=["long header", "long body", "no JSON", "short body", "objects", "negative", "huge", "kind", "deep"],
)
def test_what_is_no_message_is_refused_before_anything_is_stored(
    pair: tuple[socket.socket, socket.socket], data: bytes
) -> None:
    one, other = pair
    writer = threading.Thread(target=one.sendall, args=(data,))
    writer.start()
    with pytest.raises(BadMessage):
        receive(other)
    writer.join(60)


def test_closed_connection_and_silence_are_told_apart(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    other.settimeout(0.01)
    with pytest.raises(ConnectionLost, match="no answer in time"):
        receive(other)
    one.sendall(LENGTHS.pack(10, 0) + b"half")
    one.close()
    with pytest.raises(ConnectionLost, match="was closed"):
        receive(other)


def echo(channel: Channel) -> None:
    channel.tell(channel.hear())


def test_both_sides_must_know_the_secret() -> None:
    with closing(listen(("127.0.0.1", 0))) as listener:
        serve(listener, SECRET, echo)
        address = listener.getsockname()
        with closing(call(address, SECRET, 60)) as channel:
            assert channel.ask(WireMessage("hello", {"x": 1})).fields == {"x": 1}
        with pytest.raises(ConnectionLost):
            call(address, b"t" * 32, 60)


def test_caller_refuses_a_listener_that_does_not_know_the_secret() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def pretend() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(bytes(32))
                connection.recv(64)
                connection.sendall(bytes(32))

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(NotOneOfUs, match="does not know the job's secret"):
            call(listener.getsockname(), SECRET, 60)
        thread.join(60)


def test_stranger_that_sends_lengths_instead_of_a_proof_is_never_answered() -> None:
    handled = []
    with closing(listen(("127.0.0.1", 0))) as listener:
        serve(listener, SECRET, handled.append)
        with closing(socket.create_connection(listener.getsockname(), 60)) as stranger:
            stranger.sendall(struct.pack(">IQ", 1 << 20, 1 << 28) + bytes(52))
            assert len(stranger.recv(32)) == 32
            assert stranger.recv(1) == b""
    assert handled == []


def test_a_listener_that_may_have_no_more_threads_says_so_and_hears_the_next_caller(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start, refusals = threading.Thread.start, ["can't start new thread"]

    def scarce(thread: threading.Thread) -> None:
        if refusals:
            raise RuntimeError(refusals.pop())
        start(thread)

    with closing(listen(("127.0.0.1", 0))) as listener:
        serve(listener, SECRET, echo)
        monkeypatch.setattr(threading.Thread, "start", scarce)
        with pytest.raises(ConnectionLost, match="closed"):
            call(listener.getsockname(), SECRET, 60)
        with closing(call(listener.getsockname(), SECRET, 60)) as channel:
            assert channel.ask(WireMessage("hello")).kind == "hello"
    assert capsys.readouterr().err == "A caller was turned away: can't start new thread.\n"


TF_CONFIG = json.dumps({
    "cluster": {"chief": ["h:1"], "ps": ["h:2", "h:3"], "worker": ["h:4"]},
    "task": {"type": "ps", "index": 1},
})  # fmt: skip
PLAIN = {"ROLE": "ps", "RANK": "1", "PEERS": "coordinator=h:1 ps=h:2,h:3 worker=h:4"}


def test_both_ways_of_naming_peers_say_the_same() -> None:
    place = peers.read({"TF_CONFIG": TF_CONFIG})
    assert place == peers.read(PLAIN)
    assert (place.role, place.rank, place.own, place.coordinator) == ("ps", 1, ("h", 3), ("h", 1))
    chief = peers.read({"TF_CONFIG": TF_CONFIG.replace('"type": "ps", "index": 1', '"type": "chief", "index": 0')})
    assert (chief.role, chief.own) == ("coordinator", ("h", 1))


def test_a_process_that_joins_later_listens_where_it_likes() -> None:
    assert peers.read({**PLAIN, "RANK": "7"}).own == ("h", 0)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "Neither"),
        ({**PLAIN, "ROLE": "boss"}, "'boss' is none of"),
        ({**PLAIN, "RANK": "-1"}, "not a whole number"),
        ({**PLAIN, "PEERS": "worker=h:4"}, "do not name a coordinator"),
        ({**PLAIN, "PEERS": "coordinator"}, "was expected"),
        ({**PLAIN, "PEERS": "coordinator=h"}, "not an address"),
        ({**PLAIN, "PEERS": "coordinator=h:70000"}, "not an address"),
        ({"TF_CONFIG": "{"}, "TF_CONFIG"),
        ({"TF_CONFIG": '{"cluster": [], "task": {}}'}, "TF_CONFIG"),
    ],
)
def test_surroundings_that_do_not_say_who_we_are_are_refused(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(peers.WrongSurroundings, match=sentence):
        peers.read(environment)

"""Several web processes at one address."""

from __future__ import annotations

import socket
import threading

import pytest

from marketplace.processes.product import PortTaken, require_free, web_processes
from marketplace.web.process import shared_socket
from tests.patience import PATIENCE


def test_two_processes_of_ours_listen_at_one_port_and_both_are_reached() -> None:
    with shared_socket("127.0.0.1", 0) as first, shared_socket("127.0.0.1", first.getsockname()[1]) as second:
        for one in (first, second):
            one.listen()
            one.setblocking(False)
        takers = set()
        for _ in range(64):  # the kernel chooses by the caller's port; all at one of the two: 2 in 10^19
            with socket.create_connection(first.getsockname()) as _caller:
                takers.add(_taker(first, second))
        assert takers == {first, second}


def test_small_answers_are_sent_at_once() -> None:
    """asyncio turns the waiting off only for sockets that say they are of TCP."""
    with shared_socket("127.0.0.1", 0) as ours:
        ours.listen()
        with socket.create_connection(ours.getsockname()), ours.accept()[0] as theirs:
            assert theirs.proto == socket.IPPROTO_TCP


def test_a_port_that_a_running_product_shares_is_taken_for_another() -> None:
    with shared_socket("127.0.0.1", 0) as ours:
        ours.listen()
        with pytest.raises(PortTaken):
            require_free(ours.getsockname()[1], patience=0.0)


def test_a_port_is_waited_for_while_a_run_that_was_killed_leaves_it() -> None:
    ours = shared_socket("127.0.0.1", 0)
    ours.listen()
    leaving = threading.Timer(0.3, ours.close)
    leaving.start()
    require_free(ours.getsockname()[1], patience=PATIENCE)
    leaving.join()


def test_number_of_web_processes_can_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_PROCESSES", "5")
    assert web_processes() == 5
    monkeypatch.delenv("WEB_PROCESSES")
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert web_processes() == 1


def _taker(*listening: socket.socket) -> socket.socket:
    for one in listening:
        try:
            one.accept()[0].close()
        except BlockingIOError:
            continue
        return one
    raise AssertionError("nobody was called")


def test_a_web_process_says_that_its_port_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(SystemExit, match=r"^127\.0\.0\.1:\d+ is taken by another program\.$"):
            shared_socket("127.0.0.1", other.getsockname()[1])

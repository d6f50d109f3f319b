"""A stream of events that breaks is taken up where it broke: each event once, in order."""

from __future__ import annotations

import json
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bourse_client import Client, NotAllowed, Unreachable
from bourse_client.stream import LONGEST_LINE, Place
from tests.client.pace import Hours
from tests.client.stub import Answer, Stub, bad, dropped, streaming, stub_server, text


def piece(number: int) -> str:
    return f"id: {number}\nevent: job_awarded\ndata: {json.dumps({'id': number})}\n\n"


def followed(stub: Stub, hours: Hours, count: int, after: int | None = None) -> list[int]:
    with Client(stub.address, "t", tenant="lumen", pace=hours.pace()) as caller:
        return [event["id"] for event in islice(caller.events_followed(after=after), count)]


def places(stub: Stub) -> list[str | None]:
    return [call.headers.get("last-event-id") for call in stub.calls]


def test_stream_is_resumed_behind_the_last_event() -> None:
    hours = Hours()
    with stub_server(streaming("retry: 2000\n\n", piece(1), piece(2)), dropped, streaming(piece(3))) as stub:
        assert followed(stub, hours, 3) == [1, 2, 3]
    assert places(stub) == [None, "2", "2"]
    assert hours.waits == [2.0, 0.25]


def test_half_an_event_is_asked_for_again_whole() -> None:
    with stub_server(streaming(piece(1), piece(2)[:-1]), streaming(piece(2), piece(3))) as stub:
        assert followed(stub, Hours(), 3) == [1, 2, 3]
    assert places(stub) == [None, "1"]


def test_stream_begins_behind_the_event_that_was_named() -> None:
    with stub_server(streaming(piece(42))) as stub:
        assert followed(stub, Hours(), 1, after=41) == [42]
    assert places(stub) == ["41"]


def test_stream_that_breaks_before_its_first_event_is_resumed_where_it_began() -> None:
    with stub_server(streaming("retry: 2000\nid: 7\n\n"), streaming(piece(8))) as stub:
        assert followed(stub, Hours(), 1) == [8]
    assert places(stub) == [None, "7"]


def test_comments_and_lines_of_several_parts_are_read_as_the_standard_has_it() -> None:
    spread = ': still here\n\nid: 5\ndata: {"id":\ndata: 5}\n\n'
    with stub_server(streaming(spread.replace("\n", "\r\n"))) as stub:
        assert followed(stub, Hours(), 1) == [5]


def test_lost_rights_end_it() -> None:
    with (
        stub_server(streaming(piece(1), "event: closed\ndata: {}\n\n"), bad(403, "not_allowed")) as stub,
        pytest.raises(NotAllowed),
    ):
        followed(stub, Hours(), 2)
    assert len(stub.calls) == 2


def test_silent_half_hours_are_no_failures() -> None:
    quiet = streaming("retry: 2000\n\n", ": still here\n\n")
    with stub_server(*[quiet] * 10, dropped, streaming(piece(1))) as stub:
        assert followed(stub, Hours(), 1) == [1]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (streaming("retry: 2000\nid: 6\n\n", 'id: 7\ndata: {"id": 7,\n\n'), "broken: an event is no JSON"),
        (streaming(f'id: 7\ndata: {{"id": 7, "note": "{"x" * LONGEST_LINE}"}}\n\n'), "broken: an event is too long"),
        (text("<h1>Welcome</h1>\n\n", "text/html"), "text/html, and not text/event-stream. Is this the address"),
    ],
)
def test_what_is_no_event_ends_it_with_a_sentence(answer: Answer, sentence: str) -> None:
    with (
        stub_server(streaming(piece(1)), answer, bad(403, "asked_again")) as stub,
        pytest.raises(Unreachable, match=sentence),
    ):
        followed(stub, Hours(), 2)
    assert len(stub.calls) == 2


def test_server_that_is_gone_for_good_is_said_so() -> None:
    hours = Hours()
    with stub_server(dropped) as stub, pytest.raises(Unreachable):
        followed(stub, hours, 1)
    assert len(stub.calls) == 6


def test_stream_in_which_nothing_ever_comes_is_an_error_and_not_a_silence() -> None:
    hours = Hours()
    with stub_server(streaming()) as stub, pytest.raises(Unreachable, match="the connection was closed"):
        followed(stub, hours, 1)
    assert 300 < hours.now < 600
    assert len(hours.notices) == 1


@pytest.mark.parametrize("away", [dropped, bad(503, "busy")])
def test_stream_waits_out_an_outage(away: Answer) -> None:
    hours = Hours()
    with stub_server(streaming(piece(1)), *[away] * 60, streaming(piece(2))) as stub:
        assert followed(stub, hours, 2) == [1, 2]
        assert hours.notices == [
            f"{stub.address} does not answer. It is asked again for 10 minutes.",
            f"{stub.address} answers again.",
        ]
    assert 300 < hours.now < 600


def test_other_calls_beside_a_stream_wait_for_no_outage() -> None:
    hours = Hours()
    with (
        stub_server(streaming(piece(1)), dropped) as stub,
        Client(stub.address, "t", tenant="lumen", pace=hours.pace()) as caller,
    ):
        events = caller.events_followed()
        assert next(events)["id"] == 1
        with pytest.raises(Unreachable):
            caller.job(7)
        assert (len(stub.calls), hours.now < 90) == (7, True)


def test_stream_ends_with_a_sentence_ten_minutes_into_an_outage() -> None:
    hours = Hours()
    with stub_server(streaming(piece(1)), dropped) as stub, pytest.raises(Unreachable):
        followed(stub, hours, 2)
    assert 590 < hours.now <= 602


@given(st.lists(st.integers(0, 400), max_size=12), st.data())
def test_wherever_a_stream_is_cut_each_event_comes_once_and_whole(numbers: list[int], data: st.DataObject) -> None:
    ids = sorted(set(numbers))
    place, stream_ids = Place(), list[int]()
    while len(stream_ids) < len(ids):
        rest = "retry: 1\n\n" + "".join(piece(number) for number in ids if not place.last or number > int(place.last))
        cut = data.draw(st.integers(0, len(rest)))
        messages = place.messages(rest[:cut].encode().splitlines(keepends=True))
        came = [json.loads(message.data)["id"] for message in messages if message]
        if not came:  # the longest silence ends
            came = [json.loads(message.data)["id"] for message in place.messages(rest.encode().splitlines()) if message]
        stream_ids += came
    assert stream_ids == ids

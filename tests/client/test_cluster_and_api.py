"""`bourse servers`, `bourse share`, `bourse api`: tables whose figures align, and any call with the reader's token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Bourse
from tests.client.stub import Answer, bad, good, stub_server, text
from tests.client.test_command import page

OPTIONS: dict[str, Any] = {"token": "t", "tenant": "lumen"}
SERVERS = [
    {
        "name": "s01",
        "state": "in_service",
        "hosts_workers": True,
        "hosts_ps": True,
        "capacities": [
            {
                "resource": "worker",
                "units": 1_200,
                "cells": [{"tenant": "lumen", "units": 1_000}, {"tenant": "castor", "units": 150}],
                "operator_units": 50,
            },
            {"resource": "ps", "units": 4, "cells": [], "operator_units": 4},
        ],
    },
    {"name": "s\x1b02", "state": "lost", "hosts_workers": True, "hosts_ps": True, "capacities": []},
]
QUOTA = {
    "pool": "main",
    "slot": 1_200,
    "starts_at": "2026-03-02T12:20:00Z",
    "resources": [
        {"resource": "worker", "units": 1_000, "used": 400.0, "lent": 2.5, "idle": 597.5, "rented": 4.0},
        {"resource": "ps", "units": 8, "used": 0.0, "lent": 0.0, "idle": 8.0, "rented": 0.0},
    ],
    "servers": [{"server": "s01", "resource": "worker", "units": 1_000, "used": 400.0, "lent": 2.5, "idle": 597.5}],
    "rented": [{"server": "s03", "resource": "worker", "units": 4.0, "whose": "others' cells"}],
}
SHARING = {
    "rent": "budget",
    "budget": "1250.000000",
    "budget_period": "month",
    "lend": "lend",
    "plan": "renew",
    "reserve_price": {"worker": "12.500000", "ps": "0.051250"},
}


def test_servers_are_listed_with_their_units_and_whose_they_are(bourse: Bourse) -> None:
    with stub_server(page(*SERVERS)) as stub:
        ended = bourse(
            "servers", "--pool", "main", "--state", "in_service", "--state", "lost", url=stub.address, **OPTIONS
        )
    assert ended.status == 0, ended.err
    assert stub.calls[0].path.startswith("/api/v1/pools/main/servers/?state=in_service&state=lost&")
    assert ended.out.splitlines() == [
        "server  state       resource  units  whose",
        "s01     in service  worker    1,200  lumen 1,000, castor 150, the operator 50",
        "s01     in service  ps            4  the operator 4",
    ]


def test_no_server_is_said_in_words(bourse: Bourse) -> None:
    with stub_server(page()) as stub:
        ended = bourse("servers", "--pool", "main", url=stub.address, **OPTIONS)
    assert (ended.status, ended.out, ended.err) == (0, "", "There are no such servers in main.\n")


def test_share_says_what_the_units_do_and_what_is_lent_and_rented_with_points_below_each_other(
    bourse: Bourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bourse_client.command.cluster.zone", lambda: "UTC")
    monkeypatch.setattr("bourse_client.command.cluster.moment", lambda text: text)
    with stub_server(good(QUOTA), good(SHARING)) as stub:
        ended = bourse("share", "--pool", "main", "--servers", url=stub.address, **OPTIONS)
    assert ended.status == 0, ended.err
    assert [call.path for call in stub.calls] == [
        f"/api/v1/tenants/lumen/pools/main/{what}/" for what in ("quota", "sharing")
    ]
    assert ended.out.splitlines() == [
        "Units of lumen in pool main, slot 1,200 from 2026-03-02T12:20:00Z (UTC)",
        "resource    own  used  lent   idle  rented  not lent below",
        "worker    1,000   400   2.5  597.5       4        12.50",
        "ps            8     0   0      8         0         0.05125",
        "",
        "server  resource  whose          units  used  lent   idle",
        "s01     worker    own            1,000   400   2.5  597.5",
        "s03     worker    others' cells      4     4     -      -",
        "",
        "rents  up to 1,250.00 credits in each month",
        "lends  what is idle",
        "plans  renew",
    ]


def test_both_are_json_for_programs(bourse: Bourse) -> None:
    with stub_server(page(SERVERS[0]), good(QUOTA), good(SHARING)) as stub:
        servers = bourse("servers", "--pool", "main", "--json", url=stub.address, **OPTIONS)
        share = bourse("share", "--pool", "main", "--json", url=stub.address, **OPTIONS)
    assert json.loads(servers.out) == [SERVERS[0]]
    assert json.loads(share.out) == {"quota": QUOTA, "sharing": SHARING}


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/me/", "/api/v1/me/"),
        ("me/", "/api/v1/me/"),
        ("/api/v1/me/", "/api/v1/me/"),
        ("/tenants/{tenant}/jobs/?state=queued", "/api/v1/tenants/lumen/jobs/?state=queued"),
    ],
)
def test_a_call_is_made_with_the_readers_token(bourse: Bourse, path: str, address: str) -> None:
    with stub_server(good({"a": 1})) as stub:
        ended = bourse("api", "get", path, url=stub.address, **OPTIONS)
    (call,) = stub.calls
    assert (ended.status, json.loads(ended.out)) == (0, {"a": 1}), ended.err
    assert (call.method, call.path, call.headers["authorization"]) == ("GET", address, "Bearer t")


def test_the_pool_that_is_set_stands_in_the_path(bourse: Bourse) -> None:
    with stub_server(good({})) as stub:
        bourse("api", "GET", "/pools/{pool}/prices/", url=stub.address, pool="gpu", **OPTIONS)
    assert stub.calls[0].path == "/api/v1/pools/gpu/prices/"


def test_fields_of_a_get_are_its_query_and_one_that_comes_again_is_a_list(bourse: Bourse) -> None:
    words = (
        "api",
        "GET",
        "/tenants/{tenant}/jobs/?limit=5",
        "-F",
        "state=queued",
        "-F",
        "state=running",
        "-f",
        "name=1",
    )
    with stub_server(good({})) as stub:
        bourse(*words, url=stub.address, **OPTIONS)
    assert stub.calls[0].path == "/api/v1/tenants/lumen/jobs/?limit=5&state=queued&state=running&name=1"


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_fields_of_a_change_are_its_body_with_their_types(bourse: Bourse, tmp_path: Path, method: str) -> None:
    file = tmp_path / "script"
    file.write_text("#!/bin/sh\n")
    fields = ["a=true", "b=null", "c=12", 'd={"x": [1]}', "e=word", f"g=@{file}", "h=NaN", "i=", "i=x=y"]
    words = [word for field in fields for word in ("--field", field)]
    with stub_server(good({}, status=201)) as stub:
        ended = bourse("api", method, "/x/", *words, "--raw-field", "j=12", "--key", "k", url=stub.address, **OPTIONS)
    (call,) = stub.calls
    assert (ended.status, call.method, call.key) == (0, method, "k"), ended.err
    assert json.loads(call.body) == {
        "a": True, "b": None, "c": 12, "d": {"x": [1]}, "e": "word", "g": "#!/bin/sh\n", "h": "NaN", "i": ["", "x=y"],
        "j": "12",
    }  # fmt: skip


def test_a_body_may_come_whole_by_standard_input(bourse: Bourse) -> None:
    with stub_server(good({}, status=201)) as stub:
        ended = bourse("api", "POST", "/x/", "--input", "-", stdin='[{"a": 1}]', url=stub.address, **OPTIONS)
    assert (ended.status, json.loads(stub.calls[0].body)) == (0, [{"a": 1}]), ended.err
    assert stub.calls[0].key


def test_all_pages_of_a_list_are_one_document(bourse: Bourse) -> None:
    first = good({"next": "https://other.example/api/v1/x/?cursor=2", "previous": None, "results": [1, 2]})
    with stub_server(first, page(3)) as stub:
        ended = bourse("api", "GET", "/x/", "--all", "-F", "state=queued", url=stub.address, **OPTIONS)
    assert json.loads(ended.out) == [1, 2, 3]
    assert [call.path for call in stub.calls] == ["/api/v1/x/?state=queued&limit=200", "/api/v1/x/?cursor=2"]


def binary(handler: Any) -> None:
    handler.whole(200, "application/gzip", b"\x1f\x8b\x00", {})


@pytest.mark.parametrize(
    ("answer", "output", "status", "out"),
    [
        (text("a,b\n1,2\n", "text/csv"), False, 0, "a,b\n1,2\n"),
        (binary, False, 2, ""),
        (binary, True, 0, ""),
    ],
)
def test_text_is_shown_as_it_comes_and_what_is_no_text_goes_to_a_file_alone(
    bourse: Bourse, tmp_path: Path, answer: Answer, output: bool, status: int, out: str
) -> None:
    file = tmp_path / "answer"
    with stub_server(answer) as stub:
        words = ("--output", file) if output else ()
        ended = bourse("api", "GET", "/x/", *words, url=stub.address, **OPTIONS)
    assert (ended.status, ended.out) == (status, out), ended.err
    assert (file.read_bytes() if output else b"") == (b"\x1f\x8b\x00" if output else b"")


@pytest.mark.parametrize(
    "words",
    [
        ("GET", "https://elsewhere.example/x/"),
        ("GET", "//elsewhere.example/x/"),
        ("GET", "/x/../../admin/"),
        ("GET", "/x y/"),
        ("GET", "/x/#y"),
        ("GET", "/x\\y/"),
        ("GET", "/x/", "--key", "k"),
        ("GET", "/x/", "--input", "-"),
        ("GET", "/x/", "--field", "novalue"),
        ("GET", "/x/", "--field", "=novalue"),
        ("GET", "/x/", "--field", "a=@/no/such/file"),
        ("POST", "/x/", "--all"),
        ("POST", "/x/", "--input", "-"),
        ("POST", "/x/", "--input", "-", "--field", "a=1"),
        ("PATCH", "/x/"),
    ],
)
def test_what_cannot_be_meant_is_not_sent(bourse: Bourse, words: tuple[str, ...]) -> None:
    with stub_server(good({})) as stub:
        ended = bourse("api", *words, stdin="no json", url=stub.address, **OPTIONS)
    assert (ended.status, stub.calls) == (2, [])


def test_a_refusal_has_its_status_and_its_reason(bourse: Bourse) -> None:
    with stub_server(bad(404, "not_found", "There is no such page.")) as stub:
        ended = bourse("api", "GET", "/nothing/", url=stub.address, **OPTIONS)
    assert (ended.status, ended.out) == (1, "")
    assert "There is no such page." in ended.err


def test_names_that_are_none_make_no_other_path(bourse: Bourse) -> None:
    with stub_server(bad(404, "not_found")) as stub:
        ended = bourse("api", "GET", "/tenants/{tenant}/pools/{pool}/quota/", url=stub.address, token="t",
                       tenant="a b", pool="../x")  # fmt: skip
    assert ended.status == 1
    assert stub.calls[0].path == "/api/v1/tenants/a%20b/pools/..%2Fx/quota/"


def test_all_pages_of_a_list_go_into_the_file_that_is_named(bourse: Bourse, tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    more = {"next": "http://x/api/v1/pools/?cursor=b", "results": [{"slug": "ü"}]}
    with stub_server(good(more), page({"slug": "b"})) as stub:
        ended = bourse("api", "GET", "/pools/", "--all", "--output", file, url=stub.address, **OPTIONS)
    assert (ended.status, ended.out) == (0, "")
    assert json.loads(file.read_text(encoding="utf-8")) == [{"slug": "ü"}, {"slug": "b"}]
    assert ended.err == f"{file.stat().st_size} bytes are in {file}.\n"

"""Webhooks never call inside our own network, however an address is spelt."""

from __future__ import annotations

import pytest

from scheduling.webhooks.addresses import is_public, target_of
from tenants.access import Refused

PRIVATE = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2001:0:1234::1",
    "nonsense",
    "fec0::1",  # site-local, as it was once
    "feff::1",
    "fc00::1",
    "3fff::1",
    "3fff:fff:ffff::1",
    "2001:db8::1",
    "5f00::1",
    "100::1",
    "192.88.99.1",
    "192.88.99.2",
    "192.0.2.1",
    "198.18.0.1",
    "240.0.0.1",
    # where clouds tell machines about themselves
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "169.254.170.2",
    "fd20:ce::254",
    # the same inside of others
    "::ffff:168.63.129.16",
    "::ffff:192.88.99.1",
    "::ffff:0:7f00:1",
    "::7f00:1",
    "::5db8:d822",
    "64:ff9b::a83f:8110",
    "64:ff9b::c058:6301",
    "64:ff9b:1::5db8:d822",
    "2002:a83f:8110::1",
    "2002:a9fe:a9fe::",
    "2002:c058:6301::",
    "2002:5db8:d822::1",
    "2001::5db8:d822",
    "2606:2800:220:1:0:5efe:7f00:1",
    "2606:2800:220:1:200:5efe:a9fe:a9fe",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_address_inside_is_not_public(address: str) -> None:
    assert not is_public(address)
    target = target_of("https://hooks.example/", resolve=lambda host, port: ["93.184.216.34", address])
    assert isinstance(target, Refused)
    assert target.code == "webhook_address_private"


@pytest.mark.parametrize(
    "address",
    [
        "93.184.216.34",
        "168.63.129.17",
        "192.88.100.1",
        "2606:2800:220:1::1",
        "64:ff9b::5db8:d822",
        "::ffff:93.184.216.34",
        "2606:2800:220:1:0:5efe:5db8:d822",
    ],
)
def test_address_outside_is_public(address: str) -> None:
    assert is_public(address)


def test_refusal_of_an_address_inside_names_the_setting() -> None:
    target = target_of("https://hooks.example/", resolve=lambda host, port: ["10.0.0.1"])
    assert isinstance(target, Refused)
    assert "WEBHOOKS_ALLOW_PRIVATE" in target.sentence


@pytest.mark.parametrize("port", [22, 80, 3306, 8443, 65535])
def test_port_that_nobody_opened_is_refused(port: int) -> None:
    target = target_of(f"https://93.184.216.34:{port}/", resolve=public)
    assert isinstance(target, Refused)
    assert target.code == "invalid_webhook_url"
    assert f"Port {port} " in target.sentence
    assert "WEBHOOKS_PORTS" in target.sentence


def test_port_that_an_operator_opened_is_taken(settings) -> None:
    settings.WEBHOOKS_PORTS = [443, 8443]
    ports = [reached(f"https://93.184.216.34{port}/") for port in ("", ":443", ":8443", ":8444")]
    assert ports == [443, 443, 8443, None]


def test_network_of_ones_own_has_every_port_unless_some_are_named(settings) -> None:
    settings.WEBHOOKS_ALLOW_PRIVATE, settings.WEBHOOKS_PORTS = True, None
    assert [reached(f"http://127.0.0.1{port}/") for port in ("", ":9000", ":0")] == [80, 9000, None]
    settings.WEBHOOKS_PORTS = [9000]
    assert [reached(f"http://127.0.0.1{port}/") for port in ("", ":9000")] == [None, 9000]


def public(host: str, port: int) -> list[str]:
    return ["93.184.216.34"]


def reached(url: str) -> int | None:
    target = target_of(url, resolve=public)
    return None if isinstance(target, Refused) else target.port


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://93.184.216.34/",
        "ftp://93.184.216.34/",
        "https://",
        "https://name@93.184.216.34/",
        "https://:word@93.184.216.34/",
        "https://93.184.216.34/#part",
        "https://93.184.216.34:0/",
        "https://93.184.216.34:99999/",
        "https://93.184.216.34/a b",
        "https://93.184.216.34/\r\nHost: other",
        "https://[::1",
        "https://93.184.216.34\\@127.0.0.1/",
        "https://exämple.org/",
        "https://93.184.216.34/" + "a" * 500,
    ],
)
def test_url_that_is_none_is_refused(url: str) -> None:
    target = target_of(url, resolve=lambda host, port: ["93.184.216.34"])
    assert isinstance(target, Refused)
    assert target.code == "invalid_webhook_url"


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "https://2130706433/", "https://0x7f.1/", "https://localhost/"])
def test_loopback_in_any_spelling_is_refused_by_the_real_resolver(url: str) -> None:
    assert isinstance(target_of(url), Refused)

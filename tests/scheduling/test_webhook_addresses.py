"""Webhooks never call inside our own network, however an address is spelt."""

from __future__ import annotations

import pytest

from scheduling.services.webhooks.addresses import is_public, target_of
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
]


@pytest.mark.parametrize("address", PRIVATE)
def test_address_inside_is_not_public(address: str) -> None:
    assert not is_public(address)
    found = target_of("https://hooks.example/", resolve=lambda host, port: ["93.184.216.34", address])
    assert isinstance(found, Refused)
    assert found.code == "webhook_address_private"


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"])
def test_address_outside_is_public(address: str) -> None:
    assert is_public(address)


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
    found = target_of(url, resolve=lambda host, port: ["93.184.216.34"])
    assert isinstance(found, Refused)
    assert found.code == "invalid_webhook_url"


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "https://2130706433/", "https://0x7f.1/", "https://localhost/"])
def test_loopback_in_any_spelling_is_refused_by_the_real_resolver(url: str) -> None:
    assert isinstance(target_of(url), Refused)

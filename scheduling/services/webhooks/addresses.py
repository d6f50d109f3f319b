"""Which addresses the market may call: public ones. Asked when a webhook is made, and again of the very address that is
connected to, so that a name which changes its answer in between gains nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from django.conf import settings

from tenants.access import Refused

Resolver = Callable[[str, int], Sequence[str]]  # (host, port) -> addresses
LONGEST_URL = 500
_WITHIN = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))  # translated: an IPv4 address at the end


@dataclass(frozen=True)
class Target:
    """Where to connect to, and by which name to ask."""

    scheme: str
    host: str  # as certificates name it
    port: int
    path: str  # with the query
    address: str  # the one to connect to

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _port(self.scheme) else f"{host}:{self.port}"


def addresses_of(host: str, port: int) -> list[str]:
    """As the system's resolver answers; raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))


def target_of(url: str, *, resolve: Resolver = addresses_of) -> Target | Refused:
    """Resolves the name once. Every address that it has must be public, and the first is the one to connect to."""
    parts = _parts(url)
    if isinstance(parts, Refused):
        return parts
    scheme, host, port, path = parts
    try:
        found = resolve(host, port)
    except (OSError, UnicodeError):
        return _wrong("The name of this host is not known.")
    if not found:
        return _wrong("The name of this host is not known.")
    if not settings.WEBHOOKS_ALLOW_PRIVATE and not all(is_public(address) for address in found):
        return _wrong("This address is not a public one.", "webhook_address_private")
    return Target(scheme, host, port, path, found[0])


def is_public(address: str) -> bool:
    """Neither private, loopback, link-local (where clouds keep their metadata), shared, reserved nor multicast; and no
    such address inside an IPv6 one."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    inner = _embedded(found) if isinstance(found, IPv6Address) else None
    return all(one.is_global and not one.is_multicast and not one.is_reserved for one in (inner or found,))


def _embedded(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped:
        return address.ipv4_mapped
    if address.sixtofour:
        return address.sixtofour
    if address.teredo:
        return IPv4Address("127.0.0.1")  # a tunnel to whatever the sender likes
    if any(address in network for network in _WITHIN):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _parts(url: str) -> tuple[str, str, int, str] | Refused:
    if not 0 < len(url) <= LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return _wrong(f"An address has 1 to {LONGEST_URL} printable ASCII characters and no blank.")
    try:
        split = urlsplit(url)
        host, port = split.hostname, split.port
    except ValueError:
        return _wrong("This is no address.")
    schemes = ("https", "http") if settings.WEBHOOKS_ALLOW_PRIVATE else ("https",)
    if split.scheme not in schemes or not host:
        return _wrong("An address begins with https:// and a host.")
    if split.username is not None or split.password is not None or split.fragment:
        return _wrong("An address has neither a name, a password nor a fragment.")
    if port == 0:
        return _wrong("There is no port 0.")
    path = (split.path or "/") + (f"?{split.query}" if split.query else "")
    return split.scheme, host, port or _port(split.scheme), path


def _port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def _wrong(sentence: str, code: str = "invalid_webhook_url") -> Refused:
    return Refused(code, sentence)

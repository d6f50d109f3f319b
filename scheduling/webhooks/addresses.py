"""Decide which addresses the market may call: public ones. This is checked when a webhook is made, and again for the
very address that is connected to, so that a name which changes its answer in between gains nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from django.conf import settings

from tenants.access import Refused

Resolver = Callable[[str, int], Sequence[str]]  # (host, port) -> addresses
LONGEST_URL = 500
PRIVATE = (
    "This address is not a public one. Receivers in the operator's own network are called only where the operator has "
    "set WEBHOOKS_ALLOW_PRIVATE=true."
)
_UNICAST = IPv6Network("2000::/3")  # all that is assigned to public networks; the rest is local or reserved
_TRANSLATED = IPv6Network("64:ff9b::/96")  # NAT64: an IPv4 address at the end
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})  # these bits are before an IPv4 address at the end
# Networks that `is_global` of some versions of Python lets pass, though no receiver is in them.
_NO_RECEIVER = tuple(
    map(
        ip_network,
        (
            "168.63.129.16/32",  # answers machines of a cloud about themselves
            "192.0.0.0/24",  # protocols; 192.0.0.192 answers machines of a cloud about themselves
            "192.88.99.0/24",  # relays from IPv6 to IPv4
            "2001::/23",  # protocols; 2001::/32 are tunnels to whatever the sender likes
            "2001:db8::/32",  # documentation
            "2002::/16",  # an IPv4 address inside an IPv6 one, for relays that are gone; some versions call it private
            "3fff::/20",  # documentation
        ),
    )
)


@dataclass(frozen=True)
class CallTarget:
    """Where to connect to, and the name by which to ask."""

    scheme: str
    host: str  # the name in certificates
    port: int
    path: str  # with the query
    address: str  # the one to connect to

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _port(self.scheme) else f"{host}:{self.port}"


def addresses_of(host: str, port: int) -> list[str]:
    """Return the addresses of a host, as the system's resolver answers. Raises OSError."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in infos))


def target_of(url: str, *, resolve: Resolver = addresses_of) -> CallTarget | Refused:
    """Resolve the name once. Every address that it has must be public, and the first is the one to connect to."""
    parts = _parts(url)
    if isinstance(parts, Refused):
        return parts
    scheme, host, port, path = parts
    try:
        addresses = resolve(host, port)
    except (OSError, UnicodeError):
        return _wrong("The name of this host is not known.")
    if not addresses:
        return _wrong("The name of this host is not known.")
    if not settings.WEBHOOKS_ALLOW_PRIVATE and not all(is_public(address) for address in addresses):
        return _wrong(PRIVATE, "webhook_address_private")
    return CallTarget(scheme, host, port, path, addresses[0])


def is_public(address: str) -> bool:
    """Return whether an address is public: neither private, loopback, link-local (where clouds keep their metadata),
    site-local, shared, reserved, multicast nor for documentation; and no such address inside an IPv6 one."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv4Address):
        return _is_of_the_world(ip)
    if (carrier := ip.ipv4_mapped) or ip in _TRANSLATED:  # an IPv4 address, written as IPv6
        return _is_of_the_world(carrier or _last(ip))
    inner = _last(ip) if int(ip) >> 32 & 0xFFFFFFFF in _ISATAP else None
    return ip in _UNICAST and _is_of_the_world(ip) and (inner is None or _is_of_the_world(inner))


def _is_of_the_world(address: IPv4Address | IPv6Address) -> bool:
    is_public = address.is_global and not address.is_multicast and not address.is_reserved
    return is_public and not any(address in network for network in _NO_RECEIVER)


def _last(address: IPv6Address) -> IPv4Address:
    """Return the IPv4 address in the last 32 bits."""
    return IPv4Address(int(address) & 0xFFFFFFFF)


def _parts(url: str) -> tuple[str, str, int, str] | Refused:
    if not 0 < len(url) <= LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return _wrong(f"An address has 1 to {LONGEST_URL} printable ASCII characters and no blank.")
    try:
        split = urlsplit(url)
        host, port = split.hostname, split.port
    except ValueError:
        return _wrong("This is no address.")
    if split.scheme not in _schemes() or not host:
        return _wrong(f"An address begins with {_beginning()} and a host.")
    if split.username is not None or split.password is not None or split.fragment:
        return _wrong("An address has neither a name, a password nor a fragment.")
    port = _port(split.scheme) if port is None else port
    allowed: Collection[int] | None = settings.WEBHOOKS_PORTS
    if port == 0 or (allowed is not None and port not in allowed):
        ports = f" Open are {', '.join(map(str, sorted(allowed)))}." if allowed else ""
        return _wrong(f"Port {port} is not open for webhooks.{ports} An operator opens others with WEBHOOKS_PORTS.")
    path = (split.path or "/") + (f"?{split.query}" if split.query else "")
    return split.scheme, host, port, path


def address_help() -> str:
    """Return which addresses may be called here, as a sentence."""
    whose = "An address, also one of a private network," if settings.WEBHOOKS_ALLOW_PRIVATE else "A public address"
    return f"{whose} that begins with {_beginning()}."


def _schemes() -> tuple[str, ...]:
    return ("https", "http") if settings.WEBHOOKS_ALLOW_PRIVATE else ("https",)


def _beginning() -> str:
    return " or ".join(f"{scheme}://" for scheme in _schemes())


def _port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def _wrong(sentence: str, code: str = "invalid_webhook_url") -> Refused:
    return Refused(code, sentence)

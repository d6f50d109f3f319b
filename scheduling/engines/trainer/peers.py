"""Read which process this is and where the others are: from TensorFlow's `TF_CONFIG`, or `ROLE`, `RANK` and `PEERS`.

    TF_CONFIG={"cluster": {"chief": ["127.0.0.1:4000"], "ps": [...], "worker": [...]},
               "task": {"type": "ps", "index": 0}}
    ROLE=ps RANK=0 PEERS="coordinator=127.0.0.1:4000 ps=127.0.0.1:4001,127.0.0.1:4002 worker=127.0.0.1:4003"

TensorFlow's chief is the coordinator. `ROLE` is used where both are set. A process that joins later needs only itself
and the coordinator there; the coordinator sends it the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.engines.trainer.channel import Address

COORDINATOR, SERVER, WORKER = "coordinator", "ps", "worker"
ROLES = (COORDINATOR, SERVER, WORKER)
_OTHER_NAMES = {"chief": COORDINATOR, "master": COORDINATOR}


class WrongSurroundings(Exception):
    """Raised where the environment does not say which process this is. The message is a sentence."""


@dataclass(frozen=True)
class PeerPlace:
    """A process's place in its job."""

    role: str
    rank: int
    peers: Mapping[str, tuple[Address, ...]]

    @property
    def coordinator(self) -> Address:
        """The address at which all processes register."""
        return self.peers[COORDINATOR][0]

    @property
    def own(self) -> Address:
        """The address at which this process listens: its entry, or any free port if it has none."""
        addresses = self.peers.get(self.role, ())
        return addresses[self.rank] if self.rank < len(addresses) else (self.coordinator[0], 0)


def read(environment: Mapping[str, str]) -> PeerPlace:
    """Read a process's place from its environment; raises `WrongSurroundings`."""
    if environment.get("ROLE"):
        return _checked(environment["ROLE"], environment.get("RANK", "0"), _plain(environment.get("PEERS", "")))
    if environment.get("TF_CONFIG"):
        return _tensorflow(environment["TF_CONFIG"])
    raise WrongSurroundings("Neither ROLE, RANK and PEERS nor TF_CONFIG is set.")


def _plain(text: str) -> dict[str, tuple[Address, ...]]:
    peers = {}
    for part in text.split():
        role, separator, addresses = part.partition("=")
        if not separator:
            raise WrongSurroundings(f"PEERS has {part!r} where role=host:port,host:port was expected.")
        peers[_OTHER_NAMES.get(role, role)] = tuple(address(item) for item in addresses.split(",") if item)
    return peers


def _tensorflow(text: str) -> PeerPlace:
    try:
        described: Any = json.loads(text)
        task, cluster = described["task"], described["cluster"]
        peers = {
            _OTHER_NAMES.get(role, role): tuple(address(item) for item in entries) for role, entries in cluster.items()
        }
        return _checked(str(task["type"]), str(task["index"]), peers)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise WrongSurroundings("TF_CONFIG is not of the form that TensorFlow describes.") from None


def _checked(role: str, rank: str, peers: Mapping[str, tuple[Address, ...]]) -> PeerPlace:
    role = _OTHER_NAMES.get(role, role)
    if role not in ROLES:
        raise WrongSurroundings(f"The role {role!r} is none of {', '.join(ROLES)}.")
    if not rank.isdecimal():
        raise WrongSurroundings(f"The rank {rank!r} is not a whole number.")
    if not peers.get(COORDINATOR):
        raise WrongSurroundings("The peers do not name a coordinator.")
    return PeerPlace(role, int(rank), peers)


def address(text: str) -> Address:
    """Read `host:port` as a pair; raises `WrongSurroundings`."""
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise WrongSurroundings(f"{text!r} is not an address of the form host:port.")
    return host, int(port)


def text(place: Address) -> str:
    """Return an address as `host:port`."""
    return f"{place[0]}:{place[1]}"

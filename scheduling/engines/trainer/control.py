"""For whoever runs a job: ask its coordinator how it is, to let a member go, to save, to stop.

Processes are added by starting them: `ROLE`, `RANK` and `PEERS` with the coordinator's address are enough, and the
coordinator takes them in.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from scheduling.engines.trainer.channel import Address, call
from scheduling.engines.trainer.framing import WireMessage


class Control:
    """Requests to one job's coordinator. Each raises `ConnectionLost` where nobody answers in time."""

    def __init__(self, address: Address, secret: str, patience: float = 5.0) -> None:
        self.address, self.secret, self.patience = address, secret.encode(), patience

    def _ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        with closing(call(self.address, self.secret, self.patience)) as channel:
            return dict(channel.ask(WireMessage(kind, fields)).fields)

    def status(self) -> dict[str, Any]:
        """State, epoch, loss, ranks of workers and servers, speed."""
        return self._ask("status")

    def remove(self, role: str, rank: int) -> dict[str, Any]:
        """Let a worker or parameter server go at the next scaling clock; `sentence` says why it cannot be."""
        return self._ask("remove", role=role, rank=rank)

    def checkpoint(self) -> dict[str, Any]:
        """Save at the next scaling clock; the event `checkpoint` follows."""
        return self._ask("checkpoint")

    def stop(self) -> dict[str, Any]:
        """Save and end."""
        return self._ask("stop")

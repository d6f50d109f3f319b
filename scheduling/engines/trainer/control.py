"""Control a running job from outside: ask its coordinator for its status, to remove a member, to save, or to stop.

To add a process, start it: `ROLE`, `RANK` and `PEERS` with the coordinator's address are enough, and the coordinator
takes it in.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from scheduling.engines.trainer.channel import Address, call
from scheduling.engines.trainer.framing import WireMessage


class Control:
    """Sends requests to one job's coordinator. Each raises `ConnectionLost` if there is no answer in time."""

    def __init__(self, address: Address, secret: str, patience: float = 5.0) -> None:
        self.address, self.secret, self.patience = address, secret.encode(), patience

    def _ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        with closing(call(self.address, self.secret, self.patience)) as channel:
            return dict(channel.ask(WireMessage(kind, fields)).fields)

    def status(self) -> dict[str, Any]:
        """Return state, epoch, loss, ranks of workers and servers, and speed."""
        return self._ask("status")

    def remove(self, role: str, rank: int) -> dict[str, Any]:
        """Remove a worker or parameter server at the next scaling clock. `sentence` says why if that cannot be done."""
        return self._ask("remove", role=role, rank=rank)

    def checkpoint(self) -> dict[str, Any]:
        """Let the job save at the next scaling clock. The event `checkpoint` follows."""
        return self._ask("checkpoint")

    def stop(self) -> dict[str, Any]:
        """Let the job save and end."""
        return self._ask("stop")

"""A parameter server: it takes gradients of its part of the model, gives out parameters, and moves parts when ordered.

The coordinator's orders come over the connection by which the server registered. So if one of the two dies, the other
sees it at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

from scheduling.engines.trainer.channel import Channel, NotOneOfUs, call, listen, reach, serve
from scheduling.engines.trainer.framing import BadMessage, ConnectionLost, WireMessage
from scheduling.engines.trainer.peers import PeerPlace
from scheduling.engines.trainer.settings import TrainerSettings
from scheduling.engines.trainer.store import Store, as_ranges

DONE, REFUSED, LOST = 0, 2, 3  # exit codes


class ServerProcess:
    """The process of one parameter server."""

    def __init__(self, settings: TrainerSettings, place: PeerPlace, secret: bytes) -> None:
        self.place, self.secret, self.patience = place, secret, settings.patience_seconds
        self.gather_seconds, self.store = settings.gather_seconds, Store(settings)

    def run(self, on_registered: Callable[[Channel], None]) -> int:
        """Run until the coordinator says stop or is gone, and return the exit code."""
        listener = listen(self.place.own)
        serve(listener, self.secret, self._attend)
        with (
            closing(listener),
            closing(reach(self.place.coordinator, self.secret, None, self.gather_seconds)) as coordinator,
        ):
            host, port = listener.getsockname()[:2]
            about = {"role": self.place.role, "rank": self.place.rank, "host": host, "port": port, "pid": os.getpid()}
            coordinator.tell(WireMessage("register", about))
            on_registered(coordinator)
            try:
                while True:
                    order = coordinator.hear()
                    if order.kind in ("stop", "refused"):
                        return DONE if order.kind == "stop" else REFUSED
                    coordinator.tell(self._obey(order))
            except (ConnectionLost, BadMessage):
                return LOST

    def _obey(self, order: WireMessage) -> WireMessage:
        store, fields = self.store, order.fields
        answer: dict[str, Any] = {}
        if order.kind == "load":
            store.load(as_ranges(fields["ranges"]), order.arrays[0], fields["version"])
        elif order.kind == "clock":
            answer["accepted"] = store.shut_at(fields["at"])
        elif order.kind == "hold":
            store.shut()
        elif order.kind == "settle":
            answer["settled"] = store.settle(fields["version"])
        elif order.kind == "give":
            answer["failure"] = self._give(fields)
        elif order.kind == "open":
            store.open(fields["generation"])
        elif order.kind == "fetch":
            return WireMessage("answer", {"ranges": store.ranges, "version": store.version}, (store.values,))
        return WireMessage("answer", {**answer, "version": store.version})

    def _give(self, fields: Any) -> str:
        """Send ranges directly to the servers that keep them from now on, and drop each once it has arrived. Return
        why that failed, or ""."""
        for move in fields["moves"]:
            ranges = as_ranges(move["ranges"])
            parcel = WireMessage("adopt", {"ranges": ranges, "version": self.store.version}, (self.store.cut(ranges),))
            try:
                with closing(call((move["host"], move["port"]), self.secret, self.patience)) as other:
                    other.ask(parcel)
                self.store.drop(ranges)
            except (ConnectionLost, BadMessage, NotOneOfUs) as error:
                return f"the parameter server at {move['host']}:{move['port']} took nothing: {error}"
        return ""

    def _attend(self, caller: Channel) -> None:
        """Serve a worker, or another parameter server that hands ranges over."""
        accepted = True
        while True:
            try:
                message = caller.hear()
                fields = message.fields
                if message.kind == "push":
                    where = fields["version"], fields["chunk"], fields["generation"]
                    accepted = self.store.push(*where, message.arrays[0]) and accepted
                elif message.kind == "pull":
                    pulled = self.store.pull(fields["version"], fields["generation"])
                    suspended = pulled.values is None
                    about = {"version": pulled.version, "suspended": suspended, "accepted": accepted}
                    caller.tell(WireMessage("parameters", about, () if pulled.values is None else (pulled.values,)))
                    accepted = True
                elif message.kind == "adopt":
                    self.store.adopt(as_ranges(fields["ranges"]), message.arrays[0], fields["version"])
                    caller.tell(WireMessage("adopted"))
            except (ConnectionLost, BadMessage, KeyError, IndexError, TypeError, ValueError):
                return caller.close()

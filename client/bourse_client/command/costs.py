"""Ask the person at the terminal before a cancellation that costs something."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bourse_client.command.screen import credits
from bourse_client.command.session import Session
from bourse_client.errors import Refused

COSTS_MORE = "costs_more"  # the interface's code for a cancellation beyond its limit
AS_IT_IS = "Left as it is."
NOTHING = "0"
T = TypeVar("T")


def is_asked(session: Session) -> bool:
    """Return whether there is somebody to ask, who has said neither yes nor a limit. Scripts have no terminal."""
    return session.stdin.isatty() and not session.words.yes and session.words.most is None


def cancel_if_agreed(session: Session, cancel: Callable[..., T], number: int, name: str) -> T | None:
    """Cancel a job or an array, and return it; None where the person would rather keep it. It is cancelled at once only
    if that is free, and later for no more than was shown: where it costs more by then, the person is asked again."""
    most = NOTHING
    while True:
        try:
            # Another limit is another body, so it has another key.
            return cancel(number, most=most, key=session.key_of(f"{number}-{most}"))
        except Refused as refused:
            if refused.code != COSTS_MORE or "costs" not in refused.numbers:
                raise
            most = str(refused.numbers["costs"])
        if not _agrees(session, f"Cancelling {name} costs {credits(most)}, which does not come back. Cancel it?"):
            return None


def _agrees(session: Session, question: str) -> bool:
    print(f"{question} [y/N] ", end="", file=session.screen.err, flush=True)
    return session.stdin.readline().strip().lower() in ("y", "yes")

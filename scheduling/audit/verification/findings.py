"""The findings of a verification: what is wrong, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BEFORE_THE_FIRST = "it stands before the first one, which is number 1"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `where` names the interval, award or pool; `what` says in a sentence what differs
    there."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def differences(where: str, pairs: Mapping[str, tuple[object, object]]) -> list[Finding]:
    """Return one finding for each name whose stored value is not the value it should have."""
    return [
        Finding(where, f"{name} is {_short(stored)}, and should be {_short(right)}")
        for name, (stored, right) in pairs.items()
        if stored != right
    ]


def _short(value: object, longest: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."

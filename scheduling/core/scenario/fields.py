"""Read the fields of a JSON document with checks: every refusal names its place.

A `Section` is one object of the document. Each of its methods reads one field and either returns a value of the
right kind or raises `BadScenario`; the text of a place is made only when a field is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from scheduling.core.names import nearest

REQUIRED: Final = object()
LARGEST: Final = 1e12  # amount allowed: far more than is sensible, and sums of many stay well inside a double


class BadScenario(ValueError):
    """A document cannot be used: the error has the place in it, and what is wrong there."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{place}: {message}")
        self.place, self.message = place, message

    def __reduce__(self) -> tuple[type[BadScenario], tuple[str, str]]:
        return type(self), (self.place, self.message)  # so that it can be passed between processes


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean "epochs"?` for a name close to a known one, else an empty text."""
    near = nearest(name, names)
    return f"; did you mean {quoted(near)}?" if near else ""


def quoted(value: object, longest: int = 40) -> str:
    """Return a value as the document has it, on one line and shortened, so that a message can repeat it."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def number(
    value: object, place: str, *, least: float | None = None, above: float | None = None, most: float = LARGEST
) -> float:
    """Return a finite number of at least `least`, or strictly above `above`, and at most `most`; refuse all others."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadScenario(place, f"must be a number, not {quoted(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadScenario(place, f"must be a finite number, not {quoted(value)}")
    if (least is not None and value < least) or (above is not None and value <= above):
        raise BadScenario(place, f"must be {_bound(value, least, above)}, not {quoted(value)}")
    if abs(value) > most:
        raise BadScenario(place, f"must be at most {most:g}, not {quoted(value)}")
    return float(value) + 0.0  # a written -0.0 is 0.0


def _bound(value: float, least: float | None, above: float | None) -> str:
    if least is None or value <= 0 < least:  # a tiny least only prevents divisions by 0: what matters is the sign
        return f"above {0 if above is None else above:g}"
    return f"{least:g} or more"


def whole(value: object, place: str, *, least: int = 1, most: int = 10**9) -> int:
    """Return an integer in [least, most], and refuse any other value; 3.0 is an integer too."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        kind = {0: "an integer, 0 or more", 1: "a positive integer"}.get(least, f"an integer, {least} or more")
        raise BadScenario(place, f"must be {kind}, not {quoted(value)}")
    if value > most:
        raise BadScenario(place, f"must be at most {most:,}, not {quoted(value)}")
    return value


def whole_or_range(value: object, place: str) -> int | tuple[int, int]:
    """Return a positive integer, or a range [least, most] of them."""
    if not isinstance(value, list | tuple):
        return whole(value, place)
    if len(value) != 2:
        raise BadScenario(place, "must be a number, or a range of two")
    least, most = (whole(end, f"{place}[{k}]") for k, end in enumerate(value))
    if least > most:
        raise BadScenario(place, f"must be a range from low to high, not [{least}, {most}]")
    return least, most


def text(value: object, place: str, *, longest: int = 200) -> str:
    """Return a text of 1 to `longest` printable characters; refuse any other value."""
    if not isinstance(value, str):
        raise BadScenario(place, f"must be a text, not {quoted(value)}")
    if not 0 < len(value) <= longest or not value.isprintable():
        raise BadScenario(place, f"must be 1 to {longest} printable characters, not {quoted(value)}")
    return value


def choice(value: object, place: str, among: Collection[str]) -> str:
    """Return a word that is one of `among`; refuse any other value."""
    if not isinstance(value, str) or value not in among:
        near = suggestion(value, among) if isinstance(value, str) else ""
        raise BadScenario(place, f"must be one of {', '.join(among)}, not {quoted(value)}{near}")
    return value


class Section:
    """One object of a document, and its place there. Fields outside `names` are refused at once."""

    __slots__ = ("fields", "place")

    def __init__(self, value: object, place: str, names: Collection[str]) -> None:
        if not isinstance(value, Mapping):
            raise BadScenario(place or "scenario", f"must be an object, not {quoted(value)}")
        self.fields: Mapping[str, Any] = value
        self.place = place
        for name in value:
            if name not in names:
                raise BadScenario(self.at(name), f"unknown field{suggestion(name, names)}")

    def at(self, name: str) -> str:
        """Return the place of one field."""
        name = name if name.isprintable() and name else ascii(name)
        return f"{self.place}.{name}" if self.place else name

    def has(self, name: str) -> bool:
        """Return whether the field has a value; null counts as no value."""
        return self.fields.get(name) is not None

    def raw(self, name: str, default: Any = REQUIRED) -> Any:
        """Return the field as it is written; a missing one takes the default, or is refused if there is no default."""
        value = self.fields.get(name, default)
        if value is REQUIRED:
            raise BadScenario(self.at(name), "is missing")
        return value

    def number(self, name: str, default: Any = REQUIRED, **bounds: float) -> Any:
        """Return a number within bounds; null is allowed if the default is None."""
        value = self.raw(name, default)
        return None if value is None and default is None else number(value, self.at(name), **bounds)

    def whole(self, name: str, default: Any = REQUIRED, **bounds: int) -> Any:
        """Return an integer within bounds; null is allowed if the default is None."""
        value = self.raw(name, default)
        return None if value is None and default is None else whole(value, self.at(name), **bounds)

    def text(self, name: str, default: Any = REQUIRED, **bounds: int) -> Any:
        """Return a text that is not empty."""
        value = self.raw(name, default)
        return default if value is default else text(value, self.at(name), **bounds)

    def choice(self, name: str, among: Collection[str], default: Any = REQUIRED) -> Any:
        """Return a word that is one of `among`; null is allowed if the default is None."""
        value = self.raw(name, default)
        return None if value is None and default is None else choice(value, self.at(name), among)

    def flag(self, name: str, default: Any = REQUIRED) -> bool:
        """Return true or false; refuse any other value."""
        value = self.raw(name, default)
        if not isinstance(value, bool):
            raise BadScenario(self.at(name), f"must be true or false, not {quoted(value)}")
        return value

    def array(self, name: str, default: Any = REQUIRED, most: int = 10**9) -> list[Any]:
        """Return a list of at most `most` elements."""
        value = self.raw(name, default)
        if not isinstance(value, list | tuple):
            raise BadScenario(self.at(name), f"must be a list, not {quoted(value)}")
        if len(value) > most:
            raise BadScenario(self.at(name), f"must have at most {most:,} elements, not {len(value):,}")
        return list(value)

    def object(self, name: str, default: Any = REQUIRED) -> Mapping[str, Any]:
        """Return an object whose fields are checked elsewhere."""
        value = self.raw(name, default)
        if not isinstance(value, Mapping):
            raise BadScenario(self.at(name), f"must be an object, not {quoted(value)}")
        return value

    def amounts(self, name: str, resources: Collection[str], default: Any = REQUIRED, **bounds: float) -> Any:
        """Return {resource: number} with known resources only; numbers are 0 or more unless bounds are given."""
        value = self.object(name, default)
        return amounts(value, self.at(name), resources, **bounds)


def amounts(value: object, place: str, resources: Collection[str] | None, **bounds: float) -> dict[str, float]:
    """Return {resource: number}; numbers are 0 or more unless bounds are given. If `resources` is None, any resource
    may be named."""
    if not isinstance(value, Mapping):
        raise BadScenario(place, f"must be an object of amounts per resource, not {quoted(value)}")
    checked = {}
    for name, amount in value.items():
        if resources is not None and name not in resources:
            hint = f"; there are {', '.join(resources)}"[:200]
            raise BadScenario(f"{place}.{ascii(name)[1:-1]}", f"unknown resource{suggestion(name, resources) or hint}")
        checked[name] = number(amount, f"{place}.{ascii(name)[1:-1]}", **(bounds or {"least": 0.0}))
    return checked

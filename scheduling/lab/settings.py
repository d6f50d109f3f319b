"""Reading settings of policies from a command line: `theta.worker=16`, `astraea[mode=guarantee,theta.worker=2]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.core.scenario import BadScenario, parse

Setting = tuple[tuple[str, ...], Any]


@dataclass(frozen=True)
class Variant:
    """A policy as one column of a comparison: its name, and what differs from the file's or the default settings."""

    name: str
    changes: tuple[Setting, ...] = ()

    @property
    def label(self) -> str:
        """Return `astraea guarantee theta=2`: short enough for a column, and different for different variants."""
        words = [self.name]
        for (*parent, last), value in self.changes:
            siblings = [other for path, other in self.changes if list(path[:-1]) == parent]
            alike = len(parent) > 0 and len(siblings) > 1 and all(other == value for other in siblings)
            key = ".".join(parent if alike else [*parent, last])  # the same for every resource, so it is named once
            words.append(_word(value) if key == "mode" else f"{key}={_word(value)}")
        return " ".join(dict.fromkeys(words))


def setting(text: str, option: str = "--set") -> Setting:
    """Return the path and the value of KEY=VALUE; the value is JSON, or a bare word."""
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise BadScenario(f"{option} {text}", "must be KEY=VALUE")
    return path, _value(value.strip(), f"{option} {text}")


def _value(text: str, place: str) -> Any:
    try:
        return parse(text)
    except BadScenario as error:
        if text[:1] in '[{"-0123456789' or text in ("NaN", "Infinity"):  # the text was meant to be JSON
            raise BadScenario(place, error.message) from None
    return text


def with_changes(settings: Mapping[str, Any], changes: Sequence[Setting], option: str = "--set") -> dict[str, Any]:
    """Return the settings with each change made at its path; objects on the way are made where there are none."""
    changed: dict[str, Any] = dict(settings)
    for path, value in changes:
        changed = _with_change(changed, path, value, f"{option} {'.'.join(path)}")
    return changed


def _with_change(settings: Mapping[str, Any], path: Sequence[str], value: Any, place: str) -> dict[str, Any]:
    name, *rest = path
    if rest:
        inner = settings.get(name)
        if not isinstance(inner, Mapping | None):
            raise BadScenario(place, f"{name} is {inner!r} and has no fields")
        value = _with_change(inner or {}, rest, value, place)
    return {**settings, name: value}


def settings_for(policy: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    """Return the scenario's own settings for its own policy; any other policy begins with its defaults."""
    return policy if name in (None, policy["name"]) else {"name": name}


def variants(text: str) -> list[Variant]:
    """Return the policies of `--policies`, which are separated by commas; no two may have the same label."""
    policies = [_variant(part.strip()) for part in _split(text)]
    for number, variant in enumerate(policies):
        if variant.label in [earlier.label for earlier in policies[:number]]:
            raise BadScenario("--policies", f"{variant.label} stands twice")
    return policies


def _variant(text: str) -> Variant:
    name, bracket, inside = text.partition("[")
    if not name or (bracket and not inside.endswith("]")):
        raise BadScenario(f"--policies {text}", "must be NAME or NAME[KEY=VALUE,...]")
    changes = [setting(part, "--policies") for part in _split(inside[:-1])] if inside[:-1].strip() else []
    return Variant(name.strip(), tuple(changes))


def _split(text: str) -> Iterator[str]:
    """Return the parts between commas that are outside of brackets."""
    depth, part = 0, ""
    for sign in text:
        depth += (sign in "[{") - (sign in "]}")
        if sign == "," and depth == 0:
            yield part
            part = ""
        else:
            part += sign
    yield part


def _word(value: object) -> str:
    return value if isinstance(value, str) else str(value).replace("'", "").replace(" ", "")

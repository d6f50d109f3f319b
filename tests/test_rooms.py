"""The rooms of `scheduling`: what each lets others use, and which way its own modules know one another.

A room is a folder of one subject, and in `scheduling/market` each folder is one. Import contracts keep the order of the
subjects; here is what they cannot say.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Vocabulary that every room uses, programs of their own, and the two places that know all rooms.
NO_ROOMS = {"core", "programs", "models", "engines", "reasons", "refusals", "apps", "migrations", "management", "app"}
INTERFACES = {"pages", "api"}
VOCABULARY = {"scheduling.feed.kinds", "scheduling.notices.kinds"}  # of a room, and no rule
PARTS_OF_MARKET = {"elastic", "reads", "view", "calendar", "prices", "settle", "decide"}


class Import(NamedTuple):
    """`name` of `source`, imported by `module`; all three as Python calls them."""

    module: str
    source: str
    name: str


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(file): file for file in sorted((ROOT / "scheduling").rglob("*.py"))}


def room_of(module: str) -> str | None:
    """The package that other rooms import it from; None for what is in no room."""
    parts = module.split(".")
    if len(parts) < 2 or parts[1] in NO_ROOMS:
        return None
    if parts[1] == "market" and len(parts) > 2 and parts[2] in PARTS_OF_MARKET:
        return ".".join(parts[:3])
    return ".".join(parts[:2])


def subject_of(module: str) -> str:
    return module.split(".")[1]


def is_interface(module: str) -> bool:
    return not INTERFACES.isdisjoint(module.split(".")[2:3])


def is_read(module: str) -> bool:
    """Whether it only says how things stand: `read_...` and `view_...` of a room, and two folders of the market."""
    inside = module.split(".")[2:]
    return inside[:1] in (["reads"], ["view"]) or any(part.startswith(("read_", "view_")) for part in inside)


def imports_of(module: str) -> Iterator[Import]:
    for node in ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scheduling."):
            assert node.module is not None
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield Import(module, whole, "") if whole in FILES else Import(module, node.module, alias.name)


ROOMS = sorted({room for module in FILES if (room := room_of(module)) is not None and room != "scheduling.lab"})


@cache
def imports() -> list[Import]:
    """Of all modules: read by the first test that asks, and not by whoever only lists the tests."""
    return [each for module in FILES if module != "scheduling" for each in imports_of(module)]


def test_other_rooms_import_only_what_a_room_names() -> None:
    inner = [
        f"{each.module} imports {each.source}"
        for each in imports()
        if room_of(each.module) is not None
        and (room := room_of(each.source)) is not None
        and subject_of(each.module) != subject_of(each.source)
        and not is_interface(each.source)
        and each.source != room
    ]
    assert inner == []


@pytest.mark.parametrize("room", ROOMS)
def test_room_says_what_it_is_for_and_names_what_others_use(room: str) -> None:
    tree = ast.parse(FILES[room].read_text(encoding="utf-8"))
    first = (ast.get_docstring(tree) or "").partition("\n")[0]
    assert first.endswith("."), f"{room} does not say in its first line what it is for"
    named = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    inside = {module.removeprefix(f"{room}.") for module in FILES if module.startswith(f"{room}.")}
    assert named.isdisjoint(inside), "a module of the room would be hidden by a name"
    wanted = {each.name for each in imports() if each.source == room and not each.module.startswith(f"{room}.")}
    assert named - wanted == set(), "nobody outside uses it"


def test_only_interfaces_know_interfaces() -> None:
    upward = [
        f"{each.module} imports {each.source}"
        for each in imports()
        if is_interface(each.source)
        and not is_interface(each.module)
        and subject_of(each.module) not in {"app", "management"}
    ]
    assert upward == []


def test_what_only_reads_knows_nothing_that_decides() -> None:
    """It may know the vocabulary, other reads, and what every room uses."""
    upward = [
        f"{each.module} imports {each.source}"
        for each in imports()
        if is_read(each.module)
        and (room := room_of(each.source)) is not None
        and room != "scheduling.common"
        and not is_read(each.source)
        and not is_read(defining(each))
        and defining(each) not in VOCABULARY
    ]
    assert upward == []


def defining(imported: Import) -> str:
    """The module of a room from which it takes a name that others import from the room itself."""
    for each in imports_of(imported.source):
        if each.name == imported.name:
            return each.source
    return imported.source


def test_tests_lie_as_the_rooms_do() -> None:
    """A folder of tests bears the name of the room that it tests, or is one of those that see the whole product."""
    whole = {"api", "bench", "browser", "cases", "client", "concurrency", "journeys", "ledger", "soak"}
    apps = {"marketplace", "scheduling", "tenants"}
    rooms = {folder.name for folder in (ROOT / "scheduling").iterdir() if (folder / "__init__.py").exists()}
    folders = {folder.name for folder in (ROOT / "tests").iterdir() if (folder / "__init__.py").exists()}
    assert folders <= whole | apps | rooms
    assert {room for room in rooms if room_of(f"scheduling.{room}")} - folders == {"cluster", "common"}

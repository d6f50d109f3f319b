"""Gangs of programs that people brought."""

from __future__ import annotations

import io
import secrets
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from scheduling.engines.base import Counts, Gang, Handle, OwnProgram
from scheduling.engines.local.engine import LocalEngine
from scheduling.programs.catalogue import Program, ProgramOwner, read, values_of
from scheduling.runs.plans import own_program
from tests.engines.local import generations, start, story, until
from tests.patience import PATIENCE

HERE = Path(__file__).parent
RING = {
    "name": "ring",
    "shape": "all_reduce",
    "command": ["python3", "-u", "ring_train.py", "{steps}"],
    "parameters": [{"name": "steps", "kind": "whole", "default": 60, "least": 1}],
    "resize": "restart",
    "grace_seconds": 5,
}


def workers(number: int, server: str = "s1", ps: int = 0) -> dict[str, dict[str, int]]:
    return {server: {"worker": number, "ps": ps}}


def script(text: str, **fields: Any) -> dict[str, Any]:
    return {"name": "script", "shape": "independent", "script": text, "grace_seconds": 2} | fields


def archive(**contents: str | bytes) -> bytes:
    """By name, with two underscores for a dot."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, content in contents.items():
            raw = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name.replace("__", "."))
            entry.size = len(raw)
            tar.addfile(entry, io.BytesIO(raw))
    return data.getvalue()


def told_to_engines(
    document: dict[str, Any], packed: bytes | None, slot_seconds: float, values: dict[str, Any]
) -> OwnProgram:
    program = read(document, ProgramOwner())
    assert isinstance(program, Program), program
    accepted = values_of(program, values)
    assert isinstance(accepted, dict), accepted
    return own_program(program, accepted, job=7, slot_seconds=slot_seconds, archive=packed)


def own(
    document: dict[str, Any],
    *parts: tuple[float, dict[str, dict[str, int]]],
    seconds: float = 30.0,
    packed: bytes | None = None,
    home: str = "job-7",
    slot_seconds: float = 10.0,
    **values: Any,
) -> Gang:
    """From now on on one server, unless `parts` say when it runs where."""
    now = time.time()
    program = told_to_engines(document, packed, slot_seconds, values)
    planned = generations(*(parts or ((now, workers(1)),)), end=now + seconds)
    return Gang(secrets.token_hex(16), home, program.name, {}, planned, now + seconds, tenant="physics", own=program)


def resized(engine: LocalEngine, gang: Gang, servers: Counts, has_begun: Callable[[Handle], object]) -> Handle:
    """Started as it is, and told that it has another size from some seconds on, once it has begun."""
    handle = start(engine, gang)
    until(lambda: has_begun(handle), lambda: story(engine, handle), PATIENCE, engine)
    at, (planned,) = time.time() + 3.0, gang.generations
    engine.change(handle, planned.end, [replace(planned, number=1, at=at, servers=servers)])
    return handle


def with_environment(gang: Gang, **variables: str) -> OwnProgram:
    assert gang.own is not None
    command = replace(gang.own.command, variables={**gang.own.command.variables, **variables})
    return replace(gang.own, command=command)

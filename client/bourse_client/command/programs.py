"""`bourse programs`: show what a job may run, and register, continue and retire the tenant's own programs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bourse_client.command import exits
from bourse_client.command.exits import UsageError
from bourse_client.command.outputs import output_write, require_free
from bourse_client.command.packing import MEBIBYTE, MOST_PACKED
from bourse_client.command.screen import moment, plain, zone
from bourse_client.command.session import Session
from bourse_client.command.written import document_in, text_in
from bourse_client.errors import NotAllowed
from bourse_client.job_file import read_program

OPERATOR = "operator"


def list_programs(session: Session) -> int:
    screen, rows = session.screen, list(session.client.programs())
    if screen.as_json:
        screen.document(rows)
        return exits.DONE
    heads = ("name", "version", "owner", "shape", "runs", "ended well", "title")
    screen.table(heads, [_row(row) for row in rows], right=("version", "runs", "ended well"))
    return exits.DONE


def show(session: Session) -> int:
    screen, words = session.screen, session.words
    page = session.client.program(words.name, owner=_owner(session), version=words.number)
    if screen.as_json:
        screen.document(page)
        return exits.DONE
    program, deeds = page["program"], page["program"]["deeds"]
    screen.pairs(
        [
            ("name", program["name"]),
            ("owner", program["owner"]),
            ("version", _version(page["version"])),
            ("shape", program["shape"]),
            ("title", program["title"]),
            ("runs", f"{deeds['runs']:,}, {deeds['ended_well']:,} ended well, {deeds['hours']:,.1f} hours"),
            ("retired", f"{moment(program['retired_at'])} ({zone()})" if program["retired_at"] else ""),
        ]
    )
    for parameter in page["parameters"]:
        screen.line(f"parameter {plain(parameter['name'])}: {plain(_parameter(parameter))}")
    for version in page["versions"]:
        screen.line(f"version {version['version']}: {moment(version['registered_at'])}, {version['digest'][:12]}")
    document = page["document"]
    if document is None:
        if page["version"] is not None:
            screen.note("Its words are shown to members of its owner and to the operator alone.")
    elif "script" in document:
        for line in document["script"].split("\n"):
            screen.line("\t".join(map(plain, line.split("\t"))))
    else:
        screen.line(json.dumps(document["command"]))
    return exits.DONE


def _parameter(parameter: Mapping[str, Any]) -> str:
    """Return what a submitter may say for a parameter."""
    least, most = parameter.get("least"), parameter.get("most")
    bounds = "" if least is None else f"from {least} on" if most is None else f"from {least} to {most}"
    if least is None and most is not None:
        bounds = f"at most {most}"
    choices = f"one of {', '.join(map(str, parameter['choices']))}" if parameter.get("choices") else ""
    rest = (bounds, choices, parameter.get("unit", ""), parameter.get("help", ""))
    return ", ".join([parameter["kind"], json.dumps(parameter["default"]), *filter(None, rest)])


def register(session: Session) -> int:
    """Register a program. If its name exists already, this makes the next version; what says nothing new, its archive
    included, gives the newest version again."""
    screen, words, client = session.screen, session.words, session.client
    document = document_in(words.file, text_in(session, words.file), read_program)
    archive = _archive(words.archive)
    name, before = document.get("name"), None
    if archive is not None:
        with contextlib.suppress(NotAllowed):  # a token may send programs that may not read them
            before = _version_of_own(session, name)
        page = client.program_upload(document, archive, key=session.key)
    elif before := _version_of_own(session, name):
        # Another key than that of a first version: given again after a lost answer, the command comes here.
        page = client.program_continue(str(name), document, key=session.key_of("next"))
    else:
        page = client.program_register(document, key=session.key)
    if screen.as_json:
        screen.document(page)
    else:
        screen.line(f"{page['program']['name']}, version {page['version']}: {page['program']['digest']}")
        if page["version"] == before:
            screen.note("It says nothing new: this is the version that was there.")
        elif (number := _version_with_files(page)) is not None:
            screen.note(f"It has no files, and version {number} had some: --archive brings them.")
    return exits.DONE


def _version_of_own(session: Session, name: object) -> int | None:
    """Return the newest version of the tenant's own program of this name, or None if there is no such program."""
    client = session.client
    mine = (row for row in client.programs() if row["name"] == name and row["owner"] == client.tenant)
    return next((row["version"] for row in mine), None)


def _version_with_files(page: Mapping[str, Any]) -> int | None:
    """Return the version before the newest if that one had files and the newest has none."""
    newest, before = [*page["versions"], None, None][:2]
    return before["version"] if newest and before and before["archive"] and not newest["archive"] else None


def retire(session: Session) -> int:
    page = session.client.program_retire(session.words.name, key=session.key)
    if session.screen.as_json:
        session.screen.document(page)
    else:
        session.screen.line(f"{page['program']['name']} is retired.")
    return exits.DONE


def archive(session: Session) -> int:
    words, client = session.words, session.client
    require_free(session)
    owner = _owner(session)
    version = words.number or client.program(words.name, owner=owner)["version"]
    if version is None:
        raise UsageError(f"{words.name}: it comes with the product and has no archive.")
    output_write(session, client.program_archive(words.name, version, owner=owner))
    return exits.DONE


def _owner(session: Session) -> str:
    """Return the owner that the command line names, else that of the first program of this name: the tenant's own comes
    first."""
    if session.words.owner:
        return str(session.words.owner)
    owners = [row["owner"] for row in session.client.programs() if row["name"] == session.words.name]
    return owners[0] if owners else OPERATOR


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    deeds = row["deeds"]
    counts = (f"{deeds['runs']:,}", f"{deeds['ended_well']:,}")
    return (row["name"], _version(row["version"]), row["owner"], row["shape"], *counts, row["title"])


def _version(number: int | None) -> str:
    return "built in" if number is None else str(number)


def _archive(name: str | None) -> bytes | None:
    if name is None:
        return None
    try:
        with Path(name).open("rb") as stream:
            content = stream.read(MOST_PACKED + 1)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}.") from error
    if len(content) > MOST_PACKED:
        raise UsageError(f"{name}: an archive has at most {MOST_PACKED // MEBIBYTE} MiB.")
    return content

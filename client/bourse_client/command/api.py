"""`bourse api`: send any call of the interface, for what has no command of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from bourse_client.command import exits
from bourse_client.command.session import Session
from bourse_client.command.written import text_in
from bourse_client.job_file import read_json
from bourse_client.transport import ANY, JSON, ROOT, Reply


def api(session: Session) -> int:
    words, client = session.words, session.client
    path, fields = _path(session), _fields(session)
    if words.method == "GET":
        if words.input or words.key:
            raise exits.UsageError("--input and --key are for changes; a GET has neither.")
        path, _, query_text = path.partition("?")
        query: dict[str, Any] = parse_qs(query_text) | fields
        if words.all:
            return _show_all(session, list(client.listed(path, query)))
        return _show(session, client.transport.call("GET", path, query=query, accept=ANY))
    if words.all:
        raise exits.UsageError("--all is for lists, which are read by GET.")
    body = _body(session, fields)
    return _show(session, client.transport.call(words.method, path, body=body, key=session.key, accept=ANY))


def _path(session: Session) -> str:
    """Return the typed path below /api/v1/, whether it names that or not. The token goes to the server that is set, and
    nowhere else."""
    typed = str(session.words.path)
    path = ("/" + typed.lstrip("/")).removeprefix(ROOT.rstrip("/")).lstrip("/")
    if "://" in typed or typed.startswith("//") or "\\" in typed or not typed.isascii() or not typed.isprintable():
        raise exits.UsageError(f"{typed} is no path of the interface; write it as /tenants/{{tenant}}/jobs/.")
    if " " in path or "#" in path or ".." in path.partition("?")[0].split("/"):
        raise exits.UsageError(f"{typed}: a path has neither blanks, nor # nor .. in it.")
    if "{tenant}" in path:
        path = path.replace("{tenant}", quote(session.client.tenant, safe=""))
    if "{pool}" in path:
        path = path.replace("{pool}", quote(session.settings.pool or session.client.only_pool(), safe=""))
    return path


def _fields(session: Session) -> dict[str, Any]:
    """Return the typed fields by name; a name that is repeated makes a list."""
    words, body = session.words, dict[str, Any]()
    typed = [(name, _value(session, text)) for name, text in _pairs(words.field)]
    for name, value in [*typed, *_pairs(words.raw_field)]:
        if name in body:
            before = body[name] if isinstance(body[name], list) else [body[name]]
            body[name] = [*before, value]
        else:
            body[name] = value
    return body


def _pairs(fields: Sequence[str]) -> list[tuple[str, str]]:
    pairs = [each.partition("=") for each in fields]
    for (name, mark, _), each in zip(pairs, fields, strict=True):
        if not name or not mark:
            raise exits.UsageError(f"{each}: a field is written as NAME=VALUE.")
    return [(name, value) for name, _, value in pairs]


def _value(session: Session, text: str) -> Any:
    """Return a typed value: a word is a text; true, null, 12, [1] and {"a": 1} are what they are in JSON. In a query
    every value is a text."""
    if text.startswith("@"):
        return text_in(session, text[1:])
    if session.words.method == "GET":
        return text
    try:
        return read_json(text)
    except ValueError:
        return text


def _body(session: Session, fields: dict[str, Any]) -> Any:
    if not session.words.input:
        return fields
    if fields:
        raise exits.UsageError("The body is in --input, or in fields; not in both.")
    name = session.words.input
    try:
        return read_json(text_in(session, name))
    except ValueError as error:
        raise exits.UsageError(f"{name}: it is no JSON. {str(error).rstrip('.')}.") from error


def _show_all(session: Session, results: list[Any]) -> int:
    if session.words.output:
        _write(session, json.dumps(results, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace") + b"\n")
    else:
        session.screen.document(results)
    return exits.DONE


def _write(session: Session, content: bytes) -> None:
    output = session.words.output
    try:
        Path(output).write_bytes(content)
    except OSError as error:
        raise exits.UsageError(f"{output}: {error.strerror}.") from error
    session.screen.note(f"{len(content):,} bytes are in {output}.")


def _show(session: Session, reply: Reply) -> int:
    """Show JSON as a document, and other text as it comes. An answer that is no text goes only to a file."""
    screen, output = session.screen, session.words.output
    kind = reply.headers.get("content-type", "").partition(";")[0].strip()
    if output:
        _write(session, reply.body)
    elif kind == JSON:
        screen.document(reply.json())
    elif kind.startswith("text/"):
        screen.out.write(reply.body.decode(errors="replace"))
    elif reply.body:
        raise exits.UsageError(f"The answer is {kind or 'no text'}: name a file for it with --output.")
    return exits.DONE

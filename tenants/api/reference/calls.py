"""How an operation is called from a terminal: as `curl`, and by the client of the product."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

PREFIX = "/api/v1/"
# The values that stand for the variable parts of an address.
PLACES: Mapping[str, object] = {
    "tenant_slug": "lumen",
    "owner_slug": "castor",
    "pool_slug": "main",
    "server_name": "s01",
    "job_id": 4711,
    "number": 120,
    "name": "align-train",
    "version": 4,
}
ANY_NUMBER = 17
# For an operation, the words of `bourse` that do the same.
COMMANDS: Mapping[str, str] = {
    "me_read": "bourse tenants",
    "jobs_list": "bourse jobs list --state running",
    "jobs_read": "bourse jobs show 4711",
    "jobs_create": "bourse jobs submit job.yaml --wait",
    "jobs_bulk": "bourse jobs submit jobs.jsonl --bulk",
    "job_cancel": "bourse jobs cancel 4711",
    "jobs_cancel": "bourse jobs cancel 4711 4712",
    "job_queue": "bourse jobs queue 4711",
    "jobs_explain": "bourse explain 4711",
    "jobs_logs": "bourse logs 4711 --follow",
    "jobs_files": "bourse files 4711",
    "jobs_file_content": "bourse files 4711 --fetch results checkpoint/model.pt",
    "quotes_create": "bourse quote job.yaml",
    "programs_list": "bourse programs list",
    "programs_read": "bourse programs show align-train",
    "programs_register": "bourse programs register train.yaml",
    "program_versions_register": "bourse programs register train.yaml",
    "programs_retire": "bourse programs retire align-train",
    "program_archive_read": "bourse programs archive align-train train.tar.gz",
    "prices_now": "bourse prices --pool main",
    "prices_ahead": "bourse prices --pool main",
    "ledger_balances": "bourse balance",
    "statements_read": "bourse statement --month 2026-11",
    "statement_lines": "bourse statement --month 2026-11 --csv",
    "events_list": "bourse events",
    "events_stream": "bourse events --follow",
}


def example_path(path: str, places: Mapping[str, object] = PLACES) -> str:
    """Return the address with a value in each of its variable parts."""
    for part in variable_parts(path):
        path = path.replace(f"{{{part}}}", quote(str(places.get(part, ANY_NUMBER)), safe=""))
    return path


def variable_parts(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def curl(method: str, address: str, *, needs_token: bool, body: Any, kind: str) -> str:
    """Return the call by curl. `kind` is the media type of the answer. Each line but the last ends in a backslash."""
    parts = ["curl"]
    if kind == "text/event-stream":
        parts.append("-N")
    if method != "GET":
        parts.append(f"-X {method}")
    if needs_token:
        parts.append('-H "Authorization: Bearer $BOURSE_TOKEN"')
    if method == "POST":
        parts.append('-H "Idempotency-Key: $(uuidgen)"')
    if body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body, indent=2))}"]
    if kind == "application/zip":
        parts.append("-o answer.zip")
    return " \\\n  ".join([*parts, shlex.quote(address)])


def command(name: str) -> str:
    return COMMANDS.get(name, "")


def library(
    method: str, path: str, base: str, *, body: Any, is_list: bool, places: Mapping[str, object] = PLACES
) -> str:
    """Return the call by the client's library, for an operation without words of `bourse`. It is empty if the library
    has no method for it."""
    client, place = f'Client("{base}", token)', example_path(path, places).removeprefix(PREFIX)
    if method == "GET":
        return f'list({client}.listed("{place}", {{}}))' if is_list else f'{client}.get("{place}")'
    if method == "POST":
        return f'{client}.post("{place}", {body!r}, None)'
    return ""

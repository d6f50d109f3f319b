"""Batch scripts: the options that go with one, and what becomes of each of its lines."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from argparse import Namespace
from datetime import datetime
from pathlib import Path
from typing import Any

from bourse_client.command import exits
from bourse_client.command.parser import ArrayNumber
from bourse_client.command.screen import Screen, moment, plain, zone
from bourse_client.shapes import Job, Parsed

SCRIPTS = (".py", ".sh", ".jl", ".R", ".pl", ".js", ".lua")  # how files end whose name says more than `python3` does
UNNAMED = "sbatch"  # how the server calls a script that names itself nowhere, as Slurm does
VERDICTS = {"understood": "understood", "ignored": "ignored", "not_kept": "not kept"}


def described(words: Namespace, script: str) -> dict[str, Any]:
    """Return the body of a call that describes the job. Moments without a zone are by this machine's clock."""
    if words.max_price is not None:
        raise exits.UsageError("--max-price is for jobs in YAML; what a described job is worth bounds what it pays.")
    if words.until_converged is not None or words.in_a_row is not None:
        raise exits.UsageError("--until-converged and --in-a-row are for jobs in YAML, which say their epochs.")
    if words.worth is None:
        raise exits.UsageError(
            "Say what the job is worth to you: --worth CREDITS, and --by MOMENT if no --deadline does."
        )
    worth = {"credits": words.worth, "later": words.later or "nothing"}
    worth |= {"by": words.by} if words.by else {}
    description: dict[str, Any] = {"script": script, "worth": worth, "zone": zone_of_machine()}
    description |= after_said(words)
    description |= pieces_said(words)
    return description | ({"name": words.name} if words.name else {})


def zone_of_machine() -> str:
    """Return the zone of this machine's clock by its name, such as Europe/Berlin, which also knows when summer begins;
    where no name is known that says what the clock says, its offset of now, such as +02:00."""
    from zoneinfo import ZoneInfo  # it loads much, and few commands need it

    now = datetime.now().astimezone()
    name = os.environ.get("TZ", os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]).removeprefix(":")
    # A name without a stroke may mean this very machine, as `localtime` does, or be a rule such as XYZ-3.
    if "/" in name and not name.startswith(("/", "posix/", "right/")):
        with contextlib.suppress(ValueError, OSError, LookupError):
            if now.astimezone(ZoneInfo(name)).utcoffset() == now.utcoffset():
                return name
    offset = now.strftime("%z")  # such as +0200
    return f"{offset[:3]}:{offset[3:5]}"


def pieces_said(words: Namespace) -> dict[str, bool]:
    """Return whether the job rents in pieces, where that is said."""
    return {} if words.divisible is None else {"divisible": words.divisible}


def after_said(words: Namespace) -> dict[str, list[int]]:
    """Return what the job waits for: jobs, and arrays all of whose jobs it waits for."""
    named: list[int] = words.after or []
    arrays = [int(number) for number in named if isinstance(number, ArrayNumber)]
    jobs = [number for number in named if not isinstance(number, ArrayNumber)]
    return ({"after": jobs} if jobs else {}) | ({"after_arrays": arrays} if arrays else {})


def script_of(words: Namespace) -> str:
    """Return a command as a batch script."""
    if not words.words:
        raise exits.UsageError("Say what is to run, after two dashes: bourse run --gpus 1 --hours 2 -- python train.py")
    if len(words.words) == 1 and " " in words.words[0].strip():
        command = words.words[0]
        raise exits.UsageError(
            f"'{command}' would be the name of one program: say its words without the quotes, "
            f"or -- bash -c {shlex.quote(command)}."
        )
    seconds = math.ceil(words.hours * 3_600)
    time = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    # Programs are called after their jobs: all commands of one interpreter would be versions of one program.
    files = (word for word in words.words if word.endswith(SCRIPTS) and " " not in word and not word.startswith("-"))
    script = next(files, None)
    called = words.words[0].rpartition("/")[2] if script is None else Path(script).stem
    named = "".join(each for each in called if each.isascii() and (each.isalnum() or each in "._-"))
    name = f"--job-name={named} " if named.strip("-") else ""
    return f"#!/bin/bash -eu\n#SBATCH {name}--gpus={words.gpus} --time={time}\n{shlex.join(words.words)}\n"


def waited_in_words(job: Job | Parsed) -> str:
    """Return what the job waits for, such as 88, 90, A-12. Older servers report no arrays here."""
    return ", ".join([*map(str, job["after"]), *(f"A-{number}" for number in job.get("after_arrays", ()))])


def lines_told(screen: Screen, parsed: Parsed, *, whole: bool) -> None:
    """Show what becomes of each line on standard error, so that standard output has the answer alone. If `whole`, also
    show the specification on standard output."""
    for line in parsed["lines"]:
        what = f"{line['option']}: " if line["option"] else ""
        verdict = VERDICTS.get(line["verdict"], line["verdict"])
        screen.note(f"{line['line']:>4}  {verdict:<10}  {plain(what + line['sentence'])}")
    if parsed["begin"]:
        screen.note(f"It begins not before {moment(parsed['begin'])} ({zone()}).")
    if waits := waited_in_words(parsed):
        screen.note(f"It begins once these have ended well: {waits}.")
    if parsed["indexes"]:
        screen.note(f"It makes {len(parsed['indexes'])} jobs, one for each index.")
    if whole:
        screen.line(f"This is what the market would be asked for {plain(parsed['name'])}:")
        screen.document(parsed["spec"])

"""Requests for studies: to make, start, call off, show to owners or remove one. They change no market.

A study is a row with its files, and no process needs to be notified of it: `rounds` finds it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Max

from scheduling.core.scenario import BadScenario
from scheduling.lab.files import PACKED
from scheduling.lab.studies.study import FIELDS, files_named, study_of
from scheduling.market.view import arrival_of
from scheduling.models import STUDY_AT_WORK, STUDY_OPEN, LabFile, LabStudy, Pool, StudyState
from tenants import history
from tenants.access import Access, Refused
from tenants.common.limits import LimitOverAll, limit_lock
from tenants.models import User
from tenants.roles import Permission
from tenants.services.members import NOT_ALLOWED

MOST_OPEN = 3  # open studies of one person
MOST_KEPT = 200  # studies of all persons together
MOST_BYTES = 32 << 20  # of all files of a study as they are sent
PART_BYTES = 1 << 20
MOST_MINUTES = 120.0  # a longer study must be run by the command
LONGEST = timedelta(days=366)
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SCENARIO = "scenario.json"  # the name of a pool's own past among the files
REPORT, FIGURES, PAGE = "report.html", "figures.csv", "page.html"  # the results of a study
UNTITLED = "A study"

UNKNOWN_STUDY = Refused("unknown_study", "There is no such study.")
NO_PERIOD = Refused("invalid_period", "The period ends before it begins.")
WITHOUT_PERIOD = Refused("invalid_period", "Say from when to when the pool's past is decided again.")
NOT_OF_A_LOG = Refused(
    "invalid_period", "From when to when is said of a pool's past. Of a log the history says it: first_day and days."
)
TOO_LONG = Refused("invalid_period", f"A study is of at most {LONGEST.days} days of a pool's past.")
TOO_MANY = Refused("studies_waiting", f"{MOST_OPEN} studies of yours are not done yet. Wait for one, or call one off.")
TOO_MANY_KEPT = Refused("too_many_studies", f"{MOST_KEPT} studies are kept. Remove one first.")
NOT_READY = Refused("study_not_ready", "It is not waiting to be started.")
OVER = Refused("study_over", "It is over.")
NOT_DONE = Refused("study_not_done", "Only a study that is done can be shown to its owners.")
TAKES_LONGER = Refused(
    "study_takes_longer",
    f"It would take more than {MOST_MINUTES:.0f} minutes here. Use `manage.py lab` on a machine with more cores.",
)


def study_create(
    *,
    document: Mapping[str, Any],
    files: Mapping[str, bytes],
    pool: Pool | None = None,
    first_at: datetime | None = None,
    last_at: datetime | None = None,
    starts_at_once: bool = False,
    is_shown: bool = False,
    by: Access,
    at: datetime,
) -> LabStudy | Refused:
    """Ask for a study. `document` is as in a study's file, and `files` are by the names in its history. With `pool` it
    is about the pool's own past in [first_at, last_at), and then the document has no history. `is_shown` lets its
    owners read it once it is done."""
    if not by.allows(Permission.AUDITS_ASK):
        return NOT_ALLOWED
    if pool is None and (first_at or last_at):
        return NOT_OF_A_LOG
    if pool is not None:
        if first_at is None or last_at is None:
            return WITHOUT_PERIOD
        if last_at <= first_at:
            return NO_PERIOD
        if last_at <= pool.epoch_at:
            return Refused("invalid_period", f"{pool.name} had not opened by then.")
        first_at = max(first_at, pool.epoch_at)
        if last_at - first_at > LONGEST:
            return TOO_LONG
    if sum(map(len, files.values())) > MOST_BYTES:
        return _too_large(files)
    try:
        whole = _document(document, files, pool, first_at)
    except BadScenario as error:
        return Refused("invalid_study", f"{error}.")
    with transaction.atomic():
        limit_lock(LimitOverAll.STUDIES)
        if refusal := _open_refusal(by.user, by):
            return refusal
        if LabStudy.objects.count() >= MOST_KEPT:
            return TOO_MANY_KEPT
        study = LabStudy.objects.create(
            title=whole["title"],
            document=whole,
            pool=pool,
            first_at=first_at,
            last_at=last_at,
            starts_at_once=starts_at_once,
            is_shown=is_shown,
            asked_by=by.user,
            asked_at=at,
        )
        for name, content in files.items():
            file_keep(study, name, content)
    return study


def _too_large(files: Mapping[str, bytes]) -> Refused:
    """Return the refusal of these files. It advises to pack them only where the largest one is not packed yet."""
    is_packed = max(files.values(), key=len).startswith(PACKED)
    way = "Use" if is_packed else "Pack the log with gzip, or use"
    return Refused("study_too_large", f"The files have more than {MOST_BYTES >> 20} MiB. {way} `manage.py lab`.")


def _document(
    document: Mapping[str, Any], files: Mapping[str, bytes], pool: Pool | None, first_at: datetime | None
) -> dict[str, Any]:
    """Return the document with its title and history, once everything that can be checked without reading a log is
    right."""
    if not isinstance(document, Mapping):
        raise BadScenario("study", "must be an object")
    whole = {"title": UNTITLED, **document}
    try:
        if "\\u0000" in json.dumps(whole, allow_nan=False):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise BadScenario("study", "has a value that is neither a number nor a text") from None
    if pool is not None:
        if "history" in whole or files:
            raise BadScenario("history", "is the pool's own past here, so neither it nor a file is given")
        begins = pool.slot_start(math.floor(arrival_of(pool, first_at or pool.epoch_at)))  # of the scenario's slot 0
        whole["history"] = {"format": "scenario", "file": SCENARIO, "begins": begins.isoformat()}
    for name in files:
        if not FILE_NAME.fullmatch(name):
            raise BadScenario("files", f"{name[:60]!a} is no name of a file here; use letters, digits and .-_")

    def digest(name: str) -> str:
        if pool is not None and name == SCENARIO:
            return ""
        if name not in files:
            raise BadScenario("history", f"names {name[:60]!a}, which is none of the files sent with it")
        return hashlib.sha256(files[name]).hexdigest()

    study_of(whole, UNTITLED, digest)
    history = whole["history"]
    if unused := sorted(files.keys() - set(files_named(history))):
        raise BadScenario("files", f"{unused[0]} is named nowhere in the history")
    return {name: whole[name] for name in FIELDS if name in whole}


def study_start(*, study_id: int, by: Access, at: datetime) -> LabStudy | Refused:
    """Begin with the replays, once a person has seen how long they take."""
    if not by.allows(Permission.AUDITS_ASK):
        return NOT_ALLOWED
    study = LabStudy.objects.filter(pk=study_id).first()
    if study is None:
        return UNKNOWN_STUDY
    if (study.minutes or 0.0) > MOST_MINUTES:
        return TAKES_LONGER
    ready = LabStudy.objects.filter(pk=study_id, state=StudyState.READY)
    if not ready.update(state=StudyState.WAITING, starts_at_once=True):  # so it goes on if it is called off meanwhile
        return NOT_READY
    return LabStudy.objects.get(pk=study_id)


def study_cancel(*, study_id: int, by: Access, at: datetime) -> LabStudy | Refused:
    """Call a study off. A process that works at it notices within two seconds and stores nothing more."""
    if not by.allows(Permission.AUDITS_ASK):
        return NOT_ALLOWED
    rows = LabStudy.objects.filter(pk=study_id)
    sentence = f"{by.actor_name} has called it off."
    if not rows.filter(state__in=STUDY_OPEN).update(state=StudyState.CANCELLED, ended_at=at, sentence=sentence):
        return OVER if rows.exists() else UNKNOWN_STUDY
    return rows.get()


@transaction.atomic
def study_resume(*, study_id: int, by: Access, at: datetime) -> LabStudy | Refused:
    """Continue a study that was called off or that failed. What it has done is not done again."""
    if not by.allows(Permission.AUDITS_ASK):
        return NOT_ALLOWED
    limit_lock(LimitOverAll.STUDIES)
    study = _locked(study_id)
    if study is None:
        return UNKNOWN_STUDY
    if study.state not in (StudyState.CANCELLED, StudyState.FAILED):
        return NOT_READY
    if refusal := _open_refusal(study.asked_by, by):
        return refusal
    study.state, study.ended_at, study.sentence, study.tries, study.part = StudyState.READING, None, "", 0, 0.0
    study.save(update_fields=["state", "ended_at", "sentence", "tries", "part"])
    return study


def _open_refusal(person: User | None, by: Access) -> Refused | None:
    """Return why no further study of this person may be open, or None. They are counted under the lock of all."""
    if LabStudy.objects.filter(asked_by=person, state__in=STUDY_AT_WORK).count() < MOST_OPEN:
        return None
    if person == by.user:
        return TOO_MANY
    return Refused(TOO_MANY.code, f"{MOST_OPEN} studies of {person} are not done yet. Wait for one, or call one off.")


@transaction.atomic
def study_show(*, study_id: int, is_shown: bool, by: Access, at: datetime) -> LabStudy | Refused:
    """Let the owners that the study is about read it, each with the others unnamed; or no longer."""
    if not by.allows(Permission.AUDITS_ASK):
        return NOT_ALLOWED
    study = _locked(study_id)
    if study is None:
        return UNKNOWN_STUDY
    if study.state != StudyState.DONE:
        return NOT_DONE
    if study.is_shown == is_shown:
        return study
    study.is_shown = is_shown
    study.save(update_fields=["is_shown"])
    before, after = {"shown": not is_shown}, {"shown": is_shown}
    history.append(at=at, by=by, action="study_show", subject=_subject(study), before=before, after=after)
    return study


@transaction.atomic
def study_remove(*, study_id: int, by: Access, at: datetime) -> Refused | None:
    """Remove a study with its files. A process that works at it notices as if it were called off."""
    if not by.allows(Permission.AUDITS_ASK):
        return NOT_ALLOWED
    study = _locked(study_id)
    if study is None:
        return UNKNOWN_STUDY
    before = {"shown": study.is_shown}
    LabStudy.objects.filter(pk=study_id).delete()
    history.append(at=at, by=by, action="study_remove", subject=_subject(study), before=before)
    return None


def _locked(study_id: int) -> LabStudy | None:
    """Return the study, locked until the transaction ends."""
    return LabStudy.objects.select_for_update(of=("self",)).select_related("pool").filter(pk=study_id).first()


def _subject(study: LabStudy) -> str:
    return f"study {study.pk}: {study.title}"


@transaction.atomic
def file_keep(study: LabStudy, name: str, content: bytes) -> None:
    """Store a file in pieces, in place of an older one of that name."""
    LabFile.objects.filter(study=study, name=name).delete()
    LabFile.objects.bulk_create(
        [
            LabFile(study=study, name=name, place=place, content=content[begin : begin + PART_BYTES])
            for place, begin in enumerate(range(0, max(1, len(content)), PART_BYTES))
        ],
        batch_size=8,
    )


def file_pieces(study_id: int, name: str) -> Iterator[bytes]:
    """Return a file, piece by piece."""
    last = LabFile.objects.filter(study=study_id, name=name).aggregate(last=Max("place"))["last"]
    for place in range(0 if last is None else last + 1):
        yield bytes(LabFile.objects.get(study=study_id, name=name, place=place).content)


def file_bytes(study_id: int, name: str) -> bytes | None:
    """Return a whole file, or None where there is none."""
    rows = LabFile.objects.filter(study=study_id, name=name).order_by("place")
    pieces = [bytes(content) for content in rows.values_list("content", flat=True)]
    return b"".join(pieces) if pieces else None


def page_of(owner: str | None) -> str:
    """Return the name of the page of an owner, or of the staff, among the files."""
    return PAGE if owner is None else f"{hashlib.sha256(owner.encode()).hexdigest()}.{PAGE}"

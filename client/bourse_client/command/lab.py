"""`bourse lab`: make, follow and download studies of a cluster's past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bourse_client.command import exits
from bourse_client.command.exits import UsageError
from bourse_client.command.outputs import output_write, require_free
from bourse_client.command.screen import moment, plain, zone
from bourse_client.command.session import Session
from bourse_client.command.written import INPUT, document_in, text_in
from bourse_client.job_file import read_study
from bourse_client.shapes import Study

AT_WORK = ("reading", "waiting", "running")
PACKED = b"\x1f\x8b"  # how a file of gzip begins
MOST_FILES = 700 * 1024  # bytes that, in base64 and with the document, fit into a call
NAMED = ("file", "machines", "nodes")  # fields of a history that may name a file


def list_studies(session: Session) -> int:
    """List all studies, the newest first."""
    screen, rows = session.screen, list(session.client.studies())
    if screen.as_json:
        screen.document(rows)
        return exits.DONE
    heads = ("id", "state", "of", "asked", "title", "what came of it")
    cells = [
        (str(row["id"]), row["state"], row["pool"] or "a log", moment(row["asked_at"]), row["title"], row["detail"])
        for row in rows
    ]
    screen.table(heads, cells, right=("id",))
    return exits.DONE


def create(session: Session) -> int:
    """Make a study, with the files that its document names; with --start it is followed to its end."""
    words, client = session.words, session.client
    document = document_in(words.file, text_in(session, words.file), read_study)
    files = {} if words.pool else _files(words.file, document)
    study = client.study_create(
        document,
        files=files,
        pool=words.pool or None,
        start=words.start,
        end=words.end,
        at_once=words.at_once,
        key=session.key,
    )
    return _followed(session, study)


def show(session: Session) -> int:
    """Show how far a study is, and what came of it."""
    _show(session, session.client.study(session.words.study))
    return exits.DONE


def start(session: Session) -> int:
    """Start a study, and follow it to its end."""
    return _followed(session, session.client.study_start(session.words.study, key=session.key))


def cancel(session: Session) -> int:
    """Cancel a study, which can go on later."""
    _show(session, session.client.study_cancel(session.words.study, key=session.key))
    return exits.DONE


def resume(session: Session) -> int:
    """Go on with a study after what it has done."""
    return _followed(session, session.client.study_resume(session.words.study, key=session.key))


def download(session: Session) -> int:
    """Write the report, or the figures, to a file."""
    words, client = session.words, session.client
    require_free(session)
    output_write(session, client.study_figures(words.study) if words.figures else client.study_report(words.study))
    return exits.DONE


def _followed(session: Session, study: Study) -> int:
    """Follow a study until it is ready, over, or interrupted; an interrupted one goes on by itself."""
    words, client = session.words, session.client
    with client.transport.following():
        while study["state"] in AT_WORK:
            session.pace.sleep(words.every)
            study = client.study(study["id"])
    _show(session, study)
    if study["state"] == "ready":
        session.screen.note(f"bourse: Start it with `bourse lab start {study['id']}`.")
    return exits.DONE if study["state"] in ("ready", "done") else exits.REFUSED


def _show(session: Session, study: Study) -> None:
    screen, history = session.screen, study["history"]
    if screen.as_json:
        screen.document(study)
        return
    read = f"{history['jobs']:,} jobs of {history['owners']:,} owners, {history['days']:,} days" if history else ""
    screen.pairs(
        [
            ("study", str(study["id"])),
            ("title", study["title"]),
            ("state", study["state"]),
            ("read", read),
            ("takes", _time(study["minutes"])),
            ("replays", f"{study['done']} of {study['total']}" if study["total"] else ""),
            ("asked", f"{moment(study['asked_at'])} ({zone()})"),
            ("digest", study["digest"]),
            ("answer", study["detail"]),
        ]
    )
    for note in history.get("notes", ()):
        screen.line(plain(f"note: {note}"))
    for why, lines in history.get("left_out", {}).items():
        screen.line(plain(f"left out: {why} ({lines:,})"))
    for number, why in history.get("bad", ()):
        screen.line(plain(f"line {number} {why}"))


def _time(minutes: float | None) -> str:
    if minutes is None:
        return ""
    return "less than a minute" if minutes < 1 else f"about {minutes:.1f} minutes"


def _files(study: str, document: dict[str, Any]) -> dict[str, bytes]:
    """Return the files that the history names, which are beside the study."""
    folder = Path() if study == INPUT else Path(study).parent
    history = document.get("history")
    names = [history[field] for field in NAMED if field in history] if isinstance(history, dict) else []
    files: dict[str, bytes] = {}
    for name in (name for name in names if isinstance(name, str)):
        try:
            files[name] = (folder / name).read_bytes()
        except OSError as error:
            raise UsageError(f"{folder / name}: {error.strerror}.") from error
    if sum(map(len, files.values())) > MOST_FILES:
        most = f"files that are sent in one call have at most {MOST_FILES // 1024} KiB together"
        packs = "" if max(files.values(), key=len).startswith(PACKED) else "Pack the log with gzip, "
        uploads = f"{'upload' if packs else 'Upload'} it on the page of the lab, or use manage.py lab."
        raise UsageError(f"{study}: {most}. {packs}{uploads}")
    return files

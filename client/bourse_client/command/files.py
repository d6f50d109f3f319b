"""`bourse files`: list what a job's program wrote into its folder, and fetch it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bourse_client.command import exits
from bourse_client.command.exits import UsageError
from bourse_client.command.screen import moment, plain, several, zone
from bourse_client.command.session import Session
from bourse_client.errors import NotFound
from bourse_client.paths import BadPath, local_parts
from bourse_client.shapes import JobFile


def files(session: Session) -> int:
    return _fetched(session) if session.words.fetch else _list(session)


def _list(session: Session) -> int:
    screen, answer = session.screen, session.client.job_files(session.words.job)
    if screen.as_json:
        screen.document(answer)
        return exits.DONE
    if answer["sentence"] and not answer["files"]:
        screen.note(f"bourse: {plain(answer['sentence'])}")
    rows = [(f"{file['bytes']:,}", moment(file["changed_at"]), file["path"]) for file in answer["files"]]
    if rows:
        screen.table(("bytes", f"written ({zone()})", "path"), rows, right=("bytes",))
    if answer["more"]:
        screen.note("There are others that cannot be listed; one that is named is fetched all the same.")
    if answer["left_out"]:
        screen.note(f"Left out, as links, pipes or closed to the server: {answer['left_out']:,}.")
    if answer["kept_until"] and rows:
        screen.note(f"They are kept until {moment(answer['kept_until'])} ({zone()}).")
    return exits.DONE


def _fetched(session: Session) -> int:
    """Fetch all files or those that are named, each whole or not at all. One that cannot be fetched stops no others."""
    words, screen, client = session.words, session.screen, session.client
    root, wanted = Path(words.fetch[0]), words.fetch[1:]
    answer = client.job_files(words.job)
    files = _choice(answer["files"], wanted)
    if folders := [file["path"] for file in files if file["path"].endswith("/")]:
        why = answer["sentence"] or "there is no such folder among the files listed."
        return _nothing(session, f"{folders[0]}: {why}")
    if not files:
        return _nothing(session, answer["sentence"] or "The job has no files.")
    places = _places(root, [file["path"] for file in files], overwrite=words.force)
    rows, total = list[dict[str, Any]](), 0
    refused = 0
    for file, place in zip(files, places, strict=True):
        try:
            with _whole(place, root, overwrite=words.force) as target:
                size = client.job_file(words.job, file["path"], target)
        except NotFound as error:  # it is gone meanwhile, or closed to the server; the others may not be
            screen.note(f"bourse: {plain(file['path'])}: {error}")
            refused += 1
            continue
        rows.append({"path": file["path"], "bytes": size, "file": str(place)})
        total += size
        screen.note(f"{plain(str(place))}  {size:,} bytes")
    if screen.as_json:
        screen.document(rows)
    else:
        screen.line(f"{several(len(rows), 'file')}, {total:,} bytes in {plain(str(root))}")
    if answer["more"] and not wanted:
        screen.note("bourse: There are others that cannot be listed; name them to fetch them.")
        return exits.REFUSED
    return exits.REFUSED if refused else exits.DONE


def _nothing(session: Session, sentence: str) -> int:
    """Say why nothing was fetched. A script that goes on with the files must not."""
    session.screen.note(f"bourse: {plain(sentence)}")
    if session.screen.as_json:
        session.screen.document([])
    return exits.REFUSED


def _choice(files: Sequence[JobFile], wanted: Sequence[str]) -> list[JobFile]:
    """Return the files that are named, and all in folders that are named; without names, all files. A name that is not
    in the list is asked for by itself: it may lie behind the list's end."""
    if not wanted:
        return list(files)
    by_path: dict[str, JobFile] = {}
    for name in wanted:
        folder = name.rstrip("/")
        among = [file for file in files if file["path"] == name or file["path"].startswith(f"{folder}/")]
        among = among or [{"path": name, "bytes": 0, "changed_at": ""}]
        by_path |= {file["path"]: file for file in among}
    return list(by_path.values())


def _places(root: Path, paths: Sequence[str], *, overwrite: bool) -> list[Path]:
    """Return where each file goes, all of them below the root. Nothing is fetched where one of them cannot be
    written."""
    places = []
    for path in paths:
        try:
            place = root.joinpath(*local_parts(path))
        except BadPath as error:
            raise UsageError(f"{plain(path)}: {error}") from error
        if not overwrite and os.path.lexists(place):
            raise UsageError(f"{plain(str(place))} is there already; --force overwrites it.")
        places.append(place)
    return places


@contextlib.contextmanager
def _whole(place: Path, root: Path, *, overwrite: bool) -> Iterator[tempfile._TemporaryFileWrapper[bytes]]:
    """Open a file beside its place. It takes that place once it is whole, and is removed if it never is."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.parent.resolve().is_relative_to(root.resolve()):
            raise UsageError(f"{plain(str(place))}: a link here leads out of {plain(str(root))}.")
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".bourse-", delete=False) as target:
            try:
                yield target
                target.close()
                if not overwrite and os.path.lexists(place):  # another process made it meanwhile
                    raise UsageError(f"{plain(str(place))} is there already; --force overwrites it.")
                mask = os.umask(0)
                os.umask(mask)
                os.chmod(target.name, 0o666 & ~mask)  # the mode of any new file; a temporary one is for its owner alone
                os.replace(target.name, place)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(target.name)
                raise
    except OSError as error:
        raise UsageError(f"{plain(str(place))}: {error.strerror}.") from error

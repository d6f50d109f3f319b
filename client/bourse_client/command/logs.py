"""`bourse logs`: show the log of one of a job's runs, or of all, or follow that of the newest."""

from __future__ import annotations

from collections.abc import Mapping

from bourse_client.command import exits
from bourse_client.command.parser import ALL
from bourse_client.command.screen import plain
from bourse_client.command.session import Session
from bourse_client.shapes import OVER, Log, LogLine


def logs(session: Session) -> int:
    """Show the log, with --follow until the job is over. Its state is read before its last lines, so that none is
    missed."""
    words, client, after = session.words, session.client, 0
    if words.run == ALL:
        return _of_all_runs(session)
    run: int | None = None
    wrote = False
    with client.transport.following(words.follow):
        while True:
            over = not words.follow or client.job(words.job)["state"] in OVER
            log = _page(session, after, words.run)
            if log["run"] != run and after:  # the job was started anew, and its log begins anew
                after = 0
                continue
            if log["run"] != run:
                _note_which(session, log)
            run, after = log["run"], log["after"]
            for line in log["lines"]:
                _write(session, line)
                wrote = True
            if log["more"]:
                continue
            if over:
                if not wrote:
                    session.screen.note(f"bourse: {_silence(session, log)}")
                return exits.DONE
            session.pace.sleep(words.every)


def _of_all_runs(session: Session) -> int:
    """Show the logs of all runs, the first one first. A line of JSON says of which run it is."""
    screen, log = session.screen, _page(session, 0, None)
    if log["run"] is None:
        screen.note(f"bourse: {_silence(session, log)}")
        return exits.DONE
    number, runs = 1, log.get("runs", 1)
    while number <= runs:
        if not screen.as_json:
            screen.line(f"--- run {number} of {runs}")
        after, wrote = 0, False
        while True:
            log = _page(session, after, number)
            for line in log["lines"]:
                _write(session, line, {"run_number": number})
                wrote = True
            after, runs = log["after"], log.get("runs", runs)
            if not log["more"]:
                break
        if not wrote:
            screen.note(f"bourse: Run {number}: {_silence(session, log)}")
        number += 1
    return exits.DONE


def _page(session: Session, after: int, run: int | None) -> Log:
    words = session.words
    return session.client.job_logs(
        words.job, after=after, search=words.search, level=words.level or "", who=words.who, run_number=run
    )


def _note_which(session: Session, log: Log) -> None:
    """Say that there are earlier runs, where nobody chose one."""
    if session.words.run is None and log.get("runs", 1) > 1:
        session.screen.note(f"bourse: Run {log['run_number']} of {log['runs']}; --run shows an earlier one, or all.")


def _silence(session: Session, log: Log) -> str:
    words = session.words
    if log["run"] is None:
        return "No program of this job has started."
    if sentence := log.get("sentence"):
        return sentence
    return "Its log has no such lines." if words.search or words.level or words.who else "Its log is empty."


def _write(session: Session, line: LogLine, more: Mapping[str, int] | None = None) -> None:
    if session.screen.as_json:
        session.screen.record({**line, **(more or {})})
    else:
        text = plain(line["text"].rstrip("\n").replace("\t", "    "))
        session.screen.line(f"{line['who']}: {text}")

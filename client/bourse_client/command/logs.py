"""`bourse logs`."""

from __future__ import annotations

from bourse_client.command import exits
from bourse_client.command.screen import plain
from bourse_client.command.session import Session
from bourse_client.errors import NotFound
from bourse_client.shapes import OVER, LogLine


def logs(session: Session) -> int:
    """With --follow until the job is over; its state is asked for before its last lines, so that none is missed."""
    words, client, last = session.words, session.client, 0
    while True:
        over = not words.follow or client.job(words.job)["state"] in OVER
        lines = _lines(session, last)
        for line in lines:
            last = max(last, line["number"])
            if session.screen.as_json:
                session.screen.record(line)
            else:
                session.screen.line(plain(line["text"].rstrip("\n").replace("\t", "    ")))
        if over and not lines:
            return exits.DONE
        if not lines:
            session.pace.sleep(words.every)


def _lines(session: Session, last: int) -> list[LogLine]:
    number = session.words.job
    try:
        return session.client.job_logs(number, after=last)
    except NotFound as missing:
        session.client.job(number)  # no such job: that is the answer
        sentence = f"This server has no logs for programs. The job itself: bourse jobs show {number}"
        raise NotFound(missing.status, "no_logs", sentence) from missing

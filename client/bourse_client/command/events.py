"""`bourse events`: show what happened, or follow what happens."""

from __future__ import annotations

from bourse_client.command import exits
from bourse_client.command.screen import moment, numbers_line, plain, zone
from bourse_client.command.session import Session
from bourse_client.shapes import Event

RECEIPTS = ("digest", "answer")  # 64 letters each, so they are left out; --json has them


def events(session: Session) -> int:
    words, screen = session.words, session.screen
    if words.follow:
        for event in session.client.events_followed(after=words.after):
            _write(session, event)
        return exits.DONE
    asked_events = _events(session)
    if screen.as_json:
        screen.document(asked_events)
    elif asked_events:
        heads = ("id", f"at ({zone()})", "what", "about", "figures")
        screen.table(heads, [_row(event) for event in asked_events], right=("id",))
    else:
        screen.note("Nothing has happened since.")
    return exits.DONE


def _events(session: Session) -> list[Event]:
    """Return the events that followed a given one, or else the latest; the oldest first in any case."""
    words, client = session.words, session.client
    most = None if words.all else words.limit
    if words.after is not None or most is None:
        return list(client.events(after=words.after, most=most))
    return list(client.events(most=most, ordering="-id"))[::-1]


def _write(session: Session, event: Event) -> None:
    """Write an event at once as one line: the width of what comes is not known."""
    if session.screen.as_json:
        session.screen.record(event)
        return
    number, at, kind, about, figures = _row(event)
    session.screen.line(plain(f"{number:>8}  {at}  {kind:<18}  {about:<14}  {figures}").rstrip())


def _row(event: Event) -> tuple[str, ...]:
    at = moment(event["at"])
    figures = numbers_line({name: value for name, value in event["data"].items() if name not in RECEIPTS})
    return (str(event["id"]), at, event["kind"], event["subject"], figures)

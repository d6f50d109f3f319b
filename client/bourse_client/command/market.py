"""`bourse prices`: show the prices of now and those posted for later."""

from __future__ import annotations

from collections.abc import Sequence

from bourse_client.command import exits
from bourse_client.command.screen import credits, moment, zone
from bourse_client.command.session import Session
from bourse_client.shapes import Price

AHEAD = 200  # lines that are read of each lane for later slots
CLEAR = "\x1b[2J\x1b[H"


def prices(session: Session) -> int:
    words, screen = session.words, session.screen
    pool = session.pool
    with session.client.transport.following(words.watch):
        while True:
            now = list(session.client.prices_now(pool))
            ahead = [line for lane in ("batch", "instant") for line in _ahead(session, pool, lane)]
            if screen.as_json and words.watch:
                screen.record({"pool": pool, "now": now, "ahead": ahead})
            elif screen.as_json:
                screen.document({"pool": pool, "now": now, "ahead": ahead})
            else:
                if words.watch and screen.out.isatty():
                    screen.line(CLEAR)
                _show(session, pool, now, ahead)
            if not words.watch:
                return exits.DONE
            session.pace.sleep(words.every)


def _ahead(session: Session, pool: str, lane: str) -> list[Price]:
    return list(session.client.prices_ahead(pool, lane=lane, most=AHEAD))


def _show(session: Session, pool: str, now: Sequence[Price], ahead: Sequence[Price]) -> None:
    """Show a line for each lane and resource: the price now, and what is posted for later."""
    screen = session.screen
    if not now:
        screen.note(f"No prices are posted in {pool} now.")
        return
    since = f"{now[0]['slot']:,} from {moment(now[0]['starts_at'])} ({zone()})"
    screen.line(f"Pool {pool}, slot {since}: credits for one unit in a slot")
    heads = ("lane", "resource", "now", "sold", "for sale", "lowest ahead", "highest ahead", "posted until")
    screen.table(heads, [_row(line, ahead) for line in now], right=heads[2:7])


def _row(line: Price, ahead: Sequence[Price]) -> tuple[str, ...]:
    coming = [later for later in ahead if (later["lane"], later["resource"]) == (line["lane"], line["resource"])]
    posted = sorted((float(later["price"]), later["price"]) for later in coming if later["price"] is not None)
    lowest, highest = (credits(posted[0][1]), credits(posted[-1][1])) if posted else ("-", "-")
    units = (f"{line['sold']:,g}", f"{line['offered']:,g}")
    until = moment(coming[-1]["starts_at"]) if coming else "-"
    return (line["lane"], line["resource"], credits(line["price"]), *units, lowest, highest, until)

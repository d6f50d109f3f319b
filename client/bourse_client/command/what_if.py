"""`bourse what-if`: ask what a job would have got if it had said something else."""

from __future__ import annotations

from typing import Any

from bourse_client.command import exits
from bourse_client.command.screen import credits, plain, several
from bourse_client.command.session import Session
from bourse_client.job_file import read_json
from bourse_client.shapes import WhatIfOutcome, WhatIfResult

OPEN = ("waiting", "running")
FIGURES = ("as it was", "otherwise", "difference")


def what_if(session: Session) -> int:
    """Ask, wait and show the answer. If this is interrupted, the question goes on and is kept for seven days."""
    words, screen, client = session.words, session.screen, session.client
    pool = words.pool or client.job(words.job)["pool"]  # an interval that decided about the job is its pool's
    body = {"interval": words.interval, "pool": pool, "key": session.key}
    answer = client.what_if(words.job, words.field, _value(words.value), **body)
    with client.transport.following():
        while answer["state"] in OPEN:
            session.pace.sleep(words.every)
            answer = client.what_if_read(answer["id"])
    if screen.as_json:
        screen.document(answer)
    elif answer["result"]:
        _show(session, answer["result"])
    if answer["state"] == "done":
        return exits.DONE
    screen.note(f"bourse: The question is {answer['state']}. {answer['detail']}".rstrip())
    return exits.REFUSED


def _value(text: str) -> Any:
    """Return the value as JSON reads it; what is no JSON is a word, such as never."""
    try:
        return read_json(text)
    except ValueError:
        return text


def _show(session: Session, result: WhatIfResult) -> None:
    screen = session.screen
    screen.line(plain(result["in_words"]))
    screen.line()
    jobs = [
        (f"{row['job'] or 'of another tenant'}", _words(row["before"]), _words(row["after"])) for row in result["jobs"]
    ]
    screen.table(("job", *FIGURES[:2]), jobs)
    screen.line()
    gains = [
        (row["tenant"] or "another", credits(row["before"]), credits(row["after"]), credits(row["difference"]))
        for row in result["tenants"]
    ]
    screen.table(("gain of", *FIGURES), gains, right=FIGURES)
    screen.line()
    prices = [(row["resource"], credits(row["before"]), credits(row["after"])) for row in result["prices"]]
    screen.table(("highest price", *FIGURES[:2]), prices, right=FIGURES)


def _words(outcome: WhatIfOutcome) -> str:
    if outcome["state"] != "awarded":
        return outcome["state"]
    worth = f", worth {credits(outcome['worth'])}" if outcome["worth"] is not None else ""
    first, last = outcome["start_slot"], (outcome["end_slot"] or 0) - 1  # with `end_slot` it is over
    slots = f"slot {first}" if first == last else f"slots {first} to {last}"
    return f"{slots}, {several(outcome['workers'], 'worker')}, for {credits(outcome['price'])}{worth}"

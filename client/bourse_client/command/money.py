"""`bourse balance` and `bourse statement`: show the tenant's credits, and what moved them."""

from __future__ import annotations

from bourse_client.command import exits
from bourse_client.command.screen import count, credits, several
from bourse_client.command.session import Session
from bourse_client.shapes import Statement, Total


def balance(session: Session) -> int:
    screen, balances_now = session.screen, session.client.balances()
    if screen.as_json:
        screen.document(balances_now)
        return exits.DONE
    rows = [
        ("available", credits(balances_now["available"])),
        ("held", credits(balances_now["held"])),
        ("earned", credits(balances_now["earned"])),
        ("total", credits(balances_now["total"])),
    ]
    screen.table((session.client.tenant, "credits"), rows, right=("credits",))
    return exits.DONE


def statement(session: Session) -> int:
    words, screen = session.words, session.screen
    if words.csv:
        screen.out.write(session.client.statement_csv(words.month))
        return exits.DONE
    month = session.client.statement(words.month)
    if screen.as_json:
        screen.document(month)
        return exits.DONE
    screen.line(f"Statement of {session.client.tenant}, {words.month} (UTC), in credits")
    heads = ("what", "available", "held", "earned", "total")
    lines = [month["opening"], *month["movements"], month["closing"]]
    screen.table(heads, [_row(line) for line in lines], right=heads[1:])
    screen.line()
    screen.pairs(_sums(month))
    return exits.DONE


def _row(line: Total) -> tuple[str, ...]:
    figures = (line["available"], line["held"], line["earned"], line["total"])
    return (line["title"], *(credits(figure) for figure in figures))


def _sums(statement: Statement) -> list[tuple[str, str]]:
    return [
        ("earned from renters", f"{credits(statement['earned'])} in {several(statement['earned_lines'], 'line')}"),
        ("paid for jobs", f"{credits(statement['spent'])} in {several(statement['spent_lines'], 'line')}"),
        ("came back", f"{credits(statement['given_back'])} in {several(statement['given_back_lines'], 'line')}"),
        ("jobs", count(statement["jobs"])),
    ]

"""`bourse quote`: show what would become of a job."""

from __future__ import annotations

from bourse_client.command import exits
from bourse_client.command.screen import count, credits, moment, number, zone
from bourse_client.command.session import Session
from bourse_client.command.written import asked_of
from bourse_client.shapes import Change, Quote

CHANGES = {
    "later": "a later end",
    "fewer_workers": "fewer workers",
    "more_workers": "more workers",
    "fewer_epochs": "fewer epochs",
    "higher_value": "a higher value",
    "more_budget": "more money",
    "higher_max_price": "a higher price limit",
}


def quote(session: Session) -> int:
    """Show a quote. One that would not admit the job exits as refused: `bourse quote job.yaml && bourse jobs submit
    job.yaml`."""
    screen, question = session.screen, asked_of(session)
    offer = session.client.quote(question.spec, pool=question.pool, name=question.name, lane=question.lane)
    terms = offer["terms"]
    if screen.as_json:
        screen.document(offer)
    else:
        screen.line("The job would be admitted." if terms["admitted"] else "The job would not be admitted.")
        screen.pairs(_pairs(offer))
    if not terms["admitted"] and (reason := terms["reason"]):
        screen.note(f"bourse: {reason['sentence']} ({reason['code']})")
        if offer["change"] is None and (advice := reason.get("help", "")):
            screen.note(f"  {advice}")
    return exits.DONE if terms["admitted"] else exits.REFUSED


def _pairs(answer: Quote) -> list[tuple[str, str]]:
    terms, estimate, at = answer["terms"], answer["estimate"], f"({zone()})"
    placed = terms["starts_at"] is not None
    payees = ", ".join(f"{part['payee']} {credits(part['amount'])}" for part in terms["payees"])
    pairs = [
        ("lane", answer["lane"]),
        ("pool", answer["pool"]),
        ("payer", answer["payer"]),
        ("price", credits(terms["price"]) if placed else ""),
        ("of it comes back", credits(terms["own_part"]) if placed and float(terms["own_part"]) else ""),
        ("worth at that end", credits(terms["worth"]) if placed else ""),
        ("paid to", payees),
        ("starts", f"{moment(terms['starts_at'])} {at}" if placed else ""),
        ("ends", f"{moment(terms['ends_at'])} {at}" if placed else ""),
        ("workers", count(terms["workers"]) if placed else ""),
    ]
    if terms["admitted"] and terms["reason"]:
        pairs.append(("note", terms["reason"]["sentence"]))
    if estimate:
        price = f"{credits(estimate['price_low'])} to {credits(estimate['price_high'])}"
        start = f"{moment(estimate['starts_at_earliest'])} to {moment(estimate['starts_at_latest'])} {at}"
        pairs += [("price, as others come", price), ("start, as others come", start)]
    return [*pairs, ("would win with", _change(answer["change"]))]


def _change(change: Change | None) -> str:
    if change is None:
        return ""
    price = f", for {credits(change['price'])}" if change["price"] is not None else ""
    what, figures = CHANGES.get(change["what"], change["what"]), (number(change["after"]), number(change["before"]))
    return f"{what}: {figures[0]} instead of {figures[1]}{price}"

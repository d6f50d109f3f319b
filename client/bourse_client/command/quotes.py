"""`bourse quote`: show what would become of a job."""

from __future__ import annotations

from bourse_client.command import exits
from bourse_client.command.screen import count, credits, moment, number, several, zone
from bourse_client.command.session import Session
from bourse_client.command.written import asked_of
from bourse_client.shapes import ByUse, Change, Course, Quote

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
    """Return what is shown. Servers of before report neither a course nor what a slot costs."""
    terms, at, by_use = answer["terms"], f"({zone()})", answer.get("by_use")
    placed = terms["starts_at"] is not None
    pairs = [("lane", answer["lane"]), ("pool", answer["pool"]), ("payer", answer["payer"])]
    if by_use:
        pairs += _price_by_use(by_use)
    if placed:
        payees = ", ".join(f"{part['payee']} {credits(part['amount'])}" for part in terms["payees"])
        pairs += [
            ("next slot" if by_use else "price", credits(terms["price"])),
            ("of it comes back", credits(terms["own_part"]) if float(terms["own_part"]) else ""),
            # In an elastic pool the terms are those of one slot, with which the job does not end.
            ("worth at that end", "" if by_use else credits(terms["worth"])),
            ("paid to", payees),
            ("starts", f"{moment(terms['starts_at'])} {at}"),
            ("ends", "" if by_use else f"{moment(terms['ends_at'])} {at}"),
            ("workers", count(terms["workers"])),
        ]
    if course := terms.get("course"):
        pairs.append(("first piece", _course(course)))
    if terms["admitted"] and terms["reason"]:
        pairs.append(("note", terms["reason"]["sentence"]))
    if estimate := answer["estimate"]:
        price = f"{credits(estimate['price_low'])} to {credits(estimate['price_high'])}"
        start = f"{moment(estimate['starts_at_earliest'])} to {moment(estimate['starts_at_latest'])} {at}"
        pairs += [("price, as others come", price), ("start, as others come", start)]
    return [*pairs, ("would win with", _change(answer["change"], by_slot=by_use is not None))]


def _price_by_use(by_use: ByUse) -> list[tuple[str, str]]:
    """Return what a job of an elastic pool would pay, in the words of the page: an estimate, as if it always had its
    largest size."""
    size = f"{several(by_use['workers'], 'worker')} and {several(by_use['parameter_servers'], 'parameter server')}"
    return [
        ("price of a slot", f"{credits(by_use['price_per_slot'])} with {size}"),
        ("slots, estimated", count(by_use["estimated_slots"])),
        ("price of all, estimated", credits(by_use["estimated_price"])),
    ]


def _course(course: Course) -> str:
    """Return what is likely to come after the first piece, of which alone the other lines are."""
    done = f"it does {course['share']:.0%} of the work".replace("%", " %")
    if course["pieces"] == 1:
        return f"{done}; the rest is done at home"
    return f"{done}; all of it may take {course['pieces']:,} pieces and {credits(course['price'])}"


def _change(change: Change | None, *, by_slot: bool) -> str:
    if change is None:
        return ""
    price = f", for {credits(change['price'])}{' a slot' * by_slot}" if change["price"] is not None else ""
    what, figures = CHANGES.get(change["what"], change["what"]), (number(change["after"]), number(change["before"]))
    return f"{what}: {figures[0]} instead of {figures[1]}{price}"

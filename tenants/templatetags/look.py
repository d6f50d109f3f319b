"""Tags and filters for the small pieces that pages are made of: icons, amounts, times, fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms, template
from django.forms import BoundField
from django.template.base import NodeList, Parser, Token
from django.template.context import Context
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from tenants.history_words import ACTIONS
from tenants.ledger import amounts
from tenants.roles import MEANING

register = template.Library()

ICONS = {
    "account": (
        "M8 8a2.800 2.800 0 1 0 0-5.600 2.800 2.800 0 0 0 0 5.600z"
        "M2.500 14c.4-3 2.500-4.600 5.500-4.600s5.100 1.600 5.500 4.600"
    ),
    "back": "M9.500 3.500 5 8l4.500 4.500",
    "bell": (
        "M8 2.200a3.800 3.800 0 0 0-3.800 3.800c0 3.200-1.500 4.200-1.500 5.300h10.600c0-1.100-1.500-2.100-1.500-5.300"
        "A3.800 3.800 0 0 0 8 2.200zM6.500 13.300a1.600 1.600 0 0 0 3 0"
    ),
    "check": "M3.500 8.500l3 3 6-7",
    "chevron": "M4.500 6.500 8 10l3.500-3.500",
    "clock": "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.500V8l2.300 1.500",
    "code": "M5.500 4 1.800 8l3.700 4M10.500 4l3.700 4-3.700 4",
    "fairness": "M8 2.500v11M5 13.500h6M2.500 5h11M4 5 2.200 9.500h3.600zM12 5l-1.800 4.500h3.600z",
    "history": "M2.500 8a5.500 5.500 0 1 0 1.800-4.100M2.500 2.500v3h3M8 5v3.200l2.200 1.300",
    "home": "M2.500 7.500 8 3l5.500 4.500M4 6.500v7h8v-7",
    "jobs": "M2.500 3.500h11v3h-11zM2.500 9.500h11v3h-11z",
    "key": "M5.500 13a2.800 2.800 0 1 0 0-5.600 2.800 2.800 0 0 0 0 5.600zM7.500 8.200 13.500 2.500M11 5l2 2",
    "lab": "M6 2.500h4M6.800 2.500v4L3 13.500h10L9.200 6.500v-4M4.800 10.500h6.400",
    "ledger": "M3 2.500h10v11H3zM5.500 5.500h5M5.500 8h5M5.500 10.500h3",
    "leave": "M9.500 2.500h-6v11h6M7 8h6.500M11 5.500 13.500 8 11 10.500",
    "mail": "M2 4h12v8.500H2zM2 4.500l6 4.500 6-4.500",
    "market": "M2 12.500 5.500 8l3 2.500L14 3.500M10.500 3.500H14V7",
    "members": (
        "M6 7.500a2.300 2.300 0 1 0 0-4.600 2.300 2.300 0 0 0 0 4.600zM1.800 13.500c.3-2.600 1.900-4 4.200-4"
        "s3.900 1.400 4.200 4M10.800 3.200a2.200 2.200 0 0 1 0 4.200M12 9.800c1.300.6 2.100 1.900 2.300 3.700"
    ),
    "more": "M3 8h.01M8 8h.01M13 8h.01",
    "plus": "M8 3v10M3 8h10",
    "servers": "M2.500 3v10.500M2.500 5h6M5.500 8h8M4 11h6",
    "share": "M2.500 2.500h4.500v4.500H2.500zM9 2.500h4.500v4.500H9zM2.500 9h4.500v4.500H2.500zM9 9h4.500v4.500H9z",
    "shield": "M8 1.800 13 4v4c0 3-2 5.200-5 6.200C5 13.200 3 11 3 8V4z",
    "sun": (
        "M8 5.200a2.800 2.800 0 1 0 0 5.600 2.800 2.800 0 0 0 0-5.600zM8 1.500v1.700M8 12.800v1.700M1.500 8h1.700"
        "M12.800 8h1.700M3.400 3.400l1.200 1.200m6.800 6.800 1.200 1.200m0-9.200-1.200 1.200m-6.800 6.800-1.200 1.200"
    ),
    "tenants": "M2.500 13.500v-8L6 3.500v10M6 6.500h7.500v7M2 13.500h12M8.500 9h2.500M8.500 11h2.500",
    "warning": "M8 2.500 14 13H2zM8 6.500v3M8 11.300h.01",
    "webhooks": (
        "M6 9.500 3.500 11.500a2 2 0 1 0 1.500 2M8 2.500a2.500 2.500 0 0 1 2 4l2 3.500a2.300 2.300 0 1 1-2.200 3.500H5"
    ),
    "wrong": "M4 4l8 8M12 4l-8 8",
}


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html(
        '<svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"'
        ' stroke-linejoin="round" aria-hidden="true"><path d="{}"/></svg>',
        mark_safe(ICONS[name]),  # noqa: S308  a constant of this file
    )


@register.filter
def monogram(name: object) -> str:
    """Return two letters for a tenant: of its first two words, or of its only one."""
    words = str(name).split()
    letters = "".join(word[0] for word in words[:2]) if len(words) > 1 else str(name)[:2]
    return letters.upper()


@register.filter
def in_words(action: str) -> str:
    """Return the words for the code of a history entry; the subject follows them."""
    return ACTIONS.get(action) or action.replace("_", " ").capitalize()


def _typeset(figure: str) -> str:
    """Return the text with a typographic minus sign."""
    return figure.replace("-", "\N{MINUS SIGN}")


@register.filter
def through(start: int, end: int) -> str:
    """Return slots by their first and their last number, such as "21 to 27", or "21". `end` is the first one after."""
    return f"{start}" if end - 1 <= start else f"{start} to {end - 1}"


@register.filter
def fact(value: object) -> str:
    """Return a value of the history as people read it; lists and mappings are written out."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {fact(inner)}" for name, inner in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(fact, value)) or "–"
    return str(value)


@register.filter
def credits(micro_credits: int, digits: int = 2) -> str:
    """Show an amount with two digits, for sentences and tiles; with more where a sum beside it would not add up with
    two."""
    return _typeset(amounts.shown(micro_credits, digits))


@register.filter
def amount(micro_credits: int) -> SafeString:
    """Show an amount with all six digits, two large and four small: for every table that sums."""
    text = _typeset(amounts.full(micro_credits))
    return format_html('<span class="amount">{}<span class="micro">{}</span></span>', text[:-4], text[-4:])


@register.filter
def worth(credits_of_core: float | None) -> str:
    """Show credits of the core, a float, with two digits, for sentences and tiles."""
    return "\N{EN DASH}" if credits_of_core is None else credits(amounts.micro(credits_of_core))


@register.filter
def exactly(credits_of_core: float | None) -> SafeString | str:
    """Show credits of the core, a float, to the micro-credit: for every table that sums."""
    return "\N{EN DASH}" if credits_of_core is None else amount(amounts.micro(credits_of_core))


@register.filter
def moved(credits_of_core: float | None) -> SafeString | str:
    """Show a difference in credits of the core, a float, with its sign."""
    return "\N{EN DASH}" if credits_of_core is None else signed(amounts.micro(credits_of_core))


@register.filter
def figure(number: float | None, digits: int = 3) -> str:
    """Show a number without a unit, or a dash where there is none."""
    if number is None:
        return "\N{EN DASH}"
    return _typeset(amounts.rounded(number, digits))


@register.filter
def percent(part: float | None, digits: int = 1) -> str:
    """Show a part of one in per cent."""
    return "\N{EN DASH}" if part is None else f"{figure(100 * part, digits)}\N{NO-BREAK SPACE}%"


@register.filter
def signed(micro_credits: int) -> SafeString:
    """Show an amount with all six digits and its sign: what a movement adds to an account or takes from it."""
    return format_html("{}{}", "+" if micro_credits > 0 else "", amount(micro_credits))


@register.filter
def units(number: float) -> str:
    """Show a count of units, without digits after the point if it is whole."""
    return _typeset(amounts.rounded(number, 0 if abs(number - round(number)) < 1e-6 else 1))


@register.filter
def unit_hours(hundredths: int) -> str:
    """Show hours of units with two digits, in a table whose rows and columns add up."""
    return figure(hundredths / 100, 2)


@register.filter
def unit_hours_said(hundredths: int) -> str:
    """Show hours of units in a sentence: whole from a hundred on."""
    return figure(hundredths / 100, 0) if hundredths >= 100_00 else unit_hours(hundredths)


@register.filter
def price(credits_of_slot: float, digits: int | None = None) -> str:
    """Show the price of one unit in one slot. `digits` is the number of digits of the prices beside it, as
    `amounts.price_digits` chooses them."""
    return _typeset(amounts.rounded(credits_of_slot, digits or amounts.price_digits([credits_of_slot])))


@register.filter
def duration(seconds: int) -> str:
    """Show the length of a slot in words."""
    for length, word in ((3600, "hour"), (60, "minute")):
        if seconds >= length and seconds % length == 0:
            number = seconds // length
            return f"{number} {word}" + ("" if number == 1 else "s")
    return f"{seconds} second" + ("" if seconds == 1 else "s")


@register.filter
def lasting(seconds: float) -> str:
    """Show how long something has lasted, in the largest unit of which there are two: "45 s", "12 minutes",
    "268 days"."""
    for length, word in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            return f"{units(seconds // length)} {word}"
    return f"{units(round(seconds))} s"


@register.filter
def short_label(label: str) -> str:
    """Show a resource where there is little room: "worker", "ps"."""
    words = label.split()
    return "".join(word[0] for word in words) if len(words) > 1 else label


@register.filter
def few(number: float, label: str) -> str:
    """Show a count of units where there is little room: "900 workers", "400 ps"."""
    word = short_label(label)
    return f"{units(number)} {word}{'s' if word == label and number != 1 else ''}"


@register.filter
def named(name: str, labels: Mapping[str, str]) -> str:
    """Show a resource by the label that its pool gives it."""
    return labels.get(name, name)


@register.filter
def countdown(seconds: int, late: int = 0) -> str:
    """Show the minutes and seconds left, with hours from one on, as the page itself then counts them down; or by how
    many seconds it is late."""
    if late:
        return f"{late} s late"
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{f'{hours}:' if hours else ''}{minutes:02}:{rest:02}" if seconds else "deciding"


@register.filter
def clock(moment: datetime | None, seconds: object = "") -> str:
    """Show the time of day in the reader's zone, with seconds by `|clock:"s"`, and with the day where it is
    not today. A number is the length of a pool's slots in seconds: seconds are shown where slots are no whole
    minutes."""
    if moment is None:
        return ""
    local = timezone.localtime(moment)
    to_the_second = seconds % 60 if isinstance(seconds, int) else seconds
    time = f"{local:%H:%M:%S}" if to_the_second else f"{local:%H:%M}"
    if local.date() == timezone.localdate():
        return time
    return f"{local.day} {local:%b}, {time}"


@register.simple_tag
def when(moment: datetime | None, slot: int | None = None, seconds: object = "") -> SafeString:
    """Show a time of day for people and machines, with the slot where one is given."""
    if moment is None:
        return format_html("{}", "")
    words, iso = clock(moment, seconds), moment.isoformat()
    if slot is None:
        return format_html('<time datetime="{}">{}</time>', iso, words)
    return format_html('<time datetime="{}" data-slot="{}" title="slot {}">{}</time>', iso, slot, slot, words)


@register.simple_tag
def zone() -> str:
    """Return the name of the reader's zone, for the foot of a page."""
    return timezone.get_current_timezone_name().replace("_", " ")


@register.filter
def full_stop(words: str) -> str:
    """Return the text with one sign at its end: a question or sentence that has one keeps it."""
    return words if words.endswith((".", "?", "!")) else f"{words}."


@register.filter
def meaning(role: str) -> str:
    return MEANING[role]


@register.inclusion_tag("look/field.html")
def field(bound: BoundField, **attributes: Any) -> dict[str, Any]:
    """Show a labelled control with help and errors. The label says what a placeholder would, so there is none."""
    widget = bound.field.widget
    tick = isinstance(widget, forms.CheckboxInput)
    attributes = {"placeholder": False, **attributes}
    if not tick:
        attributes["class"] = widget.attrs.get("class") or "input"  # code is written in letters of one width
    return {"field": bound, "control": bound.as_widget(attrs=attributes), "tick": tick}


@register.simple_tag(takes_context=True)
def current(context: Context, *names: str) -> SafeString:
    """Mark a link of the navigation as the current one, on the pages of these names."""
    match = getattr(context.get("request"), "resolver_match", None)
    return SafeString('aria-current="page"' if match and match.url_name in names else "")


@register.tag
def sentence(parser: Parser, token: Token) -> Sentence:
    """Render `{% sentence %} ... {% endsentence %}`: text in which each tag has a line of its own. A line that begins
    with a punctuation mark follows the line before it without a space."""
    words = parser.parse(("endsentence",))
    parser.delete_first_token()
    return Sentence(words)


class Sentence(template.Node):
    def __init__(self, nodelist: NodeList) -> None:
        self.nodelist = nodelist

    def render(self, context: Context) -> SafeString:
        return mark_safe(re.sub(r"\s*\n\s*(?=[.,;:])", "", self.nodelist.render(context)))  # noqa: S308  escaped in it

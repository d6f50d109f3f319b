"""The "?" beside a word, which opens the word's sentence."""

from __future__ import annotations

from django import template

from tenants.words import WORDS

register = template.Library()


@register.inclusion_tag("look/ask.html")
def ask(word: str) -> dict[str, str]:
    """Show the "?" of a word. It needs no script, and no id on the page: parts of a page are replaced while
    it is open."""
    return {"word": word, "sentence": WORDS[word]}

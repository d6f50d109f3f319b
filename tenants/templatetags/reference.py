"""Words of the published schema as a page shows them."""

from __future__ import annotations

import re

from django import template
from django.utils.html import escape, format_html_join
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

CODE = re.compile(r"`([^`]+)`")


@register.filter
def coded(words: str) -> SafeString:
    """What stands between backticks is code."""
    return mark_safe(CODE.sub(r"<code>\1</code>", escape(words)))  # noqa: S308  escaped before


@register.filter
def paragraphs(words: str) -> SafeString:
    return format_html_join("", "<p>{}</p>", ((coded(each),) for each in words.split("\n\n") if each))


@register.filter
def breakable(address: str) -> SafeString:
    """It may go on in the next line after each slash, and elsewhere only where it must."""
    return mark_safe(escape(address).replace("/", "/<wbr>"))  # noqa: S308  escaped before

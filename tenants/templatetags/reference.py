"""Filters and tags that show the words of the published schema on a page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.html import escape, format_html_join
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

CODE = re.compile(r"`([^`]+)`")
PAGES = ("api_docs", "api_docs_tag", "api_docs_operation")  # by the number of names in their address


@register.filter
def coded(words: str) -> SafeString:
    """Show text between backticks as code."""
    return mark_safe(CODE.sub(r"<code>\1</code>", escape(words)))  # noqa: S308  escaped before


@register.filter
def paragraphs(words: str) -> SafeString:
    return format_html_join("", "<p>{}</p>", ((coded(each),) for each in words.split("\n\n") if each))


@register.filter
def breakable(address: str) -> SafeString:
    """Let an address break after each slash, and elsewhere only where it must."""
    return mark_safe(escape(address).replace("/", "/<wbr>"))  # noqa: S308  escaped before


@register.simple_tag(takes_context=True)
def interface(context: Context, *names: str) -> str:
    """Return the address of the page about the whole interface, one tag or one operation."""
    return _here(context, PAGES[len(names)], names)


@register.simple_tag(takes_context=True)
def interface_try(context: Context, name: str) -> str:
    """Return the address to which the form that tries an operation is sent."""
    return _here(context, "api_docs_try", [name])


def _here(context: Context, page: str, names: Sequence[str]) -> str:
    """Return the page's address inside the open tenant, whose navigation stays, or else outside of any tenant."""
    tenant = context["access"].tenant
    return reverse(page, args=names) if tenant is None else reverse(f"tenant_{page}", args=[tenant.slug, *names])

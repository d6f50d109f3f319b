"""Words of the published schema as a page shows them."""

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
PAGES = ("api_docs", "api_docs_tag", "api_docs_operation")  # by how many names their address has


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


@register.simple_tag(takes_context=True)
def interface(context: Context, *names: str) -> str:
    """The address of the page about all of the interface, one tag or one operation."""
    return _here(context, PAGES[len(names)], names)


@register.simple_tag(takes_context=True)
def interface_try(context: Context, name: str) -> str:
    """Where the form that tries the operation is sent to."""
    return _here(context, "api_docs_try", [name])


def _here(context: Context, page: str, names: Sequence[str]) -> str:
    """Inside the tenant that the page is of, whose navigation stays; else of no tenant."""
    tenant = context["access"].tenant
    return reverse(page, args=names) if tenant is None else reverse(f"tenant_{page}", args=[tenant.slug, *names])

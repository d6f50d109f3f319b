"""What all forms for changes on the operator's pages share: the reason, the effect, and where a refusal is shown.

A form is sent to one address. With `?part=effect`, or by the button `check`, it is only checked: the answer says what
would change, and what is wrong with which field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from tenants.access import Refused
from tenants.form_fields import WholeForm

REASON_CODES = ("reason_missing", "reason_too_long")


@dataclass(frozen=True)
class PageChange:
    """One thing that would change, in words."""

    what: str
    before: str
    after: str
    flaw: str = ""  # why it is not possible


class ChangeForm(forms.Form):
    """A form whose last field is the reason for the change. `prefix` keeps the fields of several forms on one page
    apart."""

    reason = forms.CharField(
        max_length=300,
        help_text="Kept in the history with the change.",
        error_messages={"required": "Say why: the reason stands in the history beside the change."},
    )

    fields_of: Mapping[str, str] = MappingProxyType({})  # a refusal's code -> the field to which it belongs

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.order_fields([*(name for name in self.fields if name != "reason"), "reason"])

    def __getitem__(self, name: str) -> forms.BoundField:
        """Give controls the usual look, also those that a form adds later."""
        widget = self.fields[name].widget if name in self.fields else None
        if isinstance(
            widget, forms.TextInput | forms.NumberInput | forms.DateTimeInput | forms.Textarea | forms.Select
        ):
            widget.attrs.setdefault("class", "input")
        return super().__getitem__(name)

    def moves(self) -> list[PageChange]:
        """Return what would change; for a form with errors, as far as it is known."""
        return []

    def complain(self, refused: Refused) -> None:
        """Show a refusal at its field, or else above the form."""
        field = "reason" if refused.code in REASON_CODES else self.fields_of.get(refused.code)
        self.add_error(field if field in self.fields else None, refused.sentence)

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Return (name of the field in the browser, what is wrong), without fields that are still empty."""
        return [
            (self[name].html_name, str(errors[0]))
            for name, errors in self.errors.items()
            if name in self.fields and errors.as_data()[0].code != "required"
        ]


class WholeChangeForm(WholeForm, ChangeForm):
    """A change that is sent with all that the form shows."""


def answer(
    request: HttpRequest,
    form: ChangeForm,
    *,
    name: str,
    apply: Callable[[ChangeForm], object],
    done: str,
    back: str,
    page: Callable[[ChangeForm], HttpResponse],
) -> HttpResponse:
    """Answer a form that was sent: with its effect, or with the page `back` once it is done, or with the `page` and its
    errors.

    `name` tells the forms of a page apart.
    """
    valid = form.is_valid()
    if request.GET.get("part") == "effect":
        effect = render(request, "operator/effect.html", {"name": name, "form": form})
        effect["Cache-Control"] = "no-store"
        return effect
    if "check" in request.POST or not valid:
        return page(form)
    outcome = apply(form)
    if isinstance(outcome, Refused):
        form.complain(outcome)
        return page(form)
    messages.success(request, done)
    return redirect(back)

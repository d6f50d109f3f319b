"""Form fields that accept numbers in plain digits only, and forms that are sent whole. Django's own fields also accept
"1_000", Arabic digits, "1e3" and " 1"."""

from __future__ import annotations

import math
import re
from copy import copy
from typing import Any

from django import forms

from tenants.ledger.amounts import DIGITS_IN_WORDS, MOST, amount_read, plain, spelt, typed

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?")


class AmountField(forms.CharField):
    """Credits as "12.5"; the cleaned value is micro-credits, or None for an empty field."""

    default_error_messages = {
        "invalid": f"Write credits as 12.5, with at most {DIGITS_IN_WORDS} digits after the point."
    }

    def __init__(self, *, least: int = 0, most: int = MOST, **options: Any) -> None:
        super().__init__(**({"strip": False} | options))
        self.least, self.most = least, most

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        amount = amount_read(value)
        if amount is None:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        if not self.least <= amount <= self.most:
            raise forms.ValidationError(
                f"Must be from {spelt(self.least)} to {spelt(self.most)} credits.", code="range"
            )
        return amount

    def prepare_value(self, value: Any) -> Any:
        return typed(value) if isinstance(value, int) else value


class WholeField(forms.IntegerField):
    """A whole number in plain digits."""

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and value and not _WHOLE.fullmatch(value):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        return super().to_python(value)


class NumberField(forms.FloatField):
    """A number in plain digits, with or without a point."""

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and value and not _NUMBER.fullmatch(value):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        return super().to_python(value)

    def prepare_value(self, value: Any) -> Any:
        """Return the number without an exponent, which `to_python` would refuse."""
        return plain(value) if isinstance(value, float) and math.isfinite(value) else value


class WholeForm(forms.Form):
    """A form that is sent with all that it shows, also what its reader left as it was. `version` is what was there as
    the page was made, so that nobody undoes what somebody else has just changed. Once that is told, the same form may
    be sent again."""

    version = forms.CharField(widget=forms.HiddenInput, required=False)
    changed_meanwhile = "This was changed while you looked at it. Look again, and send it again."

    def __init__(self, version: str, *args: Any, **kwargs: Any) -> None:
        self._version = version
        super().__init__(*args, **kwargs)
        self.fields["version"].initial = version

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("version") != self._version:
            self.add_error(None, self.changed_meanwhile)
            data: Any = copy(self.data)  # with all values of a field that has several
            data[self.add_prefix("version")] = self._version
            self.data = data
        return cleaned

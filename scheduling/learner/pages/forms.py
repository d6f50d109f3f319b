"""Forms for a pool's learner: what it may do, and which weights decide."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from django import forms

from scheduling.learner.promotion import EVERY, SLOTS
from scheduling.learner.read_learner import AS_MADE, LearnerSettings, LearnerState
from scheduling.operator.pages.changes import ChangeForm, PageChange
from tenants.form_fields import WholeField

WORDS = {True: "yes", False: "no"}


class LearnerForm(ChangeForm):
    """The form for what the learner may do."""

    is_on = forms.BooleanField(required=False, label="Learn beside this pool")
    promotes = forms.BooleanField(
        required=False,
        label="Put in place by itself what has won",
        help_text="Else an operator does, on this page.",
    )
    every_seconds = WholeField(min_value=EVERY[0], max_value=EVERY[1], label="Rest between two steps")
    shadow_slots = WholeField(min_value=SLOTS[0], max_value=SLOTS[1], label="Slots in shadow before a verdict")
    margin = WholeField(min_value=0, max_value=100, label="More work than the weights in use, at least")
    fields_of = MappingProxyType({"invalid_learner": "every_seconds", "not_learned": "is_on"})

    def __init__(self, now: LearnerSettings, *args: Any, **kwargs: Any) -> None:
        self.now = now
        super().__init__(*args, prefix="learner", **kwargs)
        for name in ("is_on", "promotes", "every_seconds", "shadow_slots"):
            self.fields[name].initial = getattr(now, name)
        self.fields["margin"].initial = round(100 * now.margin)

    @property
    def settings(self) -> LearnerSettings:
        """Return the settings of a valid form."""
        fields = {name: value for name, value in self.cleaned_data.items() if name != "reason"}
        is_as_shown = fields["margin"] == round(100 * self.now.margin)  # a program may have set 2.5 %
        return LearnerSettings(**(fields | {"margin": self.now.margin if is_as_shown else fields["margin"] / 100}))

    def moves(self) -> list[PageChange]:
        fields = getattr(self, "cleaned_data", None) or {}
        before = {name: getattr(self.now, name) for name in ("is_on", "promotes", "every_seconds", "shadow_slots")}
        before["margin"] = round(100 * self.now.margin)
        return [
            PageChange(
                str(self.fields[name].label), WORDS.get(old, str(old)), WORDS.get(fields[name], str(fields[name]))
            )
            if isinstance(old, bool)
            else PageChange(str(self.fields[name].label), str(old), str(fields[name]))
            for name, old in before.items()
            if name in fields and fields[name] != old
        ]


class TakeForm(ChangeForm):
    """The form for which weights decide from the next boundary on: those that are offered, or some that decided
    before."""

    instead_of = forms.CharField(required=False, widget=forms.HiddenInput)
    fields_of = MappingProxyType({"not_offered": "weights"})

    def __init__(self, state: LearnerState, *args: Any, **kwargs: Any) -> None:
        self.state = state
        super().__init__(*args, prefix="take", **kwargs)
        offered = state.offered
        self.options = [(f"={offered.weights}", "Take", offered.weights, "what has beaten them")] if offered else []
        self.options += [(f"={name}", "Go back", name or AS_MADE, "decided here before") for name in state.earlier]
        self.fields["weights"] = forms.ChoiceField(
            choices=[(value, title) for value, _, title, _ in self.options],
            initial=self.options[0][0] if self.options else None,
        )
        self.fields["instead_of"].initial = state.digest

    @property
    def weights_name(self) -> str:
        """Return the name of the weights, or "" for those that the pool was made with."""
        return str(self.cleaned_data["weights"])[1:]

    def moves(self) -> list[PageChange]:
        value = self["weights"].value()
        titles = {each: title for each, _, title, _ in self.options}
        return [PageChange("The pool decides with", self.state.title, titles[value])] if value in titles else []

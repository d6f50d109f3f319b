"""The form that filters a job's log, as its address gives it."""

from __future__ import annotations

from django import forms

from scheduling.jobs.read_log import LogQuestion
from scheduling.programs.levels import DEBUG, ERROR, INFO, WARNING

CHOICES = [("", "Any"), (DEBUG, "Debug or graver"), (INFO, "Info or graver"), (WARNING, "Warnings"), (ERROR, "Errors")]


class LogForm(forms.Form):
    """The filter of a log. A value that is not understood does not filter."""

    search = forms.CharField(
        label="Lines with",
        max_length=200,
        required=False,
        strip=False,
        widget=forms.TextInput(attrs={"class": "input", "type": "search", "autocomplete": "off"}),
    )
    level = forms.ChoiceField(choices=CHOICES, required=False, widget=forms.Select(attrs={"class": "input"}))
    who = forms.CharField(
        label="Of",
        max_length=60,
        required=False,
        widget=forms.TextInput(
            attrs={"class": "input", "list": "log-speakers", "placeholder": "anybody", "autocomplete": "off"}
        ),
    )

    def question(self) -> LogQuestion:
        self.is_valid()
        answers = self.cleaned_data
        return LogQuestion(answers.get("search", ""), answers.get("level", ""), answers.get("who", ""))

    def before(self) -> int | None:
        """Return the byte before which lines are read, or None for the newest."""
        return self._whole("before")

    def run(self) -> int | None:
        """Return the number of the run whose log is read, or None for the newest."""
        return self._whole("run")

    def _whole(self, name: str) -> int | None:
        text = str(self.data.get(name, ""))
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None

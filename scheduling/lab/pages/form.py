"""The form of a study: fields as a person thinks of them, and the study's document that is made from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms

from scheduling.common import BadText, plain_document
from scheduling.lab.histories import sacct, swf
from scheduling.lab.studies.study import ALONE, BACKFILL, KINDS, MARKET
from scheduling.lab.studies.worth import WORTHS
from scheduling.models import Pool
from tenants.common.zones import midnight

LONGEST = 20_000  # most characters of a study that is written as text
QUESTIONS = 3  # questions in one form
WHAT_IF: dict[str, tuple[str, dict[str, Any]]] = {  # what differs for an owner: words, rule's fields
    "more": ("bought two more machines", {"add_nodes": 2}),
    "keep": ("lent nothing", {"keep": []}),
    "nights": ("lent at night alone", {"nights": []}),
    "double": ("had twice as many jobs", {"double": []}),
    "leave": ("left the market", {"leave": []}),
}
OF_ALL: dict[str, tuple[str, dict[str, Any]]] = {  # what differs for the market
    "theta": ("theta is 4", {"policy": {"theta": {"worker": 4}}}),
    "windows": ("windows are half as long", {"policy": {"clock": {"first": 1, "cap": 2, "restart": True}}}),
    "pieces": ("long jobs rent in pieces, and a save takes five minutes", {"pieces": 5}),
    "searched": ("one price is searched for each window", {"policy": {"price": "searched"}}),
    "dividend": ("owners get half of what renting gains", {"policy": {"dividend": 0.5}}),
}
FORMATS = {"sacct": "Slurm accounting (sacct)", "swf": "Standard Workload Format", "jobs": "A table of jobs"}
UNITS = {"gpu": "GPUs", "cpu": "CPUs", "node": "whole nodes", "processor": "processors"}


class _Day(forms.DateInput):
    """A browser's own input for a day, which reads and writes days in one way in all languages."""

    def __init__(self) -> None:
        super().__init__(attrs={"type": "date"}, format="%Y-%m-%d")


class StudyForm(forms.Form):
    """The form that chooses a pool's own past or a log, and the rules. `study` is the document, `uploads` are the files
    that its history names."""

    title = forms.CharField(max_length=200, label="What is it called?")
    pool = forms.ChoiceField(required=False, label="Whose past?")
    first = forms.DateField(required=False, label="First day", widget=_Day())
    last = forms.DateField(required=False, label="Last day", widget=_Day())
    log = forms.FileField(
        required=False, label="The log", help_text="A text file, or packed with gzip; 32 MiB at most."
    )
    format = forms.ChoiceField(choices=list(FORMATS.items()), required=False, label="What wrote it?")
    zone = forms.CharField(
        max_length=60,
        required=False,
        label="The zone of its times",
        help_text="Slurm prints local times; like Europe/Berlin.",
    )
    unit = forms.ChoiceField(choices=list(UNITS.items()), required=False, label="What is counted?")
    owner = forms.ChoiceField(
        choices=[(name, name) for name in dict.fromkeys((*sacct.OWNERS, *swf.OWNERS))],
        required=False,
        label="Owners are told apart by",
    )
    machines = forms.FileField(
        required=False,
        label="Its machines",
        help_text="What sinfo or scontrol prints of the nodes; without it the cluster is as large as was ever in use.",
    )
    rules = forms.MultipleChoiceField(
        choices=[(kind, words[0].upper() + words[1:]) for kind, words in KINDS.items()],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Which rules?",
        initial=[ALONE, BACKFILL, MARKET],
    )
    worth = forms.MultipleChoiceField(
        choices=[(worth, words[0].upper() + words[1:]) for worth, words in WORTHS.items()],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="What is an hour worth?",
        initial=list(WORTHS),
        help_text="No log says it: every figure holds under all that you choose.",
    )
    written = forms.CharField(
        max_length=LONGEST,
        required=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "class": "input mono"}),
        label="Or the whole study, written out",
        help_text="As in docs/guide/lab.md; nothing above counts then but title, files, and the pool with its days.",
    )

    def __init__(self, *args: Any, pools: Sequence[Pool], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pools = {pool.slug: pool for pool in pools}
        log = [("", "A log that I upload")]
        self.fields["pool"].choices = [*((pool.slug, pool.name) for pool in pools), *log]  # type: ignore[attr-defined]
        what = [("", "Nothing"), *((name, words) for name, (words, _) in (*WHAT_IF.items(), *OF_ALL.items()))]
        for number in range(1, QUESTIONS + 1):
            self.fields[f"what_{number}"] = forms.ChoiceField(choices=what, required=False, label="What if")
            self.fields[f"who_{number}"] = forms.CharField(max_length=200, required=False, label="Whose")
        self.study: dict[str, Any] = {}
        self.uploads: dict[str, bytes] = {}

    @property
    def questions(self) -> list[tuple[Any, Any]]:
        """Return the pairs of fields."""
        return [(self[f"what_{number}"], self[f"who_{number}"]) for number in range(1, QUESTIONS + 1)]

    @property
    def chosen_pool(self) -> Pool | None:
        """Return the pool whose past it is, or None where it is that of a log."""
        return self.pools.get(self.cleaned_data.get("pool", ""))

    @property
    def period(self) -> tuple[datetime | None, datetime | None]:
        """Return the days of UTC as the moments at which they begin and end."""
        first, last = self.cleaned_data.get("first"), self.cleaned_data.get("last")
        return first and midnight(first, UTC), last and midnight(last + timedelta(days=1), UTC)

    def clean(self) -> dict[str, Any]:
        answers: dict[str, Any] = super().clean() or {}
        if self.errors:
            return answers
        if self.chosen_pool is not None and not (answers.get("first") and answers.get("last")):
            self.add_error("first", "Say which days.")
        if self.chosen_pool is None and not answers.get("log"):
            self.add_error("log", "Choose a log, or a pool above.")
        if not answers["written"] and not answers["worth"]:
            self.add_error("worth", "Choose one at least.")
        if answers["written"]:
            self._read_text(answers)
        elif not self.errors:
            self._read_choices(answers)
        return answers

    def _read_text(self, answers: dict[str, Any]) -> None:
        """Take the study as the text says it; uploads keep their own names."""
        try:
            document = plain_document(answers["written"].replace("\r\n", "\n"), longest=LONGEST, has_days=True)
        except BadText as error:
            self.add_error("written", str(error))
            return
        if not isinstance(document, dict):
            self.add_error("written", "Write the fields of a study, for example `rules: [alone, market]`.")
            return
        self.study = {**document, "title": answers["title"]}
        uploads = [answers[name] for name in ("log", "machines") if answers.get(name)]
        self.uploads = {upload.name: upload.read() for upload in uploads}

    def _read_choices(self, answers: dict[str, Any]) -> None:
        rules: list[Any] = [kind for kind in KINDS if kind in answers["rules"]]
        questions = [
            (answers[f"what_{number}"], answers[f"who_{number}"].strip()) for number in range(1, QUESTIONS + 1)
        ]
        rules += [_rule(what, who) for what, who in questions if what]
        self.study = {"title": answers["title"], "rules": rules, "worth": answers["worth"]}
        if MARKET in rules[1:]:  # the first rule is what the others are set beside
            self.study["answer"] = MARKET
        if self.chosen_pool is not None:
            return
        log = answers["log"].read()
        name = "log.txt.gz" if log[:2] == b"\x1f\x8b" else "log.txt"
        self.uploads = {name: log}
        form = answers["format"] or "sacct"
        history = {"format": form, "file": name}
        fields = ("zone",) if form == "swf" else ("zone", "unit")  # the Standard Workload Format counts processors
        history |= {field: answers[field] for field in fields if answers[field]}
        if form != "jobs" and answers["owner"]:
            history["owner"] = answers["owner"]
        if answers.get("machines"):
            self.uploads["nodes.txt"] = answers["machines"].read()
            history["machines"] = "nodes.txt"
        self.study["history"] = history


def _rule(what: str, who: str) -> dict[str, Any]:
    """Return the rule of a market in which one thing differs."""
    if what in OF_ALL:
        words, fields = OF_ALL[what]
        return {"name": words, "rule": MARKET, **fields}
    words, fields = WHAT_IF[what]
    [(field, value)] = fields.items()
    return {"name": f"{who} {words}"[:60], "rule": MARKET, field: {who: value} if field == "add_nodes" else [who]}

"""The form of a job in its owner's words, and its way to and from the words of a scenario file.

The form checks that numbers are numbers; whether a job is possible is for the service, whose complaint comes back to
the field that it is about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from scheduling.engines.programs import PROGRAMS
from scheduling.models import ResourceKind
from scheduling.services.submission import Wanted
from scheduling.snapshots.specs import PROGRAM
from scheduling.views.submit_program import parameter_fields, program_asked, program_values

FORM, TEXT = "form", "text"
KINDS = ("linear", "convex", "deadline", "sigmoid")
WHOLE = ("epochs", "chunks", "minibatches", "min_workers", "max_workers", "max_ps", "priority")
PLAIN = (*WHOLE, "minibatch_seconds", "update_seconds", "gradient_mb", "worker_mbps", "ps_mbps", "max_price", "rent")
VALUE_FIELDS = {  # kind -> field of the form -> field of the value
    "linear": {"worth": "base", "loss": "slope"},
    "convex": {"worth": "scale", "power": "power"},
    "deadline": {"worth": "base", "deadline": "deadline"},
    "sigmoid": {"worth": "priority", "target": "target", "decay": "decay"},
}
MISSING = "Needed for this kind of worth."


def _whole(label: str, help_text: str = "", *, needed: bool = False) -> forms.IntegerField:
    widget = forms.TextInput(attrs={"inputmode": "numeric", "class": "input", "autocomplete": "off"})
    errors = {"required": f"Say the {label.lower()}.", "invalid": "Enter a whole number."}
    return forms.IntegerField(label=label, help_text=help_text, required=needed, widget=widget, error_messages=errors)


def _number(label: str, help_text: str = "", *, needed: bool = False) -> forms.FloatField:
    widget = forms.TextInput(attrs={"inputmode": "decimal", "class": "input", "autocomplete": "off"})
    errors = {"required": f"Say the {label.lower()}.", "invalid": "Enter a number."}
    return forms.FloatField(label=label, help_text=help_text, required=needed, widget=widget, error_messages=errors)


class JobForm(forms.Form):
    """One field for each thing that a person decides; `spec()` is the job as the services take it."""

    key = forms.CharField(widget=forms.HiddenInput, max_length=80)
    source = forms.ChoiceField(choices=[(FORM, "Fill in the form"), (TEXT, "Paste or upload")], initial=FORM)
    name = forms.CharField(
        label="Name",
        max_length=200,
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
        error_messages={"required": "Give the job a name."},
    )
    wanted = forms.ChoiceField(choices=Wanted.choices, initial=Wanted.BATCH)
    text = forms.CharField(label="Specification", required=False, widget=forms.Textarea, strip=False)
    file = forms.FileField(
        label="Or a file",
        required=False,
        allow_empty_file=True,
        help_text="YAML or JSON, up to 64 kB.",
        widget=forms.FileInput(attrs={"class": "input"}),
    )
    program = forms.ChoiceField(
        required=False,
        choices=[("", "None"), *((program.name, program.title) for program in PROGRAMS.values())],
        error_messages={"invalid_choice": "No such program is registered here."},
    )
    epochs = _whole("Epochs", "How often the whole data is gone through.", needed=True)
    chunks = _whole(
        "Chunks",
        "Equal parts of the data. Each is trained by one worker at a time, so no more workers than chunks help.",
        needed=True,
    )
    minibatches = _whole("Mini-batches in a chunk", "Steps a worker takes through one chunk. Empty: 1.")
    minibatch_seconds = _number("Time per mini-batch", "On one worker, without the exchange.", needed=True)
    gradient_mb = _number("Gradients", "Exchanged at every mini-batch once the job is spread. Empty: none.")
    worker_mbps = _number("Bandwidth of a worker", "Needed if there are gradients.")
    ps_mbps = _number("Bandwidth of a parameter server", "Says how many workers one can serve.")
    update_seconds = _number("Time to apply an update", "On a parameter server. Empty: 0.")
    min_workers = _whole("Workers, at least", "It never runs on fewer. Empty: 1.")
    max_workers = _whole("Workers, at most", "Empty: one for each chunk.")
    max_ps = _whole("Parameter servers, at most", "Empty: as many as the workers need.")
    kind = forms.ChoiceField(choices=[(kind, kind) for kind in KINDS], initial="linear")
    worth = _number(
        "Worth if it is early",
        "Your honest value is your best report: prices do not depend on it, and you never pay it.",
        needed=True,
    )
    loss = _number("Less for each slot later")
    power = _number("How fast it falls", "1: half after twice the time. 2: a quarter.")
    deadline = _number("Deadline", "Full worth until then, nothing after it.")
    target = _number("Target", "About half is left there.")
    decay = _number("How sharply it falls", "0.1: gently. 5: almost a deadline.")
    max_price = _number("Pay at most", "For the whole run. Empty: no limit of its own.")
    rent = forms.ChoiceField(
        label="Renting",
        widget=forms.Select(attrs={"class": "input"}),
        required=False,
        choices=[
            ("", "As the tenant's policy says"),
            ("auto", "Whenever it is worth it"),
            ("never", "Never: home only"),
        ],
    )
    priority = _whole("Priority among my own", "Larger goes first. Empty: 0.")

    def __init__(self, *args: Any, kinds: Sequence[ResourceKind], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kinds = kinds
        self.fields |= parameter_fields()
        self.fields["text"].widget.attrs |= {"class": "input log", "rows": 14, "spellcheck": "false"}
        for unit, words in (("worker", "A worker takes"), ("ps", "A parameter server takes")):
            for kind in kinds:
                self.fields[f"{unit}_takes_{kind.name}"] = _number(f"{words}, {kind.label}s")

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if found.get("source") == TEXT:
            for name in set(self.errors) - {"key", "source", "wanted", "text", "file"}:
                del self.errors[name]  # the text says these
            return found
        for name in [name for name in self.errors if "__" in name and name.split("__")[0] != found.get("program")]:
            del self.errors[name]  # of a program that was not chosen
        for name in VALUE_FIELDS.get(found.get("kind", ""), {}):
            if found.get(name) is None and name not in self.errors:
                self.add_error(name, MISSING)
        return found

    def spec(self) -> dict[str, Any]:
        """Of a valid form; what was left empty is left out."""
        found = self.cleaned_data
        spec = {name: found[name] for name in PLAIN if found.get(name) not in (None, "")}
        for unit in ("worker", "ps"):
            taken = {kind.name: found.get(f"{unit}_takes_{kind.name}") for kind in self.kinds}
            spec[f"{unit}_demand"] = {name: amount for name, amount in taken.items() if amount}
        return {**spec, **program_asked(found), "value": value_asked(found)}

    def takes(self) -> list[tuple[Any, Any]]:
        """For each resource, the field of a worker and that of a parameter server."""
        return [(self[f"worker_takes_{kind.name}"], self[f"ps_takes_{kind.name}"]) for kind in self.kinds]


def value_asked(found: Mapping[str, Any]) -> dict[str, Any]:
    """What the fields of a value mean, in the words of a specification."""
    kind = found["kind"]
    value = {"kind": kind} | {word: found[name] for name, word in VALUE_FIELDS[kind].items()}
    if kind == "linear":
        value["slope"] = -value["slope"] + 0.0
    if kind == "convex":
        value["scale"] = _power(value["scale"], 1.0 / value["power"] if value["power"] else 0.0)
    return value


def _power(base: float, exponent: float) -> float:
    """What has no power stays as it is: the service will say what is wrong with it."""
    try:
        return base**exponent if base > 0 and exponent > 0 else base
    except OverflowError:
        return base


def form_values(spec: Mapping[str, Any], kinds: Sequence[ResourceKind]) -> dict[str, Any] | None:
    """The form filled with a job; None where the job says something that the form has no field for."""
    known = {*PLAIN, PROGRAM, "value", "worker_demand", "ps_demand"}
    value, demands = spec.get("value", {}), [spec.get("worker_demand", {}), spec.get("ps_demand", {})]
    if set(spec) - known or not isinstance(value, Mapping) or not all(isinstance(d, Mapping) for d in demands):
        return None
    if any(isinstance(spec.get(name), list) for name in PLAIN) or value.get("kind") not in KINDS:
        return None
    if (runs := program_values(spec)) is None:
        return None
    found: dict[str, Any] = runs | {name: spec[name] for name in PLAIN if spec.get(name) is not None}
    for unit, demand in zip(("worker", "ps"), demands, strict=True):
        found |= {f"{unit}_takes_{kind.name}": demand.get(kind.name, "") for kind in kinds}
    return found | value_fields(value)


def value_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the form that mean this value."""
    kind = value["kind"]
    found = {"kind": kind} | {name: value.get(word) for name, word in VALUE_FIELDS[kind].items()}
    if kind == "linear" and isinstance(found["loss"], int | float):
        found["loss"] = -found["loss"] + 0.0
    if kind == "convex" and isinstance(found["worth"], int | float) and isinstance(found["power"], int | float):
        found["worth"] = _power(float(found["worth"]), float(found["power"]))
    return {name: _rounded(entry) for name, entry in found.items()}


def plain(number: Any) -> Any:
    """As a person writes it: 3 and not 3.0."""
    return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 2**53 else number


def _rounded(number: Any) -> Any:
    """No more digits than mean something; up, so that what was enough is still enough."""
    if not isinstance(number, float):
        return number
    return plain(math.ceil(round(number * 1_000_000, 3)) / 1_000_000)


def field_of(place: str, program: str = "") -> str | None:
    """The form's field for a field of the job, as a refusal names it. None: it is about the whole job."""
    head, _, rest = place.partition(".")
    if head == PROGRAM:
        parameter = rest.removeprefix("parameters").removeprefix(".")
        names = (f"{program}__{parameter}", parameter)
        return next((name for name in names if name in parameter_fields() or name in WHOLE), "program")
    if head in ("worker_demand", "ps_demand"):
        unit = "worker" if head == "worker_demand" else "ps"
        return f"{unit}_takes_{rest}" if rest else None
    if head == "value":
        words = {word: name for fields in VALUE_FIELDS.values() for name, word in fields.items()}
        return words.get(rest, "kind")
    return {"lane": "wanted"}.get(head, head) or None

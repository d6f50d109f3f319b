"""The form of a job in its owner's words, and its translation to and from the words of a scenario file.

The form checks that numbers are numbers. Whether a job is possible is checked by the service, whose complaint is shown
at the field that it is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from scheduling.engines.programs import PROGRAMS
from scheduling.market.view import ONES, AmountSteps
from scheduling.models import PROGRAM, UNTIL, Lane, ResourceKind
from scheduling.quotes.pages.submit_catalogue import OfferedProgram, program_find
from scheduling.quotes.pages.submit_hours import HOURS, RESERVE, SCRIPT, short_fields
from scheduling.quotes.pages.submit_pieces import (
    AS_PROGRAM,
    PIECES,
    WHOLE_ONLY,
    pieces_asked,
    pieces_word,
    unbroken_follows,
)
from scheduling.quotes.pages.submit_program import parameter_fields, program_asked, program_values
from scheduling.quotes.pages.submit_target import FIELDS, target_asked, target_values, threshold_flaw
from tenants.form_fields import NumberField, WholeField
from tenants.ledger.amounts import credits_up
from tenants.ledger.amounts import plain as written_plain

FORM, TEXT = "form", "text"
# The ways to describe a job, in the order of the tabs.
TABS = ((HOURS, "In hours"), (SCRIPT, "From a Slurm script"), (FORM, "In detail"), (TEXT, "As YAML"))
OF_TAB = {  # the fields of each but the detailed form, without parameters; `key`, `source` and `wanted` belong to all
    HOURS: ("name", "runs", "gpus", "hours", "scaling", "by", "by_worth", "later", "begin", "divisible"),
    SCRIPT: (
        "script",
        "script_file",
        "archive_file",
        "brings",
        "together",
        "by",
        "by_worth",
        "later",
        "begin",
        "divisible",
    ),
    TEXT: ("text", "file"),
}
KINDS = ("linear", "convex", "deadline", "sigmoid")
WHOLE = ("epochs", "chunks", "minibatches", "min_workers", "max_workers", "max_ps", "priority")
PLAIN = (
    *WHOLE,
    "minibatch_seconds",
    "update_seconds",
    "gradient_mb",
    "worker_mbps",
    "ps_mbps",
    "max_price",
    "rent",
    "save_slots",
)
VALUE_FIELDS = {  # kind -> field of the form -> field of the value
    "linear": {"worth": "base", "loss": "slope"},
    "convex": {"worth": "scale", "power": "power"},
    "deadline": {"worth": "base", "deadline": "deadline"},
    "sigmoid": {"worth": "priority", "target": "target", "decay": "decay"},
}
MISSING = "Needed for this kind of worth."
# The form's word for when a job is decided -> the lane of its submission, and the other lane if the first does
# not take it at once.
BATCH, EITHER = "batch", "either"
WANTED: Mapping[str, tuple[str, str | None]] = {
    BATCH: (Lane.BATCH.value, None),
    "instant": (Lane.INSTANT.value, None),
    EITHER: (Lane.INSTANT.value, Lane.BATCH.value),
}


def _whole(label: str, help_text: str = "", *, needed: bool = False) -> WholeField:
    widget = forms.TextInput(attrs={"inputmode": "numeric", "class": "input", "autocomplete": "off"})
    errors = {"required": f"Say the {label.lower()}.", "invalid": "Enter a whole number."}
    return WholeField(label=label, help_text=help_text, required=needed, widget=widget, error_messages=errors)


def _number(label: str, help_text: str = "", *, needed: bool = False) -> NumberField:
    widget = forms.TextInput(attrs={"inputmode": "decimal", "class": "input", "autocomplete": "off"})
    errors = {"required": f"Say the {label.lower()}.", "invalid": "Enter a number."}
    return NumberField(label=label, help_text=help_text, required=needed, widget=widget, error_messages=errors)


def worth_help(policy: Mapping[str, Any]) -> str:
    """Return what to say of a job's worth under this policy of the batch lane. Only where no price depends on what a
    job says is the truth the best that one job that rents can say (G11, 10.5)."""
    searched, shared = policy.get("price") == "searched", bool(policy.get("dividend"))
    if not (searched or shared):
        return "For one job that rents, the truth is best: prices do not depend on it, and it is never what you pay."
    why = {
        (True, False): "the price is found by trying what jobs say they are worth",
        (False, True): "owners get a share of what renting gains",
        (
            True,
            True,
        ): "the price is found by trying what jobs say they are worth, and owners get a share of what it gains",
    }[searched, shared]
    return f"In this pool {why}: saying less than the truth may pay less, and may lose the place to somebody else."


class JobForm(forms.Form):
    """A form with one field for each thing that a person decides; `spec()` returns the job as the services take it."""

    key = forms.CharField(widget=forms.HiddenInput, max_length=80)
    source = forms.ChoiceField(choices=TABS, initial=HOURS, widget=forms.HiddenInput)
    name = forms.CharField(
        label="Name",
        max_length=200,
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
        error_messages={"required": "Give the job a name."},
    )
    wanted = forms.ChoiceField(choices=[(word, word) for word in WANTED], initial=BATCH)
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
        choices=[*((program.name, program.title) for program in PROGRAMS.values()), ("", RESERVE)],
        error_messages={"invalid_choice": "No such program is registered here."},
    )
    epochs = _whole("Epochs", "How often the whole data is gone through.", needed=True)
    until_converged = forms.BooleanField(label="Stop when the loss has stopped falling", required=False)
    threshold = _number("Falls by less than", "In an epoch, of the largest loss so far. Empty: 1 per cent.")
    patience = _whole("For so many epochs in a row", "Empty: 3.")
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
    no_ps = forms.BooleanField(label="Without parameter servers: workers exchange among themselves", required=False)
    max_ps = _whole("Parameter servers, at most", "Empty: as many as the workers need.")
    mode = forms.ChoiceField(
        label="Updates",
        required=False,
        choices=[("", "As the policy takes them"), ("sync", "Synchronous"), ("async", "Asynchronous")],
        widget=forms.Select(attrs={"class": "input"}),
    )
    speed = forms.CharField(
        label="Speed function",
        required=False,
        help_text="Its coefficients, with commas: five if updates are synchronous, else four. Empty: none is known.",
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
    )
    kind = forms.ChoiceField(choices=[(kind, kind) for kind in KINDS], initial="linear")
    worth = _number("Worth if it is early", needed=True)
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
    divisible = forms.ChoiceField(
        label="May it be saved, and go on later elsewhere?",
        help_text="If it may, it rents in pieces, window by window.",
        widget=forms.Select(attrs={"class": "input full"}),
        required=False,
        choices=[
            (AS_PROGRAM, "If its program can"),
            (PIECES, "Yes, it may rent in pieces"),
            (WHOLE_ONLY, "No, it is sold whole"),
        ],
    )
    save_slots = _number("Lost to a save", "And to the load after it. Empty: nothing.")
    priority = _whole("Priority among my own", "Larger goes first. Empty: 0.")

    def __init__(
        self,
        data: Any = None,
        *args: Any,
        kinds: Sequence[ResourceKind],
        programs: Sequence[OfferedProgram] = (),
        **kwargs: Any,
    ) -> None:
        """`programs` are those of the catalogue that may be chosen. The parameters of the chosen one become fields;
        where the data lack them, as the program was chosen only now, they get their defaults."""
        of_tab = (data or {}).get("program" if (data or {}).get("source") == FORM else "runs")
        self.chosen_program = next((each for each in programs if each.choice == of_tab), None)
        if self.chosen_program is not None:
            missing = {name: text for name, text in self.chosen_program.defaults().items() if name not in data}
            data = data.copy()
            data.update(missing)
        super().__init__(data, *args, **kwargs)
        self.kinds, self.programs = kinds, programs
        self.fields |= short_fields(programs) | parameter_fields()
        self.fields |= self.chosen_program.fields() if self.chosen_program else {}
        self.fields["program"].choices += [(each.choice, each.label) for each in programs]  # type: ignore[attr-defined]
        self.fields["text"].widget.attrs |= {"class": "input log", "rows": 14, "spellcheck": "false"}
        for unit, words in (("worker", "A worker takes"), ("ps", "A parameter server takes")):
            for kind in kinds:
                steps = AmountSteps(kind.least, kind.step)
                help_text = "" if steps == ONES else f"{steps}; empty: nothing."
                self.fields[f"{unit}_takes_{kind.name}"] = _number(f"{words}, {kind.label}s", help_text)

    def clean_threshold(self) -> float | None:
        per_cent: float | None = self.cleaned_data["threshold"]
        if flaw := threshold_flaw(per_cent):
            raise forms.ValidationError(flaw)
        return per_cent

    def clean_speed(self) -> list[float]:
        parts = [part.strip() for part in self.cleaned_data["speed"].split(",") if part.strip()]
        return [NumberField().clean(part) for part in parts]

    def clean(self) -> dict[str, Any]:
        answers = super().clean() or {}
        source = answers.get("source", "")
        if (own := OF_TAB.get(source)) is not None:
            parameters = self.chosen_program.defaults() if self.chosen_program and source == HOURS else ()
            for name in set(self.errors) - {"key", "source", "wanted", *own, *parameters}:
                del self.errors[name]  # the field is on another tab
            return answers
        for name in set(self.errors) & set(short_fields(())):
            del self.errors[name]
        for name in [name for name in self.errors if "__" in name and name.split("__")[0] != answers.get("program")]:
            del self.errors[name]  # its program was not chosen
        for name in VALUE_FIELDS.get(answers.get("kind", ""), {}):
            if answers.get(name) is None and name not in self.errors:
                self.add_error(name, MISSING)
        return answers

    def spec(self) -> dict[str, Any]:
        """Return the specification of a valid form; what was left empty is left out."""
        answers = self.cleaned_data
        spec = {name: plain(answers[name]) for name in PLAIN if answers.get(name) not in (None, "")}
        for unit in ("worker", "ps"):
            demand = {kind.name: answers.get(f"{unit}_takes_{kind.name}") for kind in self.kinds}
            spec[f"{unit}_demand"] = {name: plain(amount) for name, amount in demand.items() if amount}
        spec |= {name: answers[name] for name in ("mode", "speed") if answers.get(name)}
        if answers.get("no_ps"):
            spec["ps_demand"] = []
        spec |= pieces_asked(answers)
        choice = self.program_of_catalogue()
        program = {PROGRAM: choice} if choice else program_asked(answers)
        return {**spec, **program, **target_asked(answers), "value": value_asked(answers)}

    def program_of_catalogue(self) -> dict[str, Any] | None:
        """Return the program that a valid form chose, with its parameters, as a specification names it."""
        return self.chosen_program.in_spec(self.cleaned_data) if self.chosen_program else None

    def takes(self) -> list[tuple[Any, Any]]:
        """Return, for each resource, the field of a worker and that of a parameter server."""
        return [(self[f"worker_takes_{kind.name}"], self[f"ps_takes_{kind.name}"]) for kind in self.kinds]


def value_asked(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the fields of a value mean, as part of a specification."""
    kind = answers["kind"]
    value = {"kind": kind} | {word: answers[name] for name, word in VALUE_FIELDS[kind].items()}
    if kind == "linear":
        value["slope"] = -value["slope"] + 0.0
    if kind == "convex":
        value["scale"] = _power(value["scale"], 1.0 / value["power"] if value["power"] else 0.0)
    return value


def _power(base: float, exponent: float) -> float:
    """Return the power. A base that has none stays as it is: the service will say what is wrong with it."""
    try:
        return base**exponent if base > 0 and exponent > 0 else base
    except OverflowError:
        return base


def form_values(
    spec: Mapping[str, Any],
    kinds: Sequence[ResourceKind],
    *,
    exact: bool = False,
    programs: Sequence[OfferedProgram] = (),
) -> dict[str, Any] | None:
    """Return the form filled with a job, or None where the job says something that the form has no field for.
    `programs` are those of the catalogue that it shows."""
    fields = {*PLAIN, PROGRAM, UNTIL, "value", "divisible", "unbroken", "worker_demand", "ps_demand", "mode", "speed"}
    value, demands = spec.get("value", {}), [spec.get("worker_demand", {}), spec.get("ps_demand") or {}]
    if set(spec) - fields or not isinstance(value, Mapping) or not all(isinstance(d, Mapping) for d in demands):
        return None
    if any(isinstance(spec.get(name), list) for name in PLAIN) or value.get("kind") not in KINDS:
        return None
    program = spec.get(PROGRAM)
    offer = program_find(programs, program) if isinstance(program, Mapping) else None
    if offer is not None and isinstance(program, Mapping):
        of_catalogue = offer.values(program.get("parameters", {}))
        runs = None if of_catalogue is None else of_catalogue | {"program": offer.choice}
    else:
        runs = program_values(spec)
    until = target_values(spec)
    if runs is None or until is None or not unbroken_follows(spec, offer.program if offer else None):
        return None
    values: dict[str, Any] = runs | until | {name: spec[name] for name in PLAIN if spec.get(name) is not None}
    for unit, demand in zip(("worker", "ps"), demands, strict=True):
        values |= {f"{unit}_takes_{kind.name}": demand.get(kind.name, "") for kind in kinds}
    speed = spec.get("speed", [])
    if not isinstance(speed, list) or not all(type(each) in (int, float) for each in speed):
        return None
    values |= {"mode": spec.get("mode", ""), "speed": ", ".join(map(written_plain, speed))}
    values["no_ps"] = "on" if spec.get("ps_demand") == [] else ""
    divides = pieces_word(spec)
    return None if divides is None else values | {"divisible": divides} | value_fields(value, exact=exact)


def value_fields(value: Mapping[str, Any], *, exact: bool = False) -> dict[str, Any]:
    """Return the fields of the form that mean this value; if `exact`, with all its digits."""
    kind = value["kind"]
    values = {"kind": kind} | {name: value.get(word) for name, word in VALUE_FIELDS[kind].items()}
    if kind == "linear" and isinstance(values["loss"], int | float):
        values["loss"] = -values["loss"] + 0.0
    if kind == "convex" and isinstance(values["worth"], int | float) and isinstance(values["power"], int | float):
        values["worth"] = _power(float(values["worth"]), float(values["power"]))
    return {name: plain(entry) if exact else _rounded(entry) for name, entry in values.items()}


def plain(number: Any) -> Any:
    """Return the number as a person writes it: 3 and not 3.0."""
    return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 2**53 else number


def _rounded(number: Any) -> Any:
    """Round a number up to as many digits as mean something, so that what was enough is still enough."""
    if not isinstance(number, float):
        return number
    return plain(credits_up(number))


def field_of(place: str, program: str = "", offer: OfferedProgram | None = None) -> str | None:
    """Return the form's field for a field of the job that a refusal names. Return None if the refusal is about the
    whole job. `offer` is the chosen program of the catalogue."""
    head, _, rest = place.partition(".")
    if head == PROGRAM:
        parameter = rest.removeprefix("parameters").removeprefix(".")
        if offer is not None:
            fields = {each.name: offer.field_name(each) for each in offer.program.parameters}
            return fields.get(parameter, "program")
        names = (f"{program}__{parameter}", parameter)
        return next((name for name in names if name in parameter_fields() or name in WHOLE), "program")
    if head in ("worker_demand", "ps_demand"):
        unit = "worker" if head == "worker_demand" else "ps"
        return f"{unit}_takes_{rest}" if rest else None
    if head == UNTIL:
        return FIELDS.get(rest, UNTIL)
    if head == "value":
        words = {word: name for fields in VALUE_FIELDS.values() for name, word in fields.items()}
        return words.get(rest, "kind")
    return {"lane": "wanted"}.get(head, head) or None

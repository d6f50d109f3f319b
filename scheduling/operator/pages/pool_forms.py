"""Forms about pools: to make one, and to change one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from django import forms

from scheduling.market.elastic import MOST_CREDITS, MOST_PRICE, UsePricesNow
from scheduling.market.view import AmountSteps, amount_text
from scheduling.models import Lane, Pool
from scheduling.operator.pages.changes import ChangeForm, PageChange, WholeChangeForm
from scheduling.operator.pools import InvalidPolicy
from scheduling.operator.read_operator import PoolClock
from scheduling.runs import LOCAL
from tenants.access import Refused
from tenants.form_fields import WholeField
from tenants.ledger.amounts import DIGITS_IN_WORDS, amount_read, typed
from tenants.templatetags.look import credits

HOLD, DRAIN, RESUME = "hold", "drain", "resume"
ACTIONS = MappingProxyType(
    {
        HOLD: ("Hold it", "Nothing new is decided. Jobs may still be submitted to the batch lane, and wait.", "held"),
        DRAIN: ("Drain it", "Nothing new is decided or accepted, so that the pool comes to rest.", "draining"),
        RESUME: (
            "Resume it",
            "The next boundary decides again; those that passed meanwhile stay undecided.",
            "running",
        ),
    }
)
_NOT_NOW = MappingProxyType({"running": (RESUME,), "held": (HOLD,), "draining": (HOLD, DRAIN)})
BATCH_POLICY = {"name": "astraea", "mode": "guarantee"}
# `reproduce guarantee` measured these, at the load of the whole cluster and at twice that.
PRICES_HELP = (
    'With "price": "searched" each interval tries twelve prices and posts the best; with "dividend": 0.5 owners get '
    "half of what renting gains, besides the price. Of all that sharing gains, owners got 46 % with posted prices, "
    "48 % with searched ones, 66 % with both (44, 62 and 70 % where jobs ask for twice the cluster). The other side "
    "of it: what a job says it is worth then moves its own price, and in a fifth to a third of all tries saying "
    "less paid. With posted prices and no dividend no price depends on what a job says. "
    'With "parts": "nothing" a job that rents in pieces is worth something only once it is done: without a place of '
    "its own it pays then, and has everything back if it expires; what is saved of it is deleted."
)
INSTANT_POLICY = {
    "name": "oasis",
    "worker_price": {"floor": 0.05, "ceiling": {"worker": 2.0}},
    "ps_price": {"floor": 0.05, "ceiling": {"ps": 2.0}},
}
# Plain digits only: other notations of numbers are refused, since nobody means them here.
STEPS_LINE = r"\s*([a-z0-9_-]+)\s*:\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s+([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*"
RESOURCES = "worker: worker\nps: parameter server"


class HoldForm(ChangeForm):
    """The form to hold, drain or resume a pool: those that are possible now."""

    def __init__(self, state: PoolClock, *args: Any, **kwargs: Any) -> None:
        self.state = state
        super().__init__(*args, **kwargs)
        self.options = [(code, *ACTIONS[code][:2]) for code in ACTIONS if code not in _NOT_NOW[state.word]]
        self.fields["action"] = forms.ChoiceField(
            choices=[(code, title) for code, title, _ in self.options],
            initial=self.options[0][0],
            error_messages={"invalid_choice": f"{state.pool.name} is {state.word} by now."},
        )

    def moves(self) -> list[PageChange]:
        action = self["action"].value()
        if action not in [code for code, *_ in self.options]:
            return []
        return [PageChange(f"{self.state.pool.name} is", self.state.word, ACTIONS[action][2])]


class PolicyField(forms.CharField):
    """Read a policy as JSON, as a scenario file has it."""

    widget = forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "class": "input mono"})

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(f"This is not JSON: {error}.") from error
        if not isinstance(document, dict):
            raise forms.ValidationError("A policy is an object with a name and fields.")
        return document


class StepsField(forms.CharField):
    """Read lines "memory: 0.5 0.25" as the steps of each resource; return None if the field is empty."""

    widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "input mono"})

    def to_python(self, value: Any) -> Any:
        steps: dict[str, AmountSteps] = {}
        for line in (super().to_python(value) or "").splitlines():
            if not line.strip():
                continue
            match = re.fullmatch(STEPS_LINE, line)
            if match is None or match[1] in steps:
                raise forms.ValidationError(
                    f"“{line.strip()}” is not a resource, a colon, the least amount and the step, each once."
                )
            steps[match[1]] = AmountSteps(Decimal(match[2]), Decimal(match[3]))
        return steps or None


class PricesField(forms.CharField):
    """Read lines "worker: 0.05" as micro-credits by resource; return None if the field is empty."""

    widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "input mono"})

    def to_python(self, value: Any) -> Any:
        numbers: dict[str, int] = {}
        for line in (super().to_python(value) or "").splitlines():
            name, colon, amount = (part.strip() for part in line.partition(":"))
            if not line.strip():
                continue
            if not (name and colon) or name in numbers:
                raise forms.ValidationError(f"“{line.strip()}” is not a resource, a colon and credits, each once.")
            numbers[name] = _micro(amount, name)
        return numbers or None


def _micro(amount: str, name: str) -> int:
    micro = amount_read(amount)
    if micro is None:
        raise forms.ValidationError(
            f"{name}: “{amount}” is not a number of credits with up to {DIGITS_IN_WORDS} digits."
        )
    if not 0 <= micro <= MOST_PRICE:
        raise forms.ValidationError(f"{name}: a price is 0 to {MOST_CREDITS:,} credits.")
    return micro


class ServersReturnForm(ChangeForm):
    """Sets whether servers that the pool's engine lost return to service by themselves."""

    returns = forms.BooleanField(
        required=False, label="A server that the engine lost is in service again by itself, once it is up"
    )

    def __init__(self, pool: Pool, *args: Any, **kwargs: Any) -> None:
        self.now = pool.servers_return
        super().__init__(*args, prefix="return", **kwargs)
        self.fields["returns"].initial = pool.servers_return

    def moves(self) -> list[PageChange]:
        wish = bool((getattr(self, "cleaned_data", None) or {}).get("returns"))
        words = {True: "come back by themselves", False: "wait for an operator"}
        return [PageChange("Servers that the engine lost", words[self.now], words[wish])] if wish != self.now else []


class StepsForm(WholeChangeForm):
    """Sets which amounts of each resource a unit may take, from the next submission on."""

    steps = StepsField(
        label="Amounts that a unit may take", help_text="One resource a line, a colon, the least amount and the step."
    )
    fields_of = MappingProxyType({"invalid_step": "steps"})

    def __init__(self, now: Mapping[str, AmountSteps], *args: Any, **kwargs: Any) -> None:
        self.now = now
        lines = [f"{name}: {amount_text(each.least)} {amount_text(each.step)}" for name, each in now.items()]
        super().__init__(", ".join(lines), *args, prefix="steps", **kwargs)
        self.fields["steps"].initial = "\n".join(lines)

    def moves(self) -> list[PageChange]:
        fields = (getattr(self, "cleaned_data", None) or {}).get("steps") or {}
        return [
            PageChange(f"A unit takes of {name}", str(self.now[name]), str(each))
            for name, each in fields.items()
            if name in self.now and each != self.now[name]
        ]


class UsePricesForm(WholeChangeForm):
    """Sets what each unit costs in a slot of an elastic pool from the next slot on."""

    prices = PricesField(
        label="Prices of use", help_text="One resource a line, a colon, and credits for a unit and slot."
    )
    fields_of = MappingProxyType({"invalid_price": "prices", "not_elastic": "prices"})

    def __init__(self, now: UsePricesNow, *args: Any, **kwargs: Any) -> None:
        self.now = now
        lines = [f"{name}: {typed(micro)}" for name, micro in now.prices.items()]
        super().__init__(", ".join(lines), *args, prefix="use", **kwargs)
        self.fields["prices"].initial = "\n".join(lines)

    def moves(self) -> list[PageChange]:
        fields = (getattr(self, "cleaned_data", None) or {}).get("prices") or {}
        return [
            PageChange(f"A slot of a {name}", credits(self.now.prices[name]), credits(micro))
            for name, micro in fields.items()
            if name in self.now.prices and micro != self.now.prices[name]
        ]


class PoolForm(ChangeForm):
    slug = forms.RegexField(
        r"^[a-z0-9]+([-_][a-z0-9]+)*\Z",
        max_length=40,
        label="Short name",
        help_text="In addresses: small letters and digits, joined by single hyphens. Never changes.",
        error_messages={"invalid": "Small letters and digits, joined by single hyphens."},
    )
    name = forms.CharField(max_length=120)
    slot_seconds = WholeField(min_value=1, max_value=86_400, label="Length of a slot", initial=900)
    clock_first = WholeField(min_value=1, max_value=10_000, label="First interval", initial=1)
    clock_cap = WholeField(
        min_value=1,
        max_value=10_000,
        label="Longest interval",
        initial=16,
        help_text="Measured in three loads of a made-up world, with jobs that rent in pieces: windows of 16 brought "
        "2.2 to 3.0 % more than windows of 32 with whole jobs, 8 brought 3.1 to 4.1 %, 32 at most 0.2 %. Whole jobs "
        "that are longer run at home only.",
    )
    clock_restart = forms.BooleanField(
        required=False, initial=True, label="Intervals are short again once nobody waits"
    )
    epoch_at = forms.DateTimeField(label="Slot 0 begins", help_text="Every slot ever sold is counted from here.")
    resources = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "input mono"}),
        help_text="One a line, in their order: its name, a colon, and what a sentence calls one of it.",
        initial=RESOURCES,
    )
    steps = StepsField(
        required=False,
        label="Amounts that a unit may take",
        help_text="Where they are not whole numbers: one resource a line, a colon, the least amount and the step.",
    )
    batch_policy = PolicyField(
        label="Policy of the batch lane", initial=json.dumps(BATCH_POLICY, indent=1), help_text=PRICES_HELP
    )
    instant_policy = PolicyField(
        label="Policy of the instant lane",
        required=False,
        initial=json.dumps(INSTANT_POLICY, indent=1),
        help_text="Prices in credits for a unit and slot. Empty: the lane is closed.",
    )
    use_prices = PricesField(
        required=False,
        label="Prices of use",
        help_text="Of an elastic pool only: one resource a line, a colon, and credits for a unit and slot.",
    )
    outage_grace_seconds = WholeField(
        min_value=0,
        max_value=10**6,
        required=False,
        initial=60,
        label="Grace for an outage",
        help_text="Slots that passed in a silence of the clock longer than this are refunded. Empty: never.",
    )
    instant_share_percent = WholeField(
        min_value=1,
        max_value=100,
        initial=100,
        label="Most of the pool for one instant job",
    )
    instant_cooling_slots = WholeField(
        min_value=0,
        max_value=10_000,
        initial=0,
        label="Wait after a refusal",
        help_text="What the instant lane refused may not be tried again for so many slots.",
    )
    engine = forms.CharField(
        max_length=20,
        required=False,
        initial=LOCAL,
        help_text="Who runs what is awarded: this machine, or a cluster that the file of engines names. Never changes.",
    )
    fields_of = MappingProxyType(
        {
            "invalid_resource": "resources",
            "invalid_step": "steps",
            "not_elastic": "use_prices",
            "invalid_price": "use_prices",
        }
    )

    def clean_engine(self) -> str:
        return self.cleaned_data["engine"] or LOCAL

    def clean_slug(self) -> str:
        slug = str(self.cleaned_data["slug"])
        if Pool.objects.filter(slug=slug).exists():
            raise forms.ValidationError("There is a pool of this short name already.")
        return slug

    def clean_resources(self) -> Mapping[str, str]:
        texts: dict[str, str] = {}
        for line in self.cleaned_data["resources"].splitlines():
            name, colon, label = (part.strip() for part in line.partition(":"))
            if line.strip() and not (name and colon and label):
                raise forms.ValidationError(f"“{line.strip()}” has no name, colon and word.")
            if name in texts:
                raise forms.ValidationError(f"{name} stands there twice.")
            if line.strip():
                texts[name] = label
        return texts

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        first, cap = cleaned.get("clock_first"), cleaned.get("clock_cap")
        if first is not None and cap is not None and cap < first:
            self.add_error("clock_cap", f"The longest interval is not shorter than the first: at least {first}.")
        return cleaned

    def complain(self, refused: Refused) -> None:
        if isinstance(refused, InvalidPolicy):
            self.add_error("batch_policy" if refused.lane == Lane.BATCH else "instant_policy", refused.sentence)
        else:
            super().complain(refused)

    def moves(self) -> list[PageChange]:
        fields = self.cleaned_data if self.is_bound else {}
        if not fields.get("name"):
            return []
        words = []
        if fields.get("slot_seconds"):
            words.append(f"slots of {fields['slot_seconds']} seconds")
        if fields.get("clock_first") and fields.get("clock_cap"):
            words.append(f"intervals of {fields['clock_first']} to {fields['clock_cap']} slots")
        if "instant_policy" in fields:
            words.append("no instant lane" if fields["instant_policy"] is None else "an instant lane")
        return [PageChange(f"Pool {fields['name']}", "not there", ", ".join(words) or "there")]

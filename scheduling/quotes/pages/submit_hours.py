"""The short form of a job: in hours or by its batch script, with what it is worth in three answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django import forms
from django.utils import timezone

from scheduling.catalogue import ArchiveRead
from scheduling.common import as_sentence
from scheduling.jobs import JobWording, NotUnderstood, Understood, lines_shown
from scheduling.market.reads import prices_now
from scheduling.models import PROGRAM, Pool
from scheduling.programs import hours, worth
from scheduling.programs.saving import DIVISIBLE, SAVE_SLOTS, UNBROKEN
from scheduling.programs.sbatch.files_missing import ANYTHING
from scheduling.quotes.pages.submit_catalogue import OfferedProgram, program_find
from scheduling.quotes.pages.submit_pieces import pieces_in_hours, pieces_said, pieces_word, unbroken_follows
from tenants.ledger.amounts import micro, typed
from tenants.templatetags.look import duration

HOURS, SCRIPT = "hours", "script"
SCALING = ((hours.PERFECT, "perfectly"), (hours.GOOD, "well"), (hours.POOR, "poorly"))
LATER = (
    (worth.NOTHING, "worth nothing"),
    (worth.HALF, "half after as long again"),
    (worth.HARDLY, "it hardly matters"),
)
RESERVE = "Only reserve the units"
START_SLOTS = 4  # slots of the run that a new form shows
EXAMPLE = "#!/bin/bash -eu\n#SBATCH --job-name=train\n#SBATCH --gpus={gpus} --time={time}\n\npython3 train.py\n"
FILES = "Files that come along"
# Field of a description with a fault -> field of the form.
FIELDS = {
    "hours.hours": "hours",
    "hours.most": "gpus",
    "hours.least": "gpus",
    "hours.worker": "gpus",
    "min_workers": "gpus",
    "max_workers": "gpus",
    "hours.scaling": "scaling",
    "worth.by": "by",
    "worth.within_seconds": "by",
    "worth.credits": "by_worth",
    "worth.later": "later",
    "begin": "begin",
    "program": "runs",
    "divisible": "divisible",
    "archive": "archive_file",
}


def short_fields(programs: Sequence[OfferedProgram]) -> dict[str, forms.Field]:
    """Return the fields of the short form. None of them is required by itself: the reader of a description says what is
    missing. The last choice of what runs starts nothing."""
    runs = [(each.choice, each.label) for each in programs if not each.has_servers]
    plain = {"class": "input", "autocomplete": "off"}
    number = forms.TextInput(attrs=plain | {"inputmode": "decimal"})
    clock = forms.DateTimeInput(attrs=plain | {"type": "datetime-local"})  # it shows seconds where its value has some
    return {
        "runs": forms.ChoiceField(
            label="What runs",
            required=False,
            choices=[*runs, ("", RESERVE)],
            widget=_select(),
            error_messages={"invalid_choice": "No such program can be used here now."},
        ),
        "gpus": forms.CharField(
            label="GPUs", required=False, help_text="A number, or from and to.", widget=forms.TextInput(attrs=plain)
        ),
        "hours": forms.CharField(
            label="Hours with the most", required=False, widget=number, help_text="With as many GPUs as it may have."
        ),
        "scaling": forms.ChoiceField(
            label="How well it scales",
            required=False,
            choices=SCALING,
            widget=_select(),
            help_text="Twice the GPUs: 2, 1.8 or 1.4 times as fast.",
        ),
        "by": forms.CharField(label="By when do you want it?", required=False, widget=clock),
        "by_worth": forms.CharField(label="What is it worth to you by then?", required=False, widget=number),
        "later": forms.ChoiceField(label="And later?", required=False, choices=LATER, widget=forms.RadioSelect),
        "begin": forms.DateTimeField(
            label="Not before", required=False, help_text="Empty: as soon as there is a place.", widget=clock
        ),
        "script": forms.CharField(
            label="Batch script",
            required=False,
            strip=False,
            widget=forms.Textarea(attrs={"class": "input log", "rows": 12, "spellcheck": "false"}),
        ),
        "together": forms.BooleanField(
            label="Buy the jobs of its --array in one interval, all of them or none", required=False
        ),
        "script_file": forms.FileField(
            label="Or a file", required=False, allow_empty_file=True, widget=forms.FileInput(attrs={"class": "input"})
        ),
        "archive_file": forms.FileField(
            label=FILES,
            required=False,
            allow_empty_file=True,
            help_text="A tar.gz of at most 20 MiB with what the script runs, as train.py: unpacked where it begins.",
            widget=forms.FileInput(attrs={"class": "input", "accept": ".tar.gz,.tgz,application/gzip"}),
        ),
        # The digest of an earlier job's files, which come along again.
        "archive": forms.CharField(required=False, max_length=64),
        # Whether an archive is chosen: a quote is asked for without it.
        "brings": forms.BooleanField(required=False, widget=forms.HiddenInput),
    }


def _select() -> forms.Select:
    return forms.Select(attrs={"class": "input full"})


def short_start(pool: Pool, at: datetime, gpus: int) -> dict[str, Any]:
    """Return the values of a new form: the same GPUs and time in hours and in the script, and one by which it can be
    over."""
    seconds = START_SLOTS * pool.slot_seconds
    return {
        "gpus": f"1 to {gpus}" if gpus > 1 else "1",
        "hours": f"{seconds * 10_000 // 3600 / 10_000:.4f}".rstrip("0").rstrip("."),
        "scaling": hours.GOOD,
        "by": clock_text(_next_minute(at + timedelta(seconds=max(8 * seconds, 600)))),
        "by_worth": "20",
        "later": worth.HALF,
        "script": EXAMPLE.format(gpus=gpus, time=_time_of(seconds)),
    }


def _next_minute(moment: datetime) -> datetime:
    """Return the first full minute that is not before the moment: nobody wants a job by a second."""
    return (moment + timedelta(minutes=1, microseconds=-1)).replace(second=0, microsecond=0)


def _time_of(seconds: float) -> str:
    """Return the time as `--time` says it."""
    minutes, rest = divmod(ceil(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def short_values(
    words: Mapping[str, Any], program: Mapping[str, Any] | None, programs: Sequence[OfferedProgram]
) -> dict[str, Any]:
    """Return the fields that say a job as it was said. The time by which it was wanted is over, so it is left to be
    said anew. `program` is as the job's specification has it, with its version."""
    worth = words.get("worth", {})
    values = {"by_worth": worth.get("credits", ""), "later": worth.get("later", "")}
    values |= {"divisible": pieces_word(words) or ""}
    if "script" in words:
        return values | {"source": SCRIPT, "script": words["script"], "archive": words.get("archive", "")}
    answers = words.get("hours", {})
    most, least = answers.get("most"), answers.get("least")
    sizes = str(most) if least in (None, most) else f"{least} to {most}"
    scaling = answers.get("scaling") or hours.PERFECT
    if scaling == hours.MEASURED or "worker" in answers:
        return {}  # the short form has no fields for it
    runs = runs_values(program, programs)
    if runs is None:
        return {}
    values |= runs
    return values | {"source": HOURS, "gpus": sizes, "hours": str(answers.get("hours", "")), "scaling": scaling}


def clock_text(moment: datetime) -> str:
    """Return the moment as a form's field has it, in the reader's zone: to the second, or to the minute where it is a
    full one. A browser writes it so, too, and would take another form of it for something that was typed."""
    at = timezone.localtime(moment)
    return at.strftime("%Y-%m-%dT%H:%M:%S" if at.second else "%Y-%m-%dT%H:%M")


def runs_values(program: Mapping[str, Any] | None, programs: Sequence[OfferedProgram]) -> dict[str, str] | None:
    """Return the fields that say what runs in hours, with its parameters, or None where they cannot."""
    if program is None:
        return {"runs": ""}
    offer = program_find(programs, program)
    values = offer.values(program.get("parameters", {})) if offer is not None and not offer.has_servers else None
    return None if offer is None or values is None else values | {"runs": offer.choice}


def said_in(
    fields: Mapping[str, Any],
    source: str,
    name: str,
    program: Mapping[str, Any] | None,
    archive: ArchiveRead | None = None,
) -> JobWording:
    """Return the description that a form with texts as fields gives. `program` is what runs, as a specification names
    it. `archive` is the archive that came along with a script."""
    answers = {"by": fields.get("by") or None, "credits": fields.get("by_worth"), "later": fields.get("later")}
    answers_said: dict[str, Any] = {"begin": fields.get("begin"), "name": name, "zone": timezone.get_current_timezone()}
    answers_said |= {"worth": {field: answer for field, answer in answers.items() if answer is not None}}
    answers_said |= {"divisible": pieces_said(fields)}
    if source == SCRIPT:
        if archive is not None:
            answers_said |= {"archive": archive.digest, "files": archive.names}
        elif fields.get("brings"):
            answers_said |= {"files": (ANYTHING,)}  # it comes with the submission
        elif fields.get("archive"):
            answers_said |= {"archive": fields["archive"]}
        script = fields.get("script", "").replace("\r\n", "\n")
        return JobWording(script=script, files_field=FILES, **answers_said)
    sizes = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:to|-|–)\s*([0-9]{1,9})\s*", fields.get("gpus", ""), re.ASCII)
    text = str(fields.get("gpus", "")).strip()
    most: Any = int(sizes[2]) if sizes else int(text) if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else text
    answers_said["hours"] = {
        "hours": fields.get("hours", ""),
        "most": most,
        "scaling": fields.get("scaling") or hours.PERFECT,
    }
    if sizes:
        answers_said["hours"]["least"] = int(sizes[1])
    return JobWording(program=program, **answers_said)


def complaints(refused: NotUnderstood, source: str) -> list[tuple[str | None, str]]:
    """Return each fault with the form's field where it is shown, or None where the form has no such field."""
    return [(_place(fault, source), _sentence(fault)) for fault in refused.faults]


def field_in_hours(name: str | None) -> str | None:
    """Return the field of the short form that says what a field of a specification says; None where there is none."""
    return FIELDS.get(name or "")


def _place(fault: Mapping[str, Any], source: str) -> str | None:
    if fault["field"] == "script":
        return "script"
    field = next((field for place, field in FIELDS.items() if fault["field"].startswith(place)), None)
    return field if source == HOURS or field not in ("gpus", "hours", "scaling") else "script"


def _sentence(fault: Mapping[str, Any]) -> str:
    nearest = f" Nearest is {fault['nearest']}." if fault["nearest"] else ""
    if fault["line"]:
        return as_sentence(f"Line {fault['line']}: {fault['sentence']}") + nearest
    return as_sentence(f"{fault['sentence'][:1].upper()}{fault['sentence'][1:]}") + nearest


def values_in_hours(
    spec: Mapping[str, Any], slot_seconds: float, at: datetime, programs: Sequence[OfferedProgram]
) -> dict[str, Any] | None:
    """Return the fields of the short form that mean a job, or None where they cannot say it."""
    rest = {name: entry for name, entry in spec.items() if name not in (PROGRAM, DIVISIBLE, SAVE_SLOTS, UNBROKEN)}
    answers, answer = hours.answers_of(rest), worth.answers_of(spec.get("value", {}), slot_seconds)
    if answers is None or answer is None or len(answers["worker"]) != 1 or set(answers["worker"].values()) != {1}:
        return None
    least, most = answers["least"], answers["most"]
    program = spec.get(PROGRAM)
    runs = runs_values(program, programs) if program is None or isinstance(program, Mapping) else None
    offer = program_find(programs, program) if isinstance(program, Mapping) else None
    its_program = offer.program if offer else None
    divides = pieces_in_hours(spec, its_program, slot_seconds)
    if runs is None or divides is None or not unbroken_follows(spec, its_program):
        return None
    return runs | {
        "divisible": divides,
        "gpus": str(most) if least == most else f"{least} to {most}",
        "hours": answers["hours"],
        "scaling": answers["scaling"],
        "by": clock_text(at + timedelta(seconds=answer.within_seconds)),
        "by_worth": typed(micro(answer.credits)),
        "later": answer.later,
    }


@dataclass(frozen=True)
class LineCard:
    """A line of a script as its row shows it. `verdict` is understood, ignored, not_kept or refused."""

    line: int | None
    says: str
    verdict: str
    sentence: str


@dataclass(frozen=True)
class ToldCard:
    """What a description means. `yardstick` is in micro-credits, or None where no price is posted for what it asks."""

    lines: Sequence[LineCard] = ()
    sentence: str = ""
    spec: str = ""  # as JSON
    yardstick: int | None = None

    @property
    def refused(self) -> list[int]:
        return [line.line for line in self.lines if line.verdict == "refused" and line.line]

    def count(self, verdict: str) -> int:
        return sum(line.verdict == verdict for line in self.lines)

    @property
    def understood(self) -> int:
        return self.count("understood")

    @property
    def ignored(self) -> int:
        return self.count("ignored")

    @property
    def not_kept(self) -> int:
        return self.count("not_kept")


def lines_of(text: str, understood: Understood) -> list[LineCard]:
    return [
        LineCard(row["line"], row["says"], row["verdict"], row["sentence"])
        for row in lines_shown(text, understood.lines)
    ]


def lines_refused(text: str, refused: NotUnderstood) -> list[LineCard]:
    """Return the lines at fault. What the others mean is reported once these are mended."""
    lines = text.split("\n")
    return [
        LineCard(fault["line"], lines[fault["line"] - 1][:200], "refused", _sentence(fault).partition(": ")[2])
        for fault in refused.faults
        if fault["line"]
    ]


def in_words(pool: Pool, understood: Understood) -> str:
    """Return what the market will be asked, as one would say it."""
    run, slots = understood.run, -(-understood.run.seconds // pool.slot_seconds)
    takes = ", ".join(f"{amount:g} {resource}" for resource, amount in run.worker)
    each = "" if run.worker in ((("worker", 1),), (("gpu", 1),)) else f", each with {takes}"
    size = f"{run.most}" if run.least == run.most else f"{run.least} to {run.most}"
    begin = f" Not before {clock_text(understood.begin).replace('T', ' ')}." if understood.begin else ""
    return (
        f"{size} worker{'' if run.most == 1 else 's'}{each}, without parameter servers; "
        f"{slots} slot{'' if slots == 1 else 's'} of {duration(pool.slot_seconds)} with {run.most}.{begin}"
    )


def yardstick(pool: Pool, understood: Understood, at: datetime) -> int | None:
    """Return the price, in micro-credits, of the same units for as long, at the prices that are posted now in the
    dearer lane."""
    run, slots = understood.run, -(-understood.run.seconds // pool.slot_seconds)
    posted: dict[str, list[float]] = {}
    for price in prices_now(pool, pool.slot_at(at)):
        if price.price is not None:
            posted.setdefault(price.resource, []).append(price.price)
    if not all(posted.get(resource) for resource, _ in run.worker):
        return None
    each = sum(amount * max(posted[resource]) for resource, amount in run.worker)
    return micro(each * run.most * slots)

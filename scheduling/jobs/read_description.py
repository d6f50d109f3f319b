"""Read the description of a job: the job as its submitter said it, in hours or by a batch script.

The text of a script is part of a program's words, wherever it is read: for members of the tenant and the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, JSONObject

from scheduling.catalogue import may_read
from scheduling.models import JobDescription, TrainingJob
from scheduling.programs import hours, worth
from scheduling.programs.sbatch import OptionLine
from scheduling.programs.sbatch.values import When
from scheduling.programs.sbatch.values import moment as when_read
from tenants.access import Access

LONGEST_SAYS = 200
SCRIPT = "script"
LATER = {
    worth.NOTHING: "nothing",
    worth.HALF: "half after as long again",
    worth.HARDLY: "a hundredth less for each time as long again",
}


def with_description(jobs: QuerySet[TrainingJob]) -> QuerySet[TrainingJob]:
    """Add `description` to each row: an object of its columns, or None where the job came as a specification."""
    columns = JSONObject(how="how", said="said", lines="lines")
    # The description of an array is kept with its first member.
    first = TrainingJob.objects.filter(array=OuterRef(OuterRef("array")), array_place=0).values("pk")
    rows = JobDescription.objects.filter(job=Coalesce(Subquery(first), OuterRef("pk")))
    return jobs.annotate(description=Subquery(rows.values(all=columns)))


def description_shown(job: TrainingJob, by: Access) -> dict[str, Any] | None:
    """Return what the submitter said and, of a script, what became of each line; None where the job came as a
    specification. Readers who may not read the words of the tenant's programs get neither the script nor its lines.
    The job is the open tenant's, and comes from `with_description`."""
    description: Mapping[str, Any] | None = job.description  # type: ignore[attr-defined]
    if description is None:
        return None
    wording, rows = description["said"], list(_rows(description["said"], job.submitted_at))
    withheld = SCRIPT in wording and not (by.tenant is not None and may_read(by, by.tenant.slug))
    if withheld:
        wording, lines = {name: value for name, value in wording.items() if name != SCRIPT}, []
    else:
        lines = lines_shown(wording.get(SCRIPT, ""), [OptionLine(*row) for row in description["lines"]])
    return {"how": description["how"], "said": wording, "lines": lines, "rows": rows, "withheld": withheld}


def _rows(description: Mapping[str, Any], submitted_at: datetime) -> Iterator[tuple[str, str]]:
    """Yield what was said as pairs of a label and words with units."""
    answers, worth_said = description.get("hours") or {}, description.get("worth") or {}
    least, most = answers.get("least"), answers.get("most")
    if most is not None:
        yield "Workers", f"{most}" if least in (None, most) else f"{least} to {most}"
    if worker := answers.get("worker"):
        each = [f"{amount} {name}" for name, amount in worker.items()] if isinstance(worker, Mapping) else [str(worker)]
        yield "A worker takes", ", ".join(each)
    if answers.get("hours") is not None:
        yield "With the most of them it takes", f"{answers['hours']} hours"
    if least not in (None, most):
        yield "With twice the workers", _scaling(answers)
    if description.get("begin"):
        yield "Not before", _clock(description["begin"], description, submitted_at)
    if worth_said.get("by"):
        yield "Wanted by", _clock(worth_said["by"], description, submitted_at)
    elif worth_said.get("within_seconds"):
        yield "Wanted within", f"{worth_said['within_seconds']} seconds"
    if worth_said.get("credits") is not None:
        yield "Worth by then", f"{worth_said['credits']} credits"
    if worth_said.get("later"):
        yield "And later", LATER.get(worth_said["later"], str(worth_said["later"]))


def _scaling(answers: Mapping[str, Any]) -> str:
    scaling = answers.get("scaling") or hours.PERFECT
    if scaling in hours.DOUBLING:
        times = str(2 * hours.DOUBLING[scaling]).removesuffix(".0")
        return f"{times} times as fast"
    return f"as measured, {answers.get('mode') or 'sync'}: {', '.join(map(str, answers.get('speed') or ()))}"


def _clock(moment: object, description: Mapping[str, Any], submitted_at: datetime) -> str:
    when = when_read(str(moment))
    if isinstance(when, When) and when.after_seconds is not None:
        later = submitted_at.astimezone(UTC) + timedelta(seconds=when.after_seconds)
        return f"{later:%Y-%m-%d %H:%M:%S} (UTC)"
    text = str(moment).replace("T", " ").removesuffix("+00:00")
    return f"{text} ({'UTC' if str(moment).endswith('+00:00') else description.get('zone', 'UTC')})"


def lines_shown(text: str, lines: Sequence[OptionLine]) -> list[dict[str, Any]]:
    """Return each line of a script that has a verdict, with its beginning as it is written."""
    text_lines = text.split("\n")
    return [
        {
            "line": line.number,
            "says": text_lines[line.number - 1][:LONGEST_SAYS],
            "option": line.option,
            "verdict": line.verdict,
            "sentence": line.sentence,
        }
        for line in sorted(lines, key=lambda line: line.number)
    ]

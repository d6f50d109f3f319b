"""A job as its submitter said it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, JSONObject

from scheduling.models import JobDescription, TrainingJob
from scheduling.programs.sbatch import OptionLine

LONGEST_SAYS = 200


def with_description(jobs: QuerySet[TrainingJob]) -> QuerySet[TrainingJob]:
    """Each row with `description`: an object of its columns, None where the job was said in detail."""
    columns = JSONObject(how="how", said="said", lines="lines")
    # That of an array is kept with its first member.
    first = TrainingJob.objects.filter(array=OuterRef(OuterRef("array")), array_place=0).values("pk")
    rows = JobDescription.objects.filter(job=Coalesce(Subquery(first), OuterRef("pk")))
    return jobs.annotate(description=Subquery(rows.values(all=columns)))


def description_shown(job: TrainingJob) -> dict[str, Any] | None:
    """What was said, and of a script what came of each line; None where the job was said in detail. The job comes
    `with_description`."""
    description: Mapping[str, Any] | None = job.description  # type: ignore[attr-defined]
    if description is None:
        return None
    lines = lines_shown(description["said"].get("script", ""), [OptionLine(*row) for row in description["lines"]])
    return {"how": description["how"], "said": description["said"], "lines": lines}


def lines_shown(text: str, lines: Sequence[OptionLine]) -> list[dict[str, Any]]:
    """Each line that says something, with its beginning as it is written."""
    written = text.split("\n")
    return [
        {
            "line": line.number,
            "says": written[line.number - 1][:LONGEST_SAYS],
            "option": line.option,
            "verdict": line.verdict,
            "sentence": line.sentence,
        }
        for line in sorted(lines, key=lambda line: line.number)
    ]

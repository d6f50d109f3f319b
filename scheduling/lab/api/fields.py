"""What studies look like to a program; with examples."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from rest_framework import serializers

from scheduling.models import StudyState
from tenants.api.fields import Answer, Flag, Form, Moment, Numbers, Text

STUDY_TOLD = (
    "What a study's file says, as JSON: title, history (format, file, machines, zone, unit, owner, ...), rules, "
    "against, answer, log_rule, worth, draws, seed, credits_per_unit_hour. Of a pool's own past without a history."
)


class FileText(Text):
    """A file in base64."""

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise serializers.ValidationError("Must be a file in base64.", "invalid") from None


class Files(serializers.DictField):
    """Name -> content."""

    child = FileText(max_length=1 << 20, error_messages={"blank": "The file is empty."})


class NewStudy(Form):
    study = serializers.DictField(help_text=STUDY_TOLD)
    files = Files(required=False, help_text="By the names in `history`: files in base64. A body is 1 MiB at most.")
    pool = Text(required=False, max_length=60, help_text="Whose own past is decided again, in place of a log.")
    start = Moment(required=False, help_text="Of that past: the first moment.")
    end = Moment(required=False, help_text="The first moment after it; at most 366 days later.")
    at_once = Flag(required=False, help_text="Start without a look at the cost.")


class StudyAnswer(Answer):
    rule = serializers.CharField()
    against = serializers.CharField()
    saved = serializers.FloatField(allow_null=True, help_text="Hours of waiting.")
    low = serializers.FloatField(allow_null=True, help_text="Nine times in ten the figure lies between this")
    high = serializers.FloatField(allow_null=True, help_text="and this.")
    waited = serializers.FloatField(allow_null=True, help_text="Hours of waiting under `against`.")
    seen = serializers.BooleanField(help_text="False: the interval holds zero, so no difference is seen.")
    owners_gain = serializers.IntegerField()
    owners_lose = serializers.IntegerField()
    owners_unsure = serializers.IntegerField()


class StudyRow(Answer):
    id = serializers.IntegerField()
    title = serializers.CharField()
    pool = serializers.CharField(source="pool.slug", allow_null=True, default=None, help_text="Null: of a log.")
    state = serializers.ChoiceField(StudyState.choices, help_text="`ready`: it is read, and waits for its start.")
    digest = serializers.CharField(help_text="Of the study and its files: the same digest, the same bytes.")
    minutes = serializers.FloatField(allow_null=True, help_text="That it takes, worked out before it starts.")
    done = serializers.IntegerField(help_text="Replays.")
    total = serializers.IntegerField(help_text="Replays.")
    shown = serializers.BooleanField(source="is_shown", help_text="Whether its owners can read it.")
    detail = serializers.CharField(source="sentence", help_text="The answer, or why there is none.")
    asked_at = Moment()
    ended_at = Moment(allow_null=True)


class StudyShown(StudyRow):
    study = Numbers(source="document", help_text="What was asked, as it was sent.")
    history = Numbers(help_text="What was read: jobs, owners, days, units, lines left out, notes.")
    answer = StudyAnswer(source="answer_if_known", allow_null=True, help_text="The one number; null until it is there.")


class NewShown(Form):
    shown = Flag(help_text="True: each owner can read its own row, with the others unnamed.")


ROW_EXAMPLE: dict[str, Any] = {
    "id": 14,
    "title": "October, shared instead of alone",
    "pool": "main",
    "state": "done",
    "digest": "7c90e1b2" + 56 * "0",
    "minutes": 4.2,
    "done": 5,
    "total": 5,
    "shown": False,
    "detail": "market beside alone: 312 of 1,940 hours of waiting saved, 251 to 378.",
    "asked_at": "2026-11-02T08:00:00Z",
    "ended_at": "2026-11-02T08:04:12Z",
}
ANSWER_EXAMPLE: dict[str, Any] = {
    "rule": "market",
    "against": "alone",
    "saved": 312.0,
    "low": 251.0,
    "high": 378.0,
    "waited": 1940.0,
    "seen": True,
    "owners_gain": 4,
    "owners_lose": 0,
    "owners_unsure": 1,
}
STUDY_EXAMPLE: dict[str, Any] = {
    "title": "October, shared instead of alone",
    "rules": ["alone", "backfill", "market"],
    "worth": ["by_hour", "deadline"],
}
EXAMPLE: dict[str, Any] = {
    **ROW_EXAMPLE,
    "study": STUDY_EXAMPLE,
    "history": {"jobs": 18412, "owners": 5, "units": 64, "days": 30, "first": "2026-10-01", "last": "2026-10-30"},
    "answer": ANSWER_EXAMPLE,
}
READING_EXAMPLE: dict[str, Any] = {
    **EXAMPLE,
    "state": "reading",
    "digest": "",
    "minutes": None,
    "done": 0,
    "total": 0,
    "detail": "",
    "ended_at": None,
    "history": {},
    "answer": None,
}
NEW_EXAMPLE: dict[str, Any] = {
    "study": STUDY_EXAMPLE,
    "pool": "main",
    "start": "2026-10-01T00:00:00Z",
    "end": "2026-10-31T00:00:00Z",
}

"""What programs look like to a program; with examples."""

from __future__ import annotations

import base64
import binascii
import io
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ParseError

from scheduling.catalogue.read_catalogue import DAYS, MOST_VERSIONS_SHOWN
from scheduling.programs.catalogue import SHAPES
from tenants.api.bodies import parse
from tenants.api.fields import Answer, Form, Moment, Text
from tenants.api.listing import Filter, Listing, whole
from tenants.requests.uploads import MOST_BYTES, PARAMETER

DOCUMENT_TOLD = (
    "`name`, `shape` (all_reduce, independent or parameter_server) and either `command`, a list of words in which "
    "`{name}` stands for a parameter, or `script`, the text of a bash script. Beside them: title, description, image, "
    "modules, environment, secrets, archive (a digest), processes_per_worker (one or each_gpu), parameters, resize "
    "(none, restart or live), grace_seconds, limits."
)


class ArchiveText(Text):
    """A tar.gz in base64."""

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        try:
            return io.BytesIO(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            raise serializers.ValidationError("Must be a tar.gz in base64.", "invalid") from None


class NewVersion(Form):
    document = serializers.DictField(help_text=DOCUMENT_TOLD)
    archive = ArchiveText(
        required=False,
        max_length=1 << 20,
        help_text="A tar.gz in base64, unpacked into each job's folder. A body is 1 MiB at most; larger ones are sent "
        "as files: `program_uploads_begin`.",
    )


class DocumentText(Text):
    """A document as JSON in a text, as a part of a form has it."""

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        try:
            document = parse(text.encode())
        except ParseError as error:
            raise serializers.ValidationError(str(error.detail), "invalid") from None
        if not isinstance(document, dict):
            raise serializers.ValidationError("Must be a JSON object.", "invalid")
        return document


class SentFile(Form):
    """The parts of a form: the document, and the archive as a file."""

    document = DocumentText(max_length=1 << 20, help_text=f"In JSON: {DOCUMENT_TOLD}")
    archive = serializers.FileField(help_text="A tar.gz of at most 20 MiB, unpacked into each job's folder.")


class UploadShown(Answer):
    upload = serializers.CharField(help_text="To be sent as the parameter `upload` of `programs_upload`.")
    expires_at = Moment()
    most_bytes = serializers.IntegerField(help_text="Of a body, the document included.")


class DeedsShown(Answer):
    runs = serializers.IntegerField()
    ended_well = serializers.IntegerField()
    hours = serializers.FloatField(help_text="From start to end, of those that are over.")
    last_at = Moment(allow_null=True)


class ProgramShown(Answer):
    name = serializers.CharField()
    title = serializers.CharField()
    description = serializers.CharField()
    owner = serializers.CharField(help_text="A tenant's short name, or `operator`.")
    shape = serializers.ChoiceField(SHAPES)
    version = serializers.IntegerField(allow_null=True, help_text="The newest; null: it comes with the product.")
    digest = serializers.CharField(help_text="Of all that the newest version says, its archive included.")
    registered_at = Moment(allow_null=True)
    retired_at = Moment(allow_null=True, help_text="From then on no new job can name it.")
    deeds = DeedsShown(help_text=f"What the tenant's runs of it came to in {DAYS} days.")


class VersionShown(Answer):
    version = serializers.IntegerField()
    digest = serializers.CharField()
    registered_at = Moment()
    archive = serializers.CharField(help_text="Its digest; empty where the version has none.")
    archive_bytes = serializers.IntegerField(
        allow_null=True, help_text="Null where it has none, or where its files are kept no more."
    )


class ProgramWithVersions(Answer):
    program = ProgramShown(source="line")
    version = serializers.IntegerField(allow_null=True, help_text="Which one the fields below are of.")
    parameters = serializers.ListField(child=serializers.DictField(), help_text="What a job may say.")
    document = serializers.DictField(
        allow_null=True,
        help_text="All that the version says. Null where words are not shown: to the operator and members of the "
        "owner alone.",
    )
    versions = VersionShown(many=True, help_text=f"The newest {MOST_VERSIONS_SHOWN}, the newest first.")


DEEDS = {"runs": 41, "ended_well": 38, "hours": 61.5, "last_at": "2026-03-02T12:00:00Z"}
EXAMPLE: dict[str, Any] = {
    "name": "align-train",
    "title": "Image and text alignment",
    "description": "",
    "owner": "lumen",
    "shape": "all_reduce",
    "version": 4,
    "digest": "9f2c41d7" * 8,
    "registered_at": "2026-03-01T09:00:00Z",
    "retired_at": None,
    "deeds": DEEDS,
}
DOCUMENT_EXAMPLE: dict[str, Any] = {
    "name": "align-train",
    "shape": "all_reduce",
    "title": "Image and text alignment",
    "command": ["python3", "-u", "train.py", "--batch", "{batch}"],
    "parameters": [{"name": "batch", "kind": "whole", "default": 256, "least": 16, "most": 1024}],
}
PAGE_EXAMPLE: dict[str, Any] = {
    "program": EXAMPLE,
    "version": 4,
    "parameters": DOCUMENT_EXAMPLE["parameters"],
    "document": DOCUMENT_EXAMPLE,
    "versions": [
        {
            "version": 4,
            "digest": "9f2c41d7" * 8,
            "registered_at": "2026-03-01T09:00:00Z",
            "archive": "",
            "archive_bytes": None,
        }
    ],
}
PROGRAMS_LISTED = Listing(ProgramShown, orderings=())
UPLOAD = Filter(
    PARAMETER, "", {"type": "string"}, "From `program_uploads_begin`: it lets the body be longer than 1 MiB.", str
)
UPLOAD_EXAMPLE = {"upload": "WzMsMTRd:1vQ0aB:k2dJ0", "expires_at": "2026-03-02T13:00:00Z", "most_bytes": MOST_BYTES}
VERSION = whole("version", "Which version; without it, the newest.", "", least=1, most=2**31 - 1)

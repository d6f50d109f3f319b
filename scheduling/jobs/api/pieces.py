"""The story of a job that goes on in pieces: what each did and cost, and what is left."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.jobs.api.jobs import job_or_404
from scheduling.jobs.read_pieces import pieces_of
from scheduling.models import Award, AwardState
from tenants.api.fields import Answer, Credits, Moment
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.roles import Permission


class PieceShown(Answer):
    start_slot = serializers.IntegerField(source="start")
    end_slot = serializers.IntegerField(source="end", help_text="The first slot after it.")
    starts_at = Moment()
    ends_at = Moment()
    state = serializers.ChoiceField(AwardState.choices)
    at_home = serializers.BooleanField(help_text="On the tenant's own cells: the rest of the job.")
    lost = serializers.BooleanField(help_text="Not delivered, and what was not paid of it came back.")
    percent = serializers.FloatField(source="share", help_text="Of all the job's work.")
    saving_slots = serializers.FloatField(source="saving", help_text="Of it, lost to saving and loading.")
    paid = Credits(help_text="Less what came back.")


class PiecesShown(Answer):
    pieces = PieceShown(many=True, help_text="Oldest first; empty where the job is sold whole, or was not begun.")
    percent = serializers.FloatField(source="share", help_text="Of the work that is done or booked.")
    paid = Credits(help_text="For all of them.")
    worth = Credits(
        allow_null=True,
        help_text="What that is worth to its tenant, as the last interval said; null where its end at home says so.",
    )


EXAMPLE: dict[str, Any] = {
    "pieces": [
        {
            "start_slot": 8,
            "end_slot": 16,
            "starts_at": "2026-03-02T12:01:20Z",
            "ends_at": "2026-03-02T12:02:40Z",
            "state": "done",
            "at_home": False,
            "lost": False,
            "percent": 17.5,
            "saving_slots": 0.5,
            "paid": "1.600000",
        }
    ],
    "percent": 17.5,
    "paid": "1.600000",
    "worth": "16.642500",
}


class JobPieces(TenantView):
    @operation(
        "jobs_pieces",
        summary="A job's story in pieces",
        description="Of a job that may be saved and go on later (`divisible`): what each of its pieces did and cost, "
        "and what that is worth.",
        permission=Permission.JOBS_VIEW,
        answer=PiecesShown,
        answer_example=EXAMPLE,
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        job = job_or_404(job_id)
        awards = list(Award.objects.filter(job=job, work__isnull=False).order_by("attempt", "start"))
        pieces = pieces_of(job.pool, job, awards, dict.fromkeys((award.pk for award in awards), ""))
        nothing = {"rows": (), "share": 0.0, "paid": 0, "worth": None}
        account = nothing if pieces is None else vars(pieces)
        return self.shown(PiecesShown, {**account, "pieces": account["rows"]})

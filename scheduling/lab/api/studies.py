"""Studies for programs: made with a POST, read until they are done, and taken away."""

from __future__ import annotations

from http import HTTPStatus

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request

from scheduling.common.api.views import UNKNOWN_POOL, pool_by_slug
from scheduling.lab.api.fields import (
    EXAMPLE,
    NEW_EXAMPLE,
    READING_EXAMPLE,
    ROW_EXAMPLE,
    NewShown,
    NewStudy,
    StudyRow,
    StudyShown,
)
from scheduling.lab.pages.studies import study_file
from scheduling.lab.read_studies import studies_of_staff
from scheduling.lab.requests import (
    study_cancel,
    study_create,
    study_remove,
    study_resume,
    study_show,
    study_start,
)
from scheduling.models import LabStudy
from tenants.access import Refused
from tenants.api.listing import Listing
from tenants.api.operations import operation
from tenants.api.views import StaffView
from tenants.roles import Permission

STUDIES = Listing(StudyRow, orderings=("-id", "id"))
NO_EFFECT = "It changes nothing of the market."


class _Studies(StaffView):
    def _answered(self, outcome: LabStudy | Refused, status: int = HTTPStatus.OK) -> HttpResponse:
        if isinstance(outcome, Refused):
            return self.refused(outcome)
        return self.shown(StudyShown, outcome, status)


class Studies(_Studies):
    @operation(
        "studies_list",
        summary="Studies of the lab",
        description="A past decided again under other rules; the newest first.",
        permission=Permission.FAIRNESS_VIEW,
        listing=STUDIES,
        answer_example=ROW_EXAMPLE,
        tag="lab",
    )
    def get(self, request: Request) -> HttpResponseBase:
        return self.listed(studies_of_staff(), list)

    @operation(
        "studies_create",
        summary="Make a study",
        description="Of a log that is sent with it, or of a pool's own past. It goes on by itself: it is read, and the "
        f"minutes that it will take are worked out; then it waits for its start. {NO_EFFECT}",
        permission=Permission.AUDITS_ASK,
        body=NewStudy,
        answer=StudyShown,
        status=HTTPStatus.ACCEPTED,
        request_example=NEW_EXAMPLE,
        answer_example=READING_EXAMPLE,
        refusals=(
            "unknown_pool",
            "invalid_study",
            "invalid_period",
            "study_too_large",
            "studies_waiting",
            "too_many_studies",
        ),
        costly=True,
        tag="lab",
    )
    def post(self, request: Request) -> HttpResponseBase:
        body = self.read(NewStudy)
        slug = body.get("pool")
        pool = pool_by_slug(slug) if slug else None
        if slug and pool is None:
            return self.refused(UNKNOWN_POOL)
        outcome = study_create(
            document=body["study"],
            files=body.get("files", {}),
            pool=pool,
            first_at=body.get("start"),
            last_at=body.get("end"),
            starts_at_once=body.get("at_once", False),
            by=self.access,
            at=timezone.now(),
        )
        response = self._answered(outcome, HTTPStatus.ACCEPTED)
        if isinstance(outcome, LabStudy):
            response.headers["Location"] = reverse("api_study", args=[outcome.pk])
        return response


class Study(_Studies):
    @operation(
        "studies_read",
        summary="A study, and how far it is",
        description="`done` of `total` replays while it runs.",
        permission=Permission.FAIRNESS_VIEW,
        answer=StudyShown,
        answer_example=EXAMPLE,
        tag="lab",
    )
    def get(self, request: Request, study_id: int) -> HttpResponseBase:
        study = LabStudy.objects.select_related("pool").filter(pk=study_id).first()
        if study is None:
            raise Http404
        return self._answered(study)


class StudyStart(_Studies):
    @operation(
        "studies_start",
        summary="Start a study that is ready",
        description=f"After a look at its minutes. {NO_EFFECT}",
        permission=Permission.AUDITS_ASK,
        answer=StudyShown,
        answer_example=EXAMPLE | {"state": "waiting", "answer": None, "ended_at": None, "done": 0, "detail": ""},
        refusals=("unknown_study", "study_not_ready", "study_takes_longer"),
        tag="lab",
    )
    def post(self, request: Request, study_id: int) -> HttpResponseBase:
        return self._answered(study_start(study_id=study_id, by=self.access, at=timezone.now()))


class StudyCancel(_Studies):
    @operation(
        "studies_cancel",
        summary="Call a study off",
        description=f"Replays that are done are kept, and it can go on. {NO_EFFECT}",
        permission=Permission.AUDITS_ASK,
        answer=StudyShown,
        answer_example=EXAMPLE | {"state": "cancelled", "answer": None, "done": 2, "detail": "Ida has called it off."},
        refusals=("unknown_study", "study_over"),
        tag="lab",
    )
    def post(self, request: Request, study_id: int) -> HttpResponseBase:
        return self._answered(study_cancel(study_id=study_id, by=self.access, at=timezone.now()))


class StudyResume(_Studies):
    @operation(
        "studies_resume",
        summary="Go on with a study",
        description=f"That was called off, or of which nothing came. What is done is not done again. {NO_EFFECT}",
        permission=Permission.AUDITS_ASK,
        answer=StudyShown,
        answer_example=READING_EXAMPLE,
        refusals=("unknown_study", "study_not_ready", "studies_waiting"),
        tag="lab",
    )
    def post(self, request: Request, study_id: int) -> HttpResponseBase:
        return self._answered(study_resume(study_id=study_id, by=self.access, at=timezone.now()))


class StudyShow(_Studies):
    @operation(
        "studies_show",
        summary="Show a study to its owners",
        description="Or no longer. Each reads its own row with its name, and the others without theirs.",
        permission=Permission.AUDITS_ASK,
        body=NewShown,
        answer=StudyShown,
        request_example={"shown": True},
        answer_example=EXAMPLE | {"shown": True},
        refusals=("unknown_study", "study_not_done"),
        tag="lab",
    )
    def post(self, request: Request, study_id: int) -> HttpResponseBase:
        is_shown = self.read(NewShown)["shown"]
        return self._answered(study_show(study_id=study_id, is_shown=is_shown, by=self.access, at=timezone.now()))


class StudyRemove(_Studies):
    @operation(
        "studies_remove",
        summary="Remove a study",
        description=f"With its files. {NO_EFFECT}",
        permission=Permission.AUDITS_ASK,
        answer=StudyShown,
        answer_example=EXAMPLE,
        refusals=("unknown_study",),
        tag="lab",
    )
    def post(self, request: Request, study_id: int) -> HttpResponseBase:
        study = LabStudy.objects.select_related("pool").filter(pk=study_id).first()
        refused = study_remove(study_id=study_id, by=self.access, at=timezone.now())
        if study is None or refused is not None:
            raise Http404
        return self._answered(study)


class StudyReport(_Studies):
    @operation(
        "studies_report",
        summary="The report of a study",
        description="One file without anything from outside. 404 until it is done.",
        permission=Permission.FAIRNESS_VIEW,
        file="text/html",
        tag="lab",
    )
    def get(self, request: Request, study_id: int) -> HttpResponseBase:
        return _file(request, study_id, "report")


class StudyFigures(_Studies):
    @operation(
        "studies_figures",
        summary="The figures of a study",
        description="Every number of the report with its interval, and its parts by owner and day. 404 until then.",
        permission=Permission.FAIRNESS_VIEW,
        file="text/csv",
        tag="lab",
    )
    def get(self, request: Request, study_id: int) -> HttpResponseBase:
        return _file(request, study_id, "figures")


def _file(request: Request, study_id: int, what: str) -> HttpResponseBase:
    file = study_file(request._request, study_id, what)
    if file is None:
        raise Http404
    return file

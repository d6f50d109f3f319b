"""Verifying, taking away and being told, for programs: started with a POST, then asked how far it is."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.audit.requests import audit_cancel, audit_progress, bundle_bytes, bundle_start, verify_start
from scheduling.common.api.views import NO_REASON, PoolView
from scheduling.fairness import MEASURES, alerts_of, alerts_set
from scheduling.fairness.api.examples import ALERT_EXAMPLE, AUDIT_EXAMPLE
from scheduling.fairness.api.fields import AlertShown, AuditShown
from scheduling.models import AuditKind, AuditRun
from tenants.access import Refused
from tenants.api.fields import Answer, Form, Moment, Real, Text, Whole, Word
from tenants.api.listing import Listing
from tenants.api.operations import operation
from tenants.api.views import ApiView, StaffView
from tenants.roles import Permission
from tenants.services.members import REASON_LONGEST

VERIFIED = (AuditKind.CHARGE, AuditKind.INTERVAL, AuditKind.EVERYTHING)
AUDITS = Listing(AuditShown, orderings=("-id", "id"))
PERIOD_EXAMPLE = {"start": "2026-03-01T00:00:00Z", "end": "2026-04-01T00:00:00Z"}


class NewVerification(Form):
    what = Word(choices=[kind.value for kind in VERIFIED], help_text="`everything` is that of this pool, and the book.")
    number = Whole(required=False, min_value=1, help_text="Of the job, or of the interval.")


class NewBundle(Form):
    start = Moment(help_text="The first moment.")
    end = Moment(help_text="The first moment after it; at most 93 days later.")


class Thresholds(serializers.DictField):
    """Measure -> number, or null for none."""

    child = Real(allow_null=True)


class NewThresholds(Form):
    thresholds = Thresholds(help_text="Measure -> threshold, null for none. What is not named stays.")
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history.")


class AlertsShown(Answer):
    alerts = AlertShown(many=True)


class Alerts(PoolView):
    @operation(
        "fairness_alerts_read",
        summary="Limits of fairness",
        description="Figures of the last seven days, their thresholds, and since when each is beyond its own. When "
        "one is passed, that is told once: `fairness_alert` to everybody, `fairness_concern` to the tenants it is "
        "about; and `fairness_alert_over` when it came back.",
        permission=Permission.FAIRNESS_VIEW,
        listing=Listing(AlertShown),
        answer_example=ALERT_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.listed_values(self._alerts())

    @operation(
        "fairness_alerts_set",
        summary="Set limits of fairness",
        description="For operators.",
        permission=Permission.POLICIES_CHANGE,
        body=NewThresholds,
        answer=AlertsShown,
        request_example={"thresholds": {"jain_index": 0.8, "one_bidder": None}, "reason": "The audit asks."},
        answer_example={"alerts": [ALERT_EXAMPLE]},
        refusals=("invalid_measure", "invalid_threshold", *NO_REASON),
        tag="fairness",
    )
    def put(self, request: Request, pool_slug: str) -> HttpResponseBase:
        outcome = alerts_set(pool=self.pool, by=self.access, at=timezone.now(), **self.read(NewThresholds))
        if isinstance(outcome, Refused):
            return self.refused(outcome)
        return self.shown(AlertsShown, {"alerts": self._alerts()})

    def _alerts(self) -> list[dict[str, Any]]:
        rows = {row.measure: row for row in alerts_of(self.pool)}
        return [
            {
                "measure": name,
                "title": measure.title,
                "side": "at_most" if measure.is_most else "at_least",
                "threshold": rows[name].threshold if name in rows else None,
                "value": rows[name].value if name in rows else None,
                "passed_at": rows[name].passed_at if name in rows else None,
            }
            for name, measure in MEASURES.items()
        ]


class VerifyStart(PoolView):
    @operation(
        "fairness_verify",
        summary="Verify a charge, an interval or everything",
        description="It goes on by itself: ask for the audit that the answer names. It changes nothing of the market. "
        "Everything is verified in pieces, between which whatever else is asked for has its turn; a second request to "
        "verify everything waits for the first.",
        permission=Permission.AUDITS_ASK,
        body=NewVerification,
        answer=AuditShown,
        status=HTTPStatus.ACCEPTED,
        request_example={"what": "interval", "number": 17},
        answer_example=AUDIT_EXAMPLE | {"state": "queued", "done": None, "total": None},
        refusals=("unknown_job", "unknown_interval", "audits_waiting"),
        costly=True,
        tag="fairness",
    )
    def post(self, request: Request, pool_slug: str) -> HttpResponseBase:
        body = self.read(NewVerification)
        outcome = verify_start(
            kind=body["what"], pool=self.pool, number=body.get("number"), by=self.access, at=timezone.now()
        )
        return _started(self, outcome)


class BundleStart(PoolView):
    @operation(
        "fairness_bundles_create",
        summary="Make the signed bundle of a period",
        description="Intervals, awards, the book, digests, a signature, and the program that checks them. It goes on "
        "by itself: ask for the audit that the answer names, then for its file.",
        permission=Permission.AUDITS_ASK,
        body=NewBundle,
        answer=AuditShown,
        status=HTTPStatus.ACCEPTED,
        request_example=PERIOD_EXAMPLE,
        answer_example=AUDIT_EXAMPLE | {"kind": "bundle", "state": "queued", "done": None, "total": None},
        refusals=("invalid_period", "audits_waiting"),
        costly=True,
        tag="fairness",
    )
    def post(self, request: Request, pool_slug: str) -> HttpResponseBase:
        outcome = bundle_start(pool=self.pool, by=self.access, at=timezone.now(), **self.read(NewBundle))
        return _started(self, outcome)


class Audits(StaffView):
    @operation(
        "audits_list",
        summary="What auditors asked for",
        description="Verifications and bundles, the newest first.",
        permission=Permission.FAIRNESS_VIEW,
        listing=AUDITS,
        answer_example=AUDIT_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request) -> HttpResponseBase:
        return self.listed(AuditRun.objects.select_related("pool"), lambda rows: [_audit(row) for row in rows])


class AuditRead(StaffView):
    @operation(
        "audits_read",
        summary="How far an audit is, and what came of it",
        description="`done` of `total` while it runs.",
        permission=Permission.FAIRNESS_VIEW,
        answer=AuditShown,
        answer_example=AUDIT_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, audit_id: int) -> HttpResponseBase:
        return self.shown(AuditShown, _audit(_run(audit_id)))


class AuditCancel(StaffView):
    @operation(
        "audits_cancel",
        summary="Call an audit off",
        description="What waits, or a verification of everything. It changes nothing of the market.",
        permission=Permission.AUDITS_ASK,
        answer=AuditShown,
        answer_example=AUDIT_EXAMPLE | {"state": "cancelled", "ended_at": "2026-03-02T12:25:00Z", "done": None},
        refusals=("audit_over", "audit_under_way"),
        tag="fairness",
    )
    def post(self, request: Request, audit_id: int) -> HttpResponseBase:
        outcome = audit_cancel(run_id=_run(audit_id).pk, by=self.access, at=timezone.now())
        return self.refused(outcome) if isinstance(outcome, Refused) else self.shown(AuditShown, _audit(outcome))


class AuditFile(StaffView):
    @operation(
        "audits_file",
        summary="The file of a bundle",
        description="It is kept for seven days; then 404.",
        permission=Permission.FAIRNESS_VIEW,
        file="application/zip",
        tag="fairness",
    )
    def get(self, request: Request, audit_id: int) -> HttpResponseBase:
        run = _run(audit_id)
        if not run.parts.exists():
            raise Http404
        answer = self.file(f"bundle-{run.pk}.zip", "application/zip", bundle_bytes(run))
        answer["Content-Length"] = str(run.size)
        return answer


def _started(view: ApiView, outcome: AuditRun | Refused) -> HttpResponse:
    if isinstance(outcome, Refused):
        return view.refused(outcome)
    response = view.shown(AuditShown, _audit(outcome), HTTPStatus.ACCEPTED)
    response.headers["Location"] = reverse("api_audit", args=[outcome.pk])
    return response


def _run(audit_id: int) -> AuditRun:
    run = AuditRun.objects.select_related("pool").filter(pk=audit_id).first()
    if run is None:
        raise Http404
    return run


def _audit(run: AuditRun) -> dict[str, Any]:
    progress = audit_progress(run)
    names = ("id", "kind", "state", "pool", "number", "period_start", "period_end", "asked_at", "ended_at")
    row = {name: getattr(run, name) for name in (*names, "is_clean", "sentence", "result", "size")}
    return row | {"done": progress.done if progress else None, "total": progress.total or None if progress else None}

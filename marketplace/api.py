"""Health for programs: is the process alive, and can it work? `views` has the same in plain text for load balancers."""

from __future__ import annotations

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request

from marketplace.views import is_healthy, states_now
from tenants.api.fields import Answer
from tenants.api.open import OpenView
from tenants.api.operations import operation
from tenants.api.problems import Problem, problem_response


class HealthShown(Answer):
    status = serializers.CharField()


class ReadyShown(Answer):
    database = serializers.CharField(help_text="`ok`, or `does not answer`.")
    broker = serializers.CharField()
    worker = serializers.CharField(help_text="`ok`, or `no sign of life`, which changes no status.")


class Health(OpenView):
    @operation(
        "health_read",
        summary="Is the process alive?",
        description="Open to everybody; asks neither the database nor the broker.",
        permission=None,
        answer=HealthShown,
        answer_example={"status": "ok"},
        tag="health",
    )
    def get(self, request: Request) -> HttpResponseBase:
        return self.shown(HealthShown, {"status": "ok"})


class Ready(OpenView):
    @operation(
        "ready_read",
        summary="Can the process work?",
        description="Open to everybody. 503 while the database or the broker does not answer; `numbers` says which.",
        permission=None,
        answer=ReadyShown,
        answer_example={"database": "ok", "broker": "ok", "worker": "ok"},
        refusals=("not_ready",),
        tag="health",
    )
    def get(self, request: Request) -> HttpResponseBase:
        states = states_now()
        if is_healthy(states):
            return self.shown(ReadyShown, states)
        sentence = "Not everything answers that is needed to work."
        return problem_response(Problem(503, "not_ready", sentence, numbers=states, headers={"Retry-After": "5"}))

"""The page of a pool's learner: its curve, the verdict on what it offers, what decides, and how to take it or go
back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduling.learner.pages.forms import LearnerForm, TakeForm
from scheduling.learner.promotion import learner_set, weights_take
from scheduling.learner.read_learner import learner_state
from scheduling.models import Pool
from scheduling.operator.pages.changes import ChangeForm, answer
from tenants.access import AccessRequest
from tenants.roles import Permission
from tenants.views.gate import posted_from, requires

MOST_POINTS = 200


@dataclass(frozen=True)
class CurvePicture:
    """A path in a box of 100 by 100. `level` is where the weights in use are; the box spans from `low` to `high`."""

    path: str
    level: str  # as a length of the drawing
    low: float
    high: float


def curve_picture(curve: Sequence[Mapping[str, float]]) -> CurvePicture | None:
    """Draw, by step, the mean completion of the network in training, as a multiple of that of the weights in use; lower
    is better."""
    points = [float(row["times"]) for row in curve][-MOST_POINTS:]
    if len(points) < 2:
        return None
    low, high = min(*points, 1.0), max(*points, 1.0)
    room = (high - low) * 0.1 or 0.01
    low, high = low - room, high + room

    def place(value: float) -> float:
        return round(100 * (high - value) / (high - low), 2)

    steps = [f"{100 * number / (len(points) - 1):.2f} {place(value)}" for number, value in enumerate(points)]
    return CurvePicture("M" + "L".join(steps), f"{place(1.0):.2f}", round(low, 4), round(high, 4))


@never_cache
@require_safe
@requires(Permission.TENANTS_VIEW)
def operator_learning(request: AccessRequest, slug: str) -> HttpResponse:
    return _page(request, get_object_or_404(Pool, slug=slug))


@posted_from("operator_learning")
@requires(Permission.CLUSTER_CHANGE)
def operator_learner(request: AccessRequest, slug: str) -> HttpResponse:
    """Set what the learner may do."""
    pool = get_object_or_404(Pool, slug=slug)
    form = LearnerForm(learner_state(pool, timezone.now()).settings, request.POST)

    def apply(change_form: ChangeForm) -> object:
        reason = change_form.cleaned_data["reason"]
        return learner_set(pool=pool, settings=form.settings, by=request.access, reason=reason, at=timezone.now())

    return answer(
        request,
        form,
        name="learner",
        apply=apply,
        done="It holds from its next step on.",
        back=reverse("operator_learning", args=[slug]),
        page=lambda change_form: _page(request, pool, form=change_form),
    )


@posted_from("operator_learning")
@requires(Permission.CLUSTER_CHANGE)
def operator_weights(request: AccessRequest, slug: str) -> HttpResponse:
    """Set which weights decide from the next boundary on."""
    pool = get_object_or_404(Pool, slug=slug)
    form = TakeForm(learner_state(pool, timezone.now()), request.POST)

    def apply(change_form: ChangeForm) -> object:
        return weights_take(
            pool=pool,
            weights=form.weights_name,
            instead_of=change_form.cleaned_data["instead_of"] or None,
            by=request.access,
            reason=change_form.cleaned_data["reason"],
            at=timezone.now(),
        )

    return answer(
        request,
        form,
        name="take",
        apply=apply,
        done="They decide from the next boundary on. What is decided keeps its weights.",
        back=reverse("operator_learning", args=[slug]),
        page=lambda change_form: _page(request, pool, take=change_form),
    )


def _page(
    request: AccessRequest, pool: Pool, form: ChangeForm | None = None, take: ChangeForm | None = None
) -> HttpResponse:
    state = learner_state(pool, timezone.now())
    context = {
        "pool": pool,
        "state": state,
        "picture": curve_picture(state.curve),
        "form": form or LearnerForm(state.settings),
        "take": take or TakeForm(state),
    }
    return render(request, "learner/learning.html", context)

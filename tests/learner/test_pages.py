"""The page of a pool's learner: what the staff see there, and what an operator's forms do."""

from __future__ import annotations

import pytest
from django.test import Client

from scheduling.learner.pages.learning import curve_picture
from scheduling.models import CandidateState, Pool, PoolLearner, WeightsCandidate, WeightsPromotion
from tenants.roles import AUDITOR, OPERATOR
from tests.learner.world import candidate_of, learnt_pool
from tests.scheduling.elastic_world import make_elastic
from tests.scheduling.pages import client_as

pytestmark = pytest.mark.django_db

PAGE = "/operator/pools/main/learning/"
SETTINGS = {"learner-is_on": "on", "learner-every_seconds": "60", "learner-shadow_slots": "30", "learner-margin": "5"}
VERDICT = {"better": True, "shadow": {"line": "held: work done in a slot that the pool decided (ours 1.2 ± 0.1)"}}


def get(client: Client, path: str) -> str:
    return client.get(path, secure=True).content.decode()


def test_page_shows_what_decides_the_curve_and_the_verdict() -> None:
    pool, _ = learnt_pool(2, is_on=True)
    candidate = candidate_of(pool, CandidateState.OFFERED)
    WeightsCandidate.objects.update(verdict=VERDICT)
    first = {"round": 8, "slots": 80, "windows": 2, "times": 1.04}
    curve = [first, first | {"round": 16, "times": 0.9}]
    PoolLearner.objects.update(step=2, curve=curve)
    text = get(client_as(AUDITOR, None), PAGE)
    for words in ("Weights in use", "Learning curve", "ours 1.2 ± 0.1", "Offered", candidate.against, "0.900"):
        assert words in text
    assert 'action="/operator/pools/main/learning/' not in text  # an auditor changes nothing
    operators = get(client_as(OPERATOR, None), PAGE)
    assert "Take: wide" in operators
    assert "Go back" not in operators


def test_operator_takes_what_is_offered_and_goes_back() -> None:
    pool, _ = learnt_pool(2)
    candidate = candidate_of(pool, CandidateState.OFFERED)
    operator = client_as(OPERATOR, None)
    form = {"take-weights": "=wide", "take-instead_of": candidate.against, "take-reason": "It has won."}
    looked = operator.post(PAGE + "weights/?part=effect", form, secure=True)
    assert "wide" in looked.content.decode()
    assert not WeightsPromotion.objects.exists()
    assert operator.post(PAGE + "weights/", form, follow=True, secure=True).status_code == 200
    (promotion,) = WeightsPromotion.objects.all()
    assert promotion.weights.name == "wide"
    again = get(operator, PAGE)
    assert "Go back: as the pool was made" in again
    moved = operator.post(PAGE + "weights/", form | {"take-weights": "="}, secure=True).content.decode()
    assert "Other weights were put in place meanwhile." in moved
    back = form | {"take-weights": "=", "take-instead_of": promotion.weights.digest}
    assert operator.post(PAGE + "weights/", back, follow=True, secure=True).status_code == 200
    assert [row.weights for row in WeightsPromotion.objects.order_by("pk")][-1] is None


def test_operator_switches_the_learner() -> None:
    learnt_pool(0)
    operator = client_as(OPERATOR, None)
    assert operator.post(PAGE + "learner/", SETTINGS, secure=True).status_code == 200  # and no reason
    assert not PoolLearner.objects.exists()
    operator.post(PAGE + "learner/", SETTINGS | {"learner-reason": "Jobs have changed."}, secure=True)
    learner = PoolLearner.objects.get()
    assert (learner.is_on, learner.promotes, learner.every_seconds) == (True, False, 60)
    assert (learner.shadow_slots, learner.margin) == (30, 0.05)


def test_what_the_form_does_not_change_stays_as_a_program_has_set_it() -> None:
    pool, _ = learnt_pool(0)
    PoolLearner.objects.create(pool=pool, margin=0.025)
    form = SETTINGS | {"learner-margin": "2", "learner-reason": "It may begin."}  # as the page has it, rounded
    client_as(OPERATOR, None).post(PAGE + "learner/", form, secure=True)
    learner = PoolLearner.objects.get()
    assert (learner.is_on, learner.margin) == (True, 0.025)


def test_auditor_changes_nothing() -> None:
    learnt_pool(0)
    auditor = client_as(AUDITOR, None)
    for path in ("learner/", "weights/"):
        assert auditor.post(PAGE + path, SETTINGS | {"learner-reason": "Why not."}, secure=True).status_code == 403
    assert not PoolLearner.objects.exists()


def test_pool_that_no_network_decides_says_so() -> None:
    make_elastic()
    operator = client_as(OPERATOR, None)
    assert "No network decides the slots of this pool" in get(operator, PAGE)
    assert "/learning/" not in get(operator, "/operator/pools/main/")
    assert Pool.objects.count() == 1


def test_curve_is_a_path_between_its_least_and_its_most() -> None:
    assert curve_picture([{"times": 1.1}]) is None
    picture = curve_picture([{"times": 1.1}, {"times": 0.9}])
    assert picture is not None
    assert picture.path.startswith("M0.00 ")
    assert picture.low < 0.9 < 1.0 < 1.1 < picture.high
    assert 0 < float(picture.level) < 100

"""A pool's last days under each choice of plan, price and dividend, as a study: what owners and jobs would have had."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from scheduling.core.policies.astraea.settings import POSTED, SEARCHED
from scheduling.core.types import KEEP, RENEW
from scheduling.lab.requests import study_create
from scheduling.lab.studies.study import MARKET
from scheduling.market.view import gives_floors
from scheduling.models import LabStudy, Pool
from tenants.access import Access, Refused

DAYS = 30
NO_PLANS = Refused("no_plans", "This pool promises no places at home, so it has no plan, price or dividend to choose.")
# Name -> plan, price, dividend: the rules that `reproduce guarantee` compares.
CHOICES: Mapping[str, tuple[str, str, float]] = {
    "kept, posted": (KEEP, POSTED, 0.0),
    "renewed, posted": (RENEW, POSTED, 0.0),
    "renewed, searched": (RENEW, SEARCHED, 0.0),
    "renewed, searched, dividend 1/2": (RENEW, SEARCHED, 0.5),
    "kept, searched, dividend 1/2": (KEEP, SEARCHED, 0.5),
}
NOW = "as it is now"


def choices_study(*, pool: Pool, by: Access, at: datetime) -> LabStudy | Refused:
    """Ask for the study; it begins as soon as nothing else is worked at. Set against what holds in the pool now for
    tenants that said nothing."""
    if pool.is_elastic or not gives_floors(pool):
        return NO_PLANS
    now = (pool.usual_plan, pool.batch_policy.get("price", POSTED), float(pool.batch_policy.get("dividend", 0.0)))
    choices = dict(CHOICES)
    against = next((name for name, choice in CHOICES.items() if choice == now), NOW)
    choices.setdefault(against, now)
    answer = next(name for name in ("renewed, posted", "renewed, searched") if name != against)
    document = {
        "title": f"{pool.name}: the last {DAYS} days under each choice",
        "rules": [_rule(name, *choice) for name, choice in choices.items()],
        "against": against,
        "answer": answer,
    }
    return study_create(
        document=document,
        files={},
        pool=pool,
        first_at=at - timedelta(days=DAYS),
        last_at=at,
        starts_at_once=True,
        by=by,
        at=at,
    )


def _rule(name: str, plan: str, price: str, dividend: float) -> dict[str, Any]:
    policy = {"price": price} | ({"dividend": dividend} if dividend else {})
    return {"rule": MARKET, "name": name, "plan": plan, "policy": policy}

"""Studies of a pool's last days under each choice of plan, price and dividend: what owners and jobs would have had."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from scheduling.core.policies.astraea.rules.settings import POSTED, SEARCHED
from scheduling.core.types import KEEP, RENEW
from scheduling.lab.requests import study_create
from scheduling.lab.studies.study import MARKET
from scheduling.market.view import gives_floors
from scheduling.models import LabStudy, Pool
from tenants.access import Access, Refused

DAYS = 30
NOTHING_TO_CHOOSE = Refused(
    "no_plans", "This pool promises no places at home, so it has no plan, price or dividend to choose."
)
# Name -> plan, price, dividend: the rules that `reproduce guarantee` compares.
CHOICES: Mapping[str, tuple[str, str, float]] = {
    "kept, posted": (KEEP, POSTED, 0.0),
    "renewed, posted": (RENEW, POSTED, 0.0),
    "renewed, searched": (RENEW, SEARCHED, 0.0),
    "renewed, searched, dividend 1/2": (RENEW, SEARCHED, 0.5),
    "kept, searched, dividend 1/2": (KEEP, SEARCHED, 0.5),
}
NOW = "as it is now"
WINDOWS = (8, 16, 32)  # slots of the longest interval, as `reproduce guarantee-5` compares them
SAVING_SLOTS = 0.25


def choices_study(*, pool: Pool, by: Access, at: datetime) -> LabStudy | Refused:
    """Ask for the study; it begins as soon as no other work is under way. It is set against the rule that holds in the
    pool now for tenants that set nothing."""
    if not gives_floors(pool):
        return NOTHING_TO_CHOOSE
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
    return _create_study(document, pool, by, at)


def windows_study(*, pool: Pool, by: Access, at: datetime) -> LabStudy | Refused:
    """Ask for a study of the same days in windows of 8, 16 and 32 slots, with jobs that are sold whole and with jobs
    that rent in pieces, each of which loses a quarter of a slot to a save. It is set against whole jobs in windows of
    32."""
    if not gives_floors(pool):
        return NOTHING_TO_CHOOSE
    saving = SAVING_SLOTS * pool.slot_seconds / 60
    rules = [
        {
            "rule": MARKET,
            "name": windows_named(window, in_pieces=in_pieces),
            "plan": pool.usual_plan,
            "policy": {"clock": {"first": 1, "cap": window, "restart": True}},
        }
        | ({"pieces": saving} if in_pieces else {})
        for window in WINDOWS
        for in_pieces in (False, True)
    ]
    document = {
        "title": f"{pool.name}: the last {DAYS} days in short and long windows, with and without pieces",
        "rules": rules,
        "against": windows_named(32, in_pieces=False),
        "answer": windows_named(16, in_pieces=True),
    }
    return _create_study(document, pool, by, at)


def windows_named(window: int, *, in_pieces: bool) -> str:
    return f"{'pieces' if in_pieces else 'whole jobs'}, windows of {window}"


def _create_study(document: Mapping[str, Any], pool: Pool, by: Access, at: datetime) -> LabStudy | Refused:
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

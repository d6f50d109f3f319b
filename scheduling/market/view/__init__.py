"""The market's rows as the core sees them: frozen views of a pool, its jobs, its policies."""

from scheduling.market.view.batch import batch_view, glance
from scheduling.market.view.demands import (
    DEMANDS,
    MOST_MEMBERS,
    ONES,
    AmountSteps,
    demands_check,
    member_too_little,
    shown,
    steps_flaw,
    within_engine,
)
from scheduling.market.view.frame import OPERATOR_ID, PoolFrame, pool_frame
from scheduling.market.view.history import pool_scenario
from scheduling.market.view.jobs import JobReader, arrival_of
from scheduling.market.view.pieces import is_divisible
from scheduling.market.view.policy import fixed_settings, gives_floors, unusable, unusable_instant
from scheduling.market.view.rents import jobs_undone
from scheduling.market.view.reports import with_reports
from scheduling.market.view.specs import (
    PROGRAM,
    NewSpecReader,
    PoolResource,
    SpecRead,
    SpecReader,
    for_the_core,
    pool_resources,
    steps_of,
)
from scheduling.market.view.targets import (
    LEAST_THRESHOLD,
    MOST_THRESHOLD,
    PATIENCE,
    THRESHOLD,
    UNTIL,
    target_check,
    target_of,
)
from scheduling.market.view.weights import (
    is_learned,
    policy_built,
    promotion_by,
    settings_in_use,
    weights_stored,
)

__all__ = [
    "DEMANDS",
    "LEAST_THRESHOLD",
    "MOST_MEMBERS",
    "MOST_THRESHOLD",
    "ONES",
    "OPERATOR_ID",
    "PATIENCE",
    "PROGRAM",
    "THRESHOLD",
    "UNTIL",
    "AmountSteps",
    "JobReader",
    "NewSpecReader",
    "PoolFrame",
    "PoolResource",
    "SpecRead",
    "SpecReader",
    "arrival_of",
    "batch_view",
    "demands_check",
    "fixed_settings",
    "for_the_core",
    "gives_floors",
    "glance",
    "is_divisible",
    "is_learned",
    "jobs_undone",
    "member_too_little",
    "policy_built",
    "pool_frame",
    "pool_resources",
    "pool_scenario",
    "promotion_by",
    "settings_in_use",
    "shown",
    "steps_flaw",
    "steps_of",
    "target_check",
    "target_of",
    "unusable",
    "unusable_instant",
    "weights_stored",
    "with_reports",
    "within_engine",
]

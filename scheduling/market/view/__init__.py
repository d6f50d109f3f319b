"""Read the market's rows as the core needs them: frozen views of a pool, its jobs and its policies."""

from scheduling.market.view.batch import batch_view, glance
from scheduling.market.view.demands import (
    DEMANDS,
    MOST_MEMBERS,
    ONES,
    AmountSteps,
    amount_text,
    demands_check,
    member_too_little,
    steps_flaw,
    within_engine,
)
from scheduling.market.view.floors import floor_stands, floors_standing
from scheduling.market.view.frame import OPERATOR_ID, PoolFrame, PoolShape, frame_of, pool_frame
from scheduling.market.view.history import pool_scenario
from scheduling.market.view.intake import IntakeRows, intake_rows
from scheduling.market.view.jobs import JobReader, arrival_of
from scheduling.market.view.pieces import PiecesInVain, is_divisible, left_of, pieces_in_vain, pieces_so_far
from scheduling.market.view.policy import (
    first_closing,
    fixed_settings,
    gives_floors,
    policy_built,
    unusable,
    unusable_instant,
)
from scheduling.market.view.pool_rows import pool_text
from scheduling.market.view.rents import jobs_undone
from scheduling.market.view.specs import (
    NewSpecReader,
    SpecRead,
    SpecReader,
    for_the_core,
    steps_of,
    worth_kept,
)

__all__ = [
    "DEMANDS",
    "MOST_MEMBERS",
    "ONES",
    "OPERATOR_ID",
    "AmountSteps",
    "IntakeRows",
    "JobReader",
    "NewSpecReader",
    "PiecesInVain",
    "PoolFrame",
    "PoolShape",
    "SpecRead",
    "SpecReader",
    "amount_text",
    "arrival_of",
    "batch_view",
    "demands_check",
    "first_closing",
    "fixed_settings",
    "floor_stands",
    "floors_standing",
    "for_the_core",
    "frame_of",
    "gives_floors",
    "glance",
    "intake_rows",
    "is_divisible",
    "jobs_undone",
    "left_of",
    "member_too_little",
    "pieces_in_vain",
    "pieces_so_far",
    "policy_built",
    "pool_frame",
    "pool_scenario",
    "pool_text",
    "steps_flaw",
    "steps_of",
    "unusable",
    "unusable_instant",
    "within_engine",
    "worth_kept",
]

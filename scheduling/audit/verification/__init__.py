"""Proof that stored intervals were decided as the rules say and that the money followed. Nothing here writes to what it
verifies."""

from scheduling.audit.verification.archived import Archives as Archives
from scheduling.audit.verification.charges import ChargeVerified as ChargeVerified
from scheduling.audit.verification.charges import charge_verify as charge_verify
from scheduling.audit.verification.days import days_verify as days_verify
from scheduling.audit.verification.findings import Finding as Finding
from scheduling.audit.verification.intervals import IntervalVerified as IntervalVerified
from scheduling.audit.verification.intervals import interval_verify as interval_verify
from scheduling.audit.verification.intervals import intervals_verify as intervals_verify
from scheduling.audit.verification.pieces import verification_piece as verification_piece
from scheduling.audit.verification.readers import findings_for as findings_for
from scheduling.audit.verification.readers import in_turn as in_turn
from scheduling.audit.verification.runs import book_run as book_run
from scheduling.audit.verification.runs import pool_run as pool_run
from scheduling.audit.verification.settings import settings_verify as settings_verify

"""Proof that stored intervals were decided as the rules say and that the money followed. Reads only."""

from scheduling.services.verification.charges import UNKNOWN_JOB as UNKNOWN_JOB
from scheduling.services.verification.charges import ChargeVerified as ChargeVerified
from scheduling.services.verification.charges import charge_verify as charge_verify
from scheduling.services.verification.days import days_verify as days_verify
from scheduling.services.verification.findings import Finding as Finding
from scheduling.services.verification.intervals import IntervalVerified as IntervalVerified
from scheduling.services.verification.intervals import Verified as Verified
from scheduling.services.verification.intervals import interval_verify as interval_verify
from scheduling.services.verification.intervals import intervals_verify as intervals_verify
from scheduling.services.verification.pieces import verification_piece as verification_piece
from scheduling.services.verification.readers import findings_for as findings_for
from scheduling.services.verification.readers import in_turn as in_turn
from scheduling.services.verification.runs import book_run as book_run
from scheduling.services.verification.runs import pool_run as pool_run

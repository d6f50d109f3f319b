"""Audit bundles: a period of the market to take away, and the program that recomputes it without the market."""

from scheduling.audit.bundle.keys import ForeignSecret as ForeignSecret
from scheduling.audit.bundle.keys import signing_key_renew as signing_key_renew
from scheduling.audit.bundle.keys import signing_keys as signing_keys
from scheduling.audit.bundle.keys import signing_keys_carry as signing_keys_carry
from scheduling.audit.bundle.keys import signing_seed as signing_seed
from scheduling.audit.bundle.signature import public_key as public_key
from scheduling.audit.bundle.writing import OPEN as OPEN
from scheduling.audit.bundle.writing import bundle_write as bundle_write
from scheduling.audit.bundle.writing import reach_refusal as reach_refusal

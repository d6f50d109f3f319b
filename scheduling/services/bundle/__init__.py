"""Audit bundles: a period of the market to take away, and the program that recomputes it without the market."""

from scheduling.services.bundle.signature import public_key as public_key
from scheduling.services.bundle.signature import seed_of as seed_of
from scheduling.services.bundle.writing import Bundle as Bundle
from scheduling.services.bundle.writing import bundle_write as bundle_write

"""A tenant's books: every movement of its money, its statements, and each job with its charge."""

from scheduling.books.read_charge_account import charge_account

__all__ = [
    "charge_account",
]

"""The prices that the instant lane posts."""

"""Whose money: double-entry accounts in integer micro-credits, append-only, proved by the database."""

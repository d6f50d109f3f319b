"""The book: double-entry accounts in whole micro-credits, append-only, with rules that the database enforces."""

"""Rows as the core's values: what a policy is asked, frozen while it thinks. Only reads; nothing here decides."""

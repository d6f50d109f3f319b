"""Engines carry awards out: here are the programs that may run, and what starts, watches and stops them."""

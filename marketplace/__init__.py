"""Wiring: settings, addresses, processes. No rules of the market live here."""

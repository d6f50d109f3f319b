"""Gangs as processes of this machine, grouped by simulated server, each gang under a supervisor of its own."""

"""An example of each answer about fairness, for the published schema."""

from __future__ import annotations

from typing import Any

SPREAD = {"ratio_variance": 0.0051, "lowest_ratio": 0.884, "jain_index": 0.987, "reward_dispersion": 0.11}
EXAMPLE: dict[str, Any] = {
    "first": "2026-03-01",
    "last": "2026-03-31",
    "intervals": 360,
    "behind": 0,
    "revenue": "91260.500000",
    "certificates": 1284,
    "broken": 0,
    "worst_off": "pelican",
    "spread": SPREAD,
    "before": SPREAD,
}
UNITS = {"worker": 96.0, "ps": 24.0}
IN_INTERVAL: dict[str, Any] = {
    "tenant": "pelican",
    "own_value": "80.000000",
    "rented_value": "0.000000",
    "paid": "0.000000",
    "received": "4.250000",
    "gain": "84.250000",
    "alone": "80.000000",
    "share": 0.25,
    "ratio": 0.884,
    "earned": "4.250000",
    "contributed": 1.5,
    "reward": 2.8333,
    "offered": UNITS,
    "sold": UNITS,
    "kept": {"worker": 0.0, "ps": 0.0},
    "forgone": "1.200000",
    "rent_saved": "0.000000",
    "waiting": 0,
}
TENANT_EXAMPLE: dict[str, Any] = {
    name: value for name, value in IN_INTERVAL.items() if name not in ("share", "waiting")
} | {"name": "Pelican Bio", "part_of_cells": 0.1429, "part_of_gains": 0.1263, "intervals_waiting": 3, "broken": 0}
HEALTH_EXAMPLE: dict[str, Any] = {
    "intervals": 360,
    "with_renters": 210,
    "one_bidder": 6,
    "price_jumps": 2,
    "waiting": 40,
    "idle_beside_waiting": 11,
    "waiting_for": {"no_room": 7, "over_budget": 4},
    "unsold": UNITS,
    "highest": {"worker": 4.57, "ps": 2.28},
}
INTERVAL_EXAMPLE: dict[str, Any] = {
    "number": 17,
    "decided_at": "2026-03-02T12:24:10Z",
    "with_floors": True,
    "revenue": "337.000000",
    "certificates": 4,
    "broken_count": 0,
    "broken": [],
    "ratio_variance": 0.02,
    "jain_index": 0.99,
    "reward_dispersion": 0.1,
    "renters": 1,
    "top_prices": {"worker": 1.2, "ps": 0.4},
    "unsold": UNITS,
    "waiting_for": {"outbid": 1},
}
CERTIFICATE_EXAMPLE: dict[str, Any] = {
    "job": 4711,
    "tenant": "lumen",
    "served": True,
    "elapsed_slots": 2.9,
    "value": "84.100000",
    "paid": "0.020000",
    "got": "84.080000",
    "alone": "80.000000",
    "broken": "",
}
ACCOUNT_EXAMPLE: dict[str, Any] = {
    "number": 17,
    "digest": "3ed7ad7bcc9c3b51c5ea5666925b12f401b495f76325c329eaf710e2e50c1981",
    "fairness": INTERVAL_EXAMPLE,
    "tenants": [IN_INTERVAL],
    "certificates": [CERTIFICATE_EXAMPLE],
    "out_of_sum": "0.000000",
}
ALERT_EXAMPLE: dict[str, Any] = {
    "measure": "jain_index",
    "title": "Jain's index of reward",
    "side": "at_least",
    "threshold": 0.8,
    "value": 0.987,
    "passed_at": None,
}
AUDIT_EXAMPLE: dict[str, Any] = {
    "id": 12,
    "kind": "everything",
    "state": "running",
    "pool": "main",
    "number": None,
    "period_start": None,
    "period_end": None,
    "asked_at": "2026-03-02T12:24:10Z",
    "ended_at": None,
    "clean": None,
    "sentence": "",
    "result": {},
    "size": 0,
    "done": 120,
    "total": 360,
}

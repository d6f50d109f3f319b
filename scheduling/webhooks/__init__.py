"""Webhooks: `changes` by people, `addresses` and `calls` to the world outside, `signing`, and `deliveries`."""

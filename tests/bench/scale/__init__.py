"""Rows of `bench_scale`, a module each; `memory` is theirs in common."""

"""The rows of `bench_scale`, one module for each. They share `memory`."""

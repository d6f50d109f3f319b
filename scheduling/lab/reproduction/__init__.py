"""Published comparisons, repeated: what a figure sweeps, runs and claims is a value, and one engine runs them all."""

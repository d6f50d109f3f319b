"""Published comparisons, repeated: a value says what a figure sweeps, runs and claims, and one engine runs them all."""

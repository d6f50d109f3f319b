"""Studies for programs."""

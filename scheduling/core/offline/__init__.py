"""Compute what could be reached if all jobs were known beforehand, for performance ratios on small inputs."""

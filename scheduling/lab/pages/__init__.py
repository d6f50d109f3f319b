"""Pages of studies."""

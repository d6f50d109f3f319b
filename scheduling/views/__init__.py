"""Pages about the cluster and the market. A view parses, calls, renders."""

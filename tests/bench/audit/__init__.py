"""A pool of a hundred tenants with ten thousand intervals behind it, and what its audit costs."""

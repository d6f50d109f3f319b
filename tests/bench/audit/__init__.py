"""A pool of a hundred tenants with ten thousand past intervals, and the time that its audit takes."""

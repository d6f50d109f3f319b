"""The interface for programs, as far as it is about jobs, the market and the cluster. See `tenants.api` first."""

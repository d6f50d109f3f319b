"""The demonstration: what it holds, how it is loaded, and the tenants that submit to it."""

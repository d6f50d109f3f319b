"""The demonstration: its contents, the code that loads it, and the tenants that submit to it."""

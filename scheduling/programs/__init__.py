"""Programs that tenants bring, and descriptions of jobs that run them. All is pure, except `stored`."""

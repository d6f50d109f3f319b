"""Programs that tenants bring, and descriptions of jobs that run them: pure functions and frozen values, but for
`stored`, which reads the database."""

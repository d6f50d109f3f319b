"""The only place that knows every room: addresses, tasks, the admin, and the clock that drives the market."""

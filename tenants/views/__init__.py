"""Pages about people and tenants. A view parses, calls and renders; `roles` decides what is allowed, and the services
do the work."""

"""Pages about people and tenants. A view parses, calls, renders; what is allowed is in roles, what happens in
services."""

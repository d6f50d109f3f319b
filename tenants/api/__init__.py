"""The interface for programs under /api/v1: the foundation, and what belongs to tenants and people.

A view parses, calls one service or selector, and renders. `views` has the classes to build on, `operations` the one
decorator that says what an operation is, needs and answers; `fields`, `listing` and `problems` do the rest.
"""

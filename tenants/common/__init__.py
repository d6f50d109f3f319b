"""What services and pages stand on and that knows no tenant's rules: patience, failures, zones, CSV, secrets, guards.

Begin with `patience`, which says how long anything may take, and `failures`, which tells whether the cause is outside.
"""

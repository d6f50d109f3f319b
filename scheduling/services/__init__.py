"""One function per use case, atomic, with keyword arguments: the only way to change anything.

Each is imported from the module that has it (`from scheduling.services.jobs import job_submit`); this package exports
nothing, so that no caller has to load the whole market, and a name is found where it is used.

A refusal is a value (`Refused`, with numbers where there are any); an exception is a broken promise. What all of them
keep to: the locks in the order that `lanes` names (the pool's row before them), money and history last, time as an
argument. Under the pool's row lock the operators' changes to one pool happen one after the other, so what a service has
counted stays true until it commits.
"""

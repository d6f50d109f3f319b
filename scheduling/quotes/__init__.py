"""Quotes: what would become of a job if it were submitted now, and the form that submits it."""

"""Studies: a history decided again under other rules, and what that would have been worth, to whom, how surely."""

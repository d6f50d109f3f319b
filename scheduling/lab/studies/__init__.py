"""Studies: a history decided again under other rules, with what that would have been worth, to whom, and how surely."""

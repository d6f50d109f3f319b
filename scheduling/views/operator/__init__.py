"""Pages of whoever runs the cluster. Auditors read them; every change is an operator's, with its reason."""

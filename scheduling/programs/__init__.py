"""Programs that people bring, and the jobs that run them: what may be asked, in pure functions and frozen values."""

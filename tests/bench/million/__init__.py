"""A market with a past of a year, 1,000,000 jobs and 10,000,000 entries of the book, and how quickly it answers."""

"""Send live updates: a client that watches a subject gets its full state after each change."""

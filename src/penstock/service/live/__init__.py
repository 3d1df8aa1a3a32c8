"""Live updates: a client that watches a subject gets its whole state after each change."""

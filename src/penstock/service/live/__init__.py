"""Live: a client that watches a subject gets its whole state whenever the state has changed."""

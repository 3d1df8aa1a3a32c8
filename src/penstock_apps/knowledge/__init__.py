"""Documents in, searchable knowledge out."""

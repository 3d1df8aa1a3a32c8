"""Jobs in child processes."""

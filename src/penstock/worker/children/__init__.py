"""Running attempts in child processes."""

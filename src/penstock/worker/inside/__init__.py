"""The inside of a child process: runs jobs as the worker does, and asks it for the rest."""

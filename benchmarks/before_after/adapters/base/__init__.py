"""The names of a959319."""

"""Claiming: which jobs to take, and into which slots they go."""

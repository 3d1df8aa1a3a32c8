"""Settling: outcomes on their way to the database."""

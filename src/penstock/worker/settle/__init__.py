"""Settling: writing the outcomes of attempts to the database."""

"""`penstock`: everything from the terminal."""

from penstock.cli.root import app, main

__all__ = ["app", "main"]

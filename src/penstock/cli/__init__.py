"""The `penstock` command: run, watch and change a queue from the terminal."""

from penstock.cli.root import app, main

__all__ = ["app", "main"]

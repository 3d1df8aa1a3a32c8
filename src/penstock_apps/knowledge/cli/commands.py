"""Register the commands of knowledge, without importing them."""

from __future__ import annotations

from penstock.cli.framework import LazyCommand

COMMANDS = {
    "ingest": ("ingest:ingest", "Take files in, so that what is in them can be found."),
    "search": ("search:search", "Find what documents say about something."),
    "knowledge": (
        "knowledge:app",
        "Look at bases, sources and documents, retry and delete them.",
    ),
}


def add_to(commands: dict[str, LazyCommand]) -> None:
    """Add the commands of knowledge to the command line. Each is imported only when it runs."""
    for name, (place, summary) in COMMANDS.items():
        commands[name] = LazyCommand(name, f"penstock_apps.knowledge.cli.{place}", summary)

"""The commands of knowledge, for the command line to find."""

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
    """Give the command line the commands of knowledge, each to be imported when it runs."""
    for name, (place, line) in COMMANDS.items():
        commands[name] = LazyCommand(name, f"penstock_apps.knowledge.cli.{place}", line)

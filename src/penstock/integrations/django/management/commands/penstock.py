"""`manage.py penstock …`: Penstock's own commands, with the project's app and database."""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from penstock.config import DATABASE_URL, SCHEMA
from penstock.integrations.django.checks import TAG
from penstock.integrations.django.project import DjangoPenstock, project_app

APP = "penstock.integrations.django.worker"
INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")


class Command(BaseCommand):
    help = (
        "Penstock's commands for this project: work, jobs, queues, workers, doctor and more. "
        "`manage.py penstock` alone lists them, `manage.py penstock work --help` explains one."
    )
    requires_system_checks = (TAG,)

    def run_from_argv(self, argv: list[str]) -> None:
        # Penstock explains its commands itself.
        is_question = argv[2:] in (["-h"], ["--help"])
        super().run_from_argv(argv[:2] if is_question else argv)

    def print_help(self, *_: str) -> None:
        self.handle(command=())

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("command", nargs=argparse.REMAINDER, help="a command, with its options")

    def handle(self, *_: Any, command: Sequence[str], traceback: bool = False, **__: Any) -> None:
        from penstock.cli import app as penstock

        given = _placed(_without_djangos(command), project_app()) or ["--help"]
        given = ["--traceback", *given] if traceback else given
        with _as_if_typed(given):
            try:
                penstock(args=given, prog_name="manage.py penstock")
            except SystemExit as end:
                if end.code:
                    raise


def _placed(command: list[str], app: DjangoPenstock) -> list[str]:
    """The command with what this project knows: its app, its database, the queues to serve."""
    match command:
        case ["work", *options]:
            os.environ["PYTHONPATH"] = os.pathsep.join(_project_folders())
            return ["work", APP, *options]
        case ["enqueue", *options]:
            return ["enqueue", f"--app={APP}", *options]
        case _:
            os.environ |= {DATABASE_URL: app.url, SCHEMA: app.database.schema}
            return command


def _project_folders() -> Iterator[str]:
    """Where this process finds the project's code: further processes of a worker need it too."""
    installed = tuple(sysconfig.get_path(name) for name in INSTALLED)
    return (each for each in sys.path if each and not each.startswith(installed))


@contextmanager
def _as_if_typed(given: Sequence[str]) -> Iterator[None]:
    """The command line as `penstock` would have it: it starts further processes by it."""
    before, sys.argv = sys.argv, ["penstock", *given]
    try:
        yield
    finally:
        sys.argv = before


def _without_djangos(command: Sequence[str]) -> list[str]:
    """Without the options of every Django command, which it has taken to heart by now."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--settings")
    parser.add_argument("--pythonpath")
    return parser.parse_known_args(list(command))[1]

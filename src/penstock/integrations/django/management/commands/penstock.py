"""`manage.py penstock …`: Penstock's own commands, with the project's app and database."""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
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

        given, environment = _placed(_without_djangos(command), project_app())
        given = given or ["--help"]
        given = ["--traceback", *given] if traceback else given
        with _as_if_typed(given, environment):
            try:
                penstock(args=given, prog_name="manage.py penstock")
            except SystemExit as end:
                if end.code:
                    raise


def _placed(command: list[str], app: DjangoPenstock) -> tuple[list[str], dict[str, str]]:
    """The command with what this project knows, and the environment that tells it the rest."""
    match command:
        case ["work", *options]:
            return ["work", APP, *options], {"PYTHONPATH": os.pathsep.join(_project_folders())}
        case ["enqueue", *options]:
            return ["enqueue", f"--app={APP}", *options], {}
        case _:
            return command, {DATABASE_URL: app.url, SCHEMA: app.database.schema}


def _project_folders() -> Iterator[str]:
    """Where this process finds the project's code: further processes of a worker need it too."""
    installed = tuple(sysconfig.get_path(name) for name in INSTALLED)
    return (each for each in sys.path if each and not each.startswith(installed))


@contextmanager
def _as_if_typed(given: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
    """The command line and environment that `penstock` would have: further processes start by them.

    They are taken back afterwards, for programs that go on after `call_command`.
    """
    before = {name: os.environ.get(name) for name in environment}
    typed, sys.argv = sys.argv, ["penstock", *given]
    os.environ.update(environment)
    try:
        yield
    finally:
        sys.argv = typed
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _without_djangos(command: Sequence[str]) -> list[str]:
    """Without the options of every Django command, which it has taken to heart by now."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--settings")
    parser.add_argument("--pythonpath")
    return parser.parse_known_args(list(command))[1]

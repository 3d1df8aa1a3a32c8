"""`manage.py penstock …` runs Penstock's commands with the project's app and database."""

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
LIBRARY_PATHS = ("stdlib", "platstdlib", "purelib", "platlib")


class Command(BaseCommand):
    help = (
        "Penstock's commands for this project: work, jobs, queues, workers, doctor and more. "
        "`manage.py penstock` alone lists them, `manage.py penstock work --help` explains one."
    )
    requires_system_checks = (TAG,)

    def run_from_argv(self, argv: list[str]) -> None:
        # Penstock's own help is shown, not Django's.
        asks_for_help = argv[2:] in (["-h"], ["--help"])
        super().run_from_argv(argv[:2] if asks_for_help else argv)

    def print_help(self, *_: str) -> None:
        self.handle(command=())

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("command", nargs=argparse.REMAINDER, help="a command, with its options")

    def handle(self, *_: Any, command: Sequence[str], traceback: bool = False, **__: Any) -> None:
        from penstock.cli import app as penstock

        arguments, environment = _for_project(_without_django_options(command), project_app())
        arguments = arguments or ["--help"]
        arguments = ["--traceback", *arguments] if traceback else arguments
        with _as_own_program(arguments, environment):
            try:
                penstock(args=arguments, prog_name="manage.py penstock")
            except SystemExit as end:
                if end.code:
                    raise


def _for_project(command: list[str], app: DjangoPenstock) -> tuple[list[str], dict[str, str]]:
    """Return the command for the project's app and database, and the environment to run it in."""
    match command:
        case ["work", *options]:
            return ["work", APP, *options], {"PYTHONPATH": os.pathsep.join(_project_folders())}
        case ["enqueue", *options]:
            return ["enqueue", f"--app={APP}", *options], {}
        case _:
            return command, {DATABASE_URL: app.url, SCHEMA: app.database.schema}


def _project_folders() -> Iterator[str]:
    """Yield the folders of the project's code, which the worker's other processes import from."""
    installed = tuple(sysconfig.get_path(name) for name in LIBRARY_PATHS)
    return (each for each in sys.path if each and not each.startswith(installed))


@contextmanager
def _as_own_program(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
    """Set the command line and environment as if `penstock` had been started by itself.

    Penstock starts other processes with both. They are restored after the block, for programs that
    go on after `call_command`.
    """
    before = {name: os.environ.get(name) for name in environment}
    original, sys.argv = sys.argv, ["penstock", *arguments]
    os.environ.update(environment)
    try:
        yield
    finally:
        sys.argv = original
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _without_django_options(command: Sequence[str]) -> list[str]:
    """Remove the options that all Django commands have. Django has applied them already."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--settings")
    parser.add_argument("--pythonpath")
    return parser.parse_known_args(list(command))[1]
